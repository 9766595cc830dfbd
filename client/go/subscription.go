package listwatch

import (
	"container/list"
	"context"
	"iter"
	"sync"
)

// Notice is what a subscriber is told. The notices of one key fit together: Old is the
// very object that this subscriber was told of last. A slow one misses versions in
// between, never the newest, and never the end of an object that it was told of.
type Notice[T any] struct {
	// Synced tells, once and with nothing else set, that everything which existed when the
	// reflector first was in step with the server has been told.
	Synced bool
	// Key is that of the object.
	Key ObjectKey
	// Old is nil for an object that this subscriber does not know of.
	Old *Object[T]
	// New is nil for an object that is gone, or no longer selected. If its uid is not
	// Old's, the old object ended and another took its name.
	New *Object[T]
}

// Subscription is one subscriber's view of a reflector's changes. Made by
// [Reflector.Subscribe]. Close it in the end.
//
// It is bounded: each key waits in it once, with the newest version, so that it holds no
// more than the objects that exist and those that its reader was told of. No subscriber
// holds up another.
type Subscription[T any] struct {
	// changed has a word in it when there may be something to take.
	changed chan struct{}
	// leave takes the subscription off its reflector.
	leave func()

	mu      sync.Mutex
	entries map[ObjectKey]*list.Element
	// order has a *waiting for each entry, oldest first: a key that changes often does not
	// push itself back.
	order     *list.List
	nextPlace uint64
	// syncedAt is the place before which everything is part of the first state.
	syncedAt     uint64
	synced, told bool
	// end is why nothing more will come; nil until then.
	end error
}

// waiting is a key that is to be told.
type waiting[T any] struct {
	key   ObjectKey
	place uint64
	// told is what the subscriber was told last.
	told, newest *Object[T]
}

func newSubscription[T any]() *Subscription[T] {
	return &Subscription[T]{
		changed: make(chan struct{}, 1),
		leave:   func() {},
		entries: make(map[ObjectKey]*list.Element),
		order:   list.New(),
	}
}

// Next waits for the next notice. It returns ctx's error if that ends first (nothing is
// lost: call it again), and after all has been told what stopped the reflector: a
// [WatchError], or [ErrClosed]. One goroutine at a time may call it.
func (s *Subscription[T]) Next(ctx context.Context) (Notice[T], error) {
	for {
		notice, ok, err := s.take()
		if ok || err != nil {
			return notice, err
		}
		select {
		case <-s.changed:
		case <-ctx.Done():
			return Notice[T]{}, ctx.Err()
		}
	}
}

// All gives the notices to a loop. The last element is the error of [Subscription.Next].
// Leaving the loop does not close the subscription.
func (s *Subscription[T]) All(ctx context.Context) iter.Seq2[Notice[T], error] {
	return func(yield func(Notice[T], error) bool) {
		for {
			notice, err := s.Next(ctx)
			if !yield(notice, err) || err != nil {
				return
			}
		}
	}
}

// Waiting is how many keys wait to be told.
func (s *Subscription[T]) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.entries)
}

// Close ends the subscription and forgets what waits. A Next that waits returns
// [ErrClosed].
func (s *Subscription[T]) Close() {
	s.leave()
	s.mu.Lock()
	s.end = ErrClosed
	s.synced = false
	s.order.Init()
	clear(s.entries)
	s.mu.Unlock()
	s.wake()
}

func (s *Subscription[T]) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// take gives the next notice, if there is one, or the end.
func (s *Subscription[T]) take() (Notice[T], bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.order.Front()
	if s.synced && !s.told && (first == nil || first.Value.(*waiting[T]).place >= s.syncedAt) {
		s.told = true
		return Notice[T]{Synced: true}, true, nil
	}
	if first == nil {
		return Notice[T]{}, false, s.end
	}
	w := s.order.Remove(first).(*waiting[T])
	delete(s.entries, w.key)
	return Notice[T]{Key: w.key, Old: w.told, New: w.newest}, true, nil
}

func (s *Subscription[T]) push(changes []keyChange[T]) {
	s.mu.Lock()
	if s.end == nil {
		for _, change := range changes {
			s.pushOne(change)
		}
	}
	s.mu.Unlock()
	s.wake()
}

func (s *Subscription[T]) pushOne(change keyChange[T]) {
	if element, ok := s.entries[change.key]; ok {
		w := element.Value.(*waiting[T])
		w.newest = change.new
		// It came and went, or changed back, unseen.
		if sameObject(w.told, w.newest) {
			s.order.Remove(element)
			delete(s.entries, change.key)
		}
		return
	}
	w := &waiting[T]{key: change.key, place: s.nextPlace, told: change.old, newest: change.new}
	s.nextPlace++
	s.entries[change.key] = s.order.PushBack(w)
}

// markSynced says that what waits now is the rest of the first state.
func (s *Subscription[T]) markSynced() {
	s.mu.Lock()
	if !s.synced && s.end == nil {
		s.synced, s.syncedAt = true, s.nextPlace
	}
	s.mu.Unlock()
	s.wake()
}

// stop lets what waits be told, and then the error.
func (s *Subscription[T]) stop(err error) {
	s.mu.Lock()
	if s.end == nil {
		s.end = err
	}
	s.mu.Unlock()
	s.wake()
}
