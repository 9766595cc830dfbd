package listwatch

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"
)

// Reflector keeps a copy of what a selector matches in step with the server, and shows
// snapshots of it. What it holds is served while the stream is down, however long, and
// after the reflector has stopped too: then it is stale ([Reflector.Status]).
//
// Close it in the end.
type Reflector[T any] struct {
	snapshot atomic.Pointer[Snapshot[T]]
	watcher  *Watcher
	// done is closed when the reflector's goroutine has ended.
	done chan struct{}

	// mu guards all below. It is locked while a snapshot is published, so that who
	// subscribes misses nothing between the snapshot and the first notice.
	mu     sync.Mutex
	status ReflectorStatus
	// changed is closed, and replaced, whenever the status changes.
	changed       chan struct{}
	subscriptions map[*Subscription[T]]struct{}
}

// ReflectorStatus is how a reflector is doing at one moment.
type ReflectorStatus struct {
	// Ready tells whether it has ever been in step with the server.
	Ready bool
	// StaleSince is since when the snapshot may miss changes that the server has made;
	// zero while the reflector is in step.
	StaleSince time.Time
	// Revision is that of the snapshot.
	Revision int64
	// LatestRevision is the newest that the server spoke of.
	LatestRevision int64
	// LastResponse is when the server last said anything; zero if it never did.
	LastResponse time.Time
	// InitialStates counts those that were received to their end: one, unless history
	// expired.
	InitialStates int
	// Disconnect is why there is no stream now; nil while there is one.
	Disconnect *Disconnect
	// Err is what stopped the reflector: a [WatchError], [ErrClosed], or its context's
	// error. Nil while it runs.
	Err error
}

// Stale tells whether the snapshot may miss changes that the server has made.
func (s *ReflectorStatus) Stale() bool { return !s.StaleSince.IsZero() }

// Reflector keeps a copy of what selector matches, undecoded. See [NewReflector].
func (c *Client) Reflector(ctx context.Context, selector *Selector, options ...WatchOption) *Reflector[*Resource] {
	asItIs := func(resource *Resource) (*Resource, error) { return resource, nil }
	return NewReflector(ctx, c, selector, asItIs, options...)
}

// NewReflector keeps a copy of what selector matches, each version made a T by decode once.
// It starts at once, and runs until it is closed, ctx ends, or the watch is refused.
//
// decode is called by one goroutine at a time. It may take the resource apart, and set its
// Value to nil so that no one holds it twice. An object whose decoding fails is in the
// snapshot nonetheless, with the error ([Object.DecodeErr]).
//
// Of the options, where to start and what to do about expiry are left aside: a reflector
// begins with the initial state, and starts over when history is gone.
func NewReflector[T any](
	ctx context.Context,
	client *Client,
	selector *Selector,
	decode func(*Resource) (T, error),
	options ...WatchOption,
) *Reflector[T] {
	watcher := client.NewWatcher(ctx, selector, options...)
	watcher.nextStart = start{}
	watcher.options.failOnExpired = false
	r := &Reflector[T]{
		watcher:       watcher,
		done:          make(chan struct{}),
		status:        ReflectorStatus{StaleSince: time.Now()},
		changed:       make(chan struct{}),
		subscriptions: make(map[*Subscription[T]]struct{}),
	}
	r.snapshot.Store(&Snapshot[T]{})
	keeper := &keeper[T]{reflector: r, watcher: watcher, replica: newReplica(decode)}
	go keeper.run(ctx)
	return r
}

// Snapshot is the newest consistent state. It never waits.
func (r *Reflector[T]) Snapshot() *Snapshot[T] { return r.snapshot.Load() }

// Get gives one object of the newest state. For several that fit together take a
// [Reflector.Snapshot].
func (r *Reflector[T]) Get(key ObjectKey) (*Object[T], bool) { return r.Snapshot().Get(key) }

// All gives all objects of the newest state in the order of their keys.
func (r *Reflector[T]) All() iter.Seq2[ObjectKey, *Object[T]] { return r.Snapshot().All() }

// Revision is that of the newest state; 0 before the first came.
func (r *Reflector[T]) Revision() int64 { return r.Snapshot().Revision() }

// Status is how the reflector is doing.
func (r *Reflector[T]) Status() ReflectorStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// WaitUntilReady waits until the copy has been in step with the server for the first time.
// It fails with ctx's error, or with what stopped the reflector.
func (r *Reflector[T]) WaitUntilReady(ctx context.Context) (*Snapshot[T], error) {
	return r.wait(ctx, "to be ready", func(status *ReflectorStatus) bool { return status.Ready })
}

// WaitForRevision waits until the snapshot shows at least this revision: after a write,
// that of the write's answer, to read what was written. What the selector does not match
// is passed by the next bookmark, so allow for a bookmark interval. It fails with ctx's
// error, or with what stopped the reflector.
func (r *Reflector[T]) WaitForRevision(ctx context.Context, revision int64) (*Snapshot[T], error) {
	what := fmt.Sprintf("for revision %d", revision)
	return r.wait(ctx, what, func(status *ReflectorStatus) bool { return status.Revision >= revision })
}

func (r *Reflector[T]) wait(ctx context.Context, what string, holds func(*ReflectorStatus) bool) (*Snapshot[T], error) {
	for {
		r.mu.Lock()
		status, changed := r.status, r.changed
		r.mu.Unlock()
		if holds(&status) {
			return r.Snapshot(), nil
		}
		if status.Err != nil {
			return nil, fmt.Errorf("the reflector has stopped: %w", status.Err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the reflector %s: %w", what, ctx.Err())
		}
	}
}

// Subscribe tells of every object that exists now and then of every change, to be read by
// [Subscription.Next].
func (r *Reflector[T]) Subscribe() *Subscription[T] {
	s := newSubscription[T]()
	s.leave = func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.subscriptions, s)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	snapshot := r.Snapshot()
	existing := make([]keyChange[T], 0, snapshot.Len())
	for key, object := range snapshot.All() {
		existing = append(existing, keyChange[T]{key: key, new: object})
	}
	s.push(existing)
	if r.status.Ready {
		s.markSynced()
	}
	if r.status.Err != nil {
		s.stop(r.status.Err)
		return s
	}
	r.subscriptions[s] = struct{}{}
	return s
}

// Close stops the reflector and returns when its stream is cancelled. What it held can
// still be read. Subscribers are told what waits, and then [ErrClosed].
func (r *Reflector[T]) Close() {
	r.watcher.Close()
	<-r.done
}

// update changes the status and wakes who waits for it. The caller holds mu.
func (r *Reflector[T]) update(change func(*ReflectorStatus)) {
	change(&r.status)
	close(r.changed)
	r.changed = make(chan struct{})
}
