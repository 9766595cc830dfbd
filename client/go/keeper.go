package listwatch

import (
	"context"
	"time"
)

// settle is how long changes wait for the point that completes their revision. Listwatch's
// servers send it with them; one that does not must not keep changes back until the next
// interval ends.
const settle = 100 * time.Millisecond

// keeper is the goroutine behind a reflector: from events to snapshots. Only it touches its
// fields.
type keeper[T any] struct {
	reflector *Reflector[T]
	watcher   *Watcher
	replica   *replica[T]

	revision    int64
	resumeToken string
	// torn: the stream broke while changes waited for their point. They may be half of a
	// revision, of which the next stream tells the other half.
	torn bool
	// target is what a resumed stream has to reach before the copy is in step again; 0 if
	// there is no such thing.
	target int64
	// settleAt is when changes are shown even without their point. Zero: not waiting.
	settleAt time.Time
}

func (k *keeper[T]) run(parent context.Context) {
	defer close(k.reflector.done)
	defer k.watcher.Close()
	for {
		event, err := k.next(parent)
		switch {
		case err == nil:
			k.take(event)
			if k.watcher.responseIsDone() {
				k.endResponse()
			}
		case k.isSettled(err):
			k.settleAt = time.Time{}
			k.publish()
		default:
			k.stop(err)
			return
		}
	}
}

// next waits for an event, no longer than until changes are to be shown.
func (k *keeper[T]) next(parent context.Context) (Event, error) {
	if k.settleAt.IsZero() {
		return k.watcher.Next(parent)
	}
	ctx, cancel := context.WithDeadline(parent, k.settleAt)
	defer cancel()
	return k.watcher.Next(ctx)
}

// isSettled tells whether Next returned for the sake of settleAt alone.
func (k *keeper[T]) isSettled(err error) bool {
	return err == context.DeadlineExceeded && !k.settleAt.IsZero() && k.watcher.life.Err() == nil
}

func (k *keeper[T]) take(event Event) {
	switch event.Kind {
	case InitBegin, NetBegin, ManifestBegin:
		// Before it in the same response are whole revisions.
		if !k.torn {
			k.publish()
		}
		k.behind(nil)
	case Disconnected:
		k.torn = k.replica.hasChanges()
		k.target = 0
		k.behind(event.Disconnect)
	}
	outcome := k.replica.apply(event)
	if outcome == appliedContradiction {
		k.watcher.Restart()
		return
	}
	if event.Kind.IsPoint() {
		if event.Kind == Resumed {
			k.target = max(event.Point.LatestRevision, event.Point.Revision)
		} else {
			k.torn = false
		}
		k.reach(event, outcome == appliedSwapped)
	}
}

// reach takes a point: everything up to it is in the copy.
func (k *keeper[T]) reach(event Event, swapped bool) {
	point := event.Point
	if point.ResumeToken != "" {
		k.resumeToken = point.ResumeToken
	}
	// Back only with a whole new state, which may be of another store.
	if swapped {
		k.revision = point.Revision
	} else {
		k.revision = max(k.revision, point.Revision)
	}
	if !k.torn {
		k.publish()
	}
	inStep := swapped || k.revision >= k.target
	if inStep {
		k.target = 0
	}
	r := k.reflector
	r.mu.Lock()
	defer r.mu.Unlock()
	if inStep && !r.status.Ready {
		for s := range r.subscriptions {
			s.markSynced()
		}
	}
	r.update(func(status *ReflectorStatus) {
		status.LatestRevision = max(point.LatestRevision, point.Revision)
		status.Disconnect = nil
		if event.Kind == InitDone {
			status.InitialStates++
		}
		if inStep {
			status.StaleSince = time.Time{}
			status.Ready = true
		}
	})
}

// endResponse: all of a response has been taken. Changes without a point wait for it a
// moment, counted from the first of them.
func (k *keeper[T]) endResponse() {
	r := k.reflector
	r.mu.Lock()
	if r.status.Disconnect == nil {
		r.status.LastResponse = time.Now()
	}
	r.mu.Unlock()
	switch {
	case !k.replica.hasChanges() || k.torn:
		k.settleAt = time.Time{}
	case k.settleAt.IsZero():
		k.settleAt = time.Now().Add(settle)
	}
}

// behind tells readers that the copy grows stale.
func (k *keeper[T]) behind(why *Disconnect) {
	r := k.reflector
	r.mu.Lock()
	defer r.mu.Unlock()
	r.update(func(status *ReflectorStatus) {
		if status.StaleSince.IsZero() {
			status.StaleSince = time.Now()
		}
		status.Disconnect = why
	})
}

// publish lets readers see the current state.
func (k *keeper[T]) publish() {
	r := k.reflector
	shown := r.Snapshot()
	if !k.replica.hasChanges() && shown.revision == k.revision && shown.resumeToken == k.resumeToken {
		return
	}
	changes := k.replica.publish()
	// Without a point, the changes themselves say how far the state is.
	k.revision = max(k.revision, k.replica.newest)
	snapshot := &Snapshot[T]{
		objects:     k.replica.published.share(),
		revision:    k.revision,
		resumeToken: k.resumeToken,
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// First, so that a subscriber who looks finds at least what it was told.
	r.snapshot.Store(snapshot)
	for s := range r.subscriptions {
		s.push(changes)
	}
	r.update(func(status *ReflectorStatus) {
		status.Revision = k.revision
		status.LatestRevision = max(status.LatestRevision, k.revision)
	})
}

// stop tells everyone that nothing more comes.
func (k *keeper[T]) stop(err error) {
	r := k.reflector
	r.mu.Lock()
	defer r.mu.Unlock()
	r.update(func(status *ReflectorStatus) {
		if status.StaleSince.IsZero() {
			status.StaleSince = time.Now()
		}
		status.Err = err
	})
	for s := range r.subscriptions {
		s.stop(err)
	}
	clear(r.subscriptions)
}
