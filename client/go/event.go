package listwatch

import (
	"fmt"
	"time"

	listwatchv1 "listwatch.dev/go/listwatch/v1"
)

// EventKind says what an [Event] tells, and which of its fields are set.
type EventKind int

// A copy kept by these rules equals the server's state at every point (InitDone, CaughtUp,
// Resumed, Bookmark): between InitBegin and InitDone, and between NetBegin or
// ManifestBegin and CaughtUp, work on a second copy and swap it in at the end; throw it
// away if Disconnected or another begin comes first. Everything else applies to the copy
// itself, in order. A [Reflector] does all that.
const (
	// InitBegin: everything that exists follows as InitApply. Go on serving what you hold
	// until InitDone.
	InitBegin EventKind = iota + 1
	// InitApply: Object is part of the initial state.
	InitApply
	// InitDone: the initial state is complete at Point. What was not named is gone.
	InitDone
	// Resumed: a stream goes on at Point, where the last one stopped, and every change
	// since follows.
	Resumed
	// NetBegin: the net difference since the last point follows: one Apply or Delete for
	// each key that changed, up to CaughtUp.
	NetBegin
	// ManifestBegin: what changed since the last point follows as Apply and what did not
	// as Unchanged. At CaughtUp, what was not named is gone.
	ManifestBegin
	// CaughtUp: the net difference or the manifest is complete at Point.
	CaughtUp
	// Apply: Object exists and is in this state. Change, and Previous if it was asked for,
	// say how that came about.
	Apply
	// Delete: Object is gone, or no longer selected (Cause); its revision is that of the
	// deletion. It may be one that you never held.
	Delete
	// Unchanged: of a manifest: Object is as it was at the last point. It has key, uid and
	// revision only.
	Unchanged
	// Bookmark: everything up to Point has been told.
	Bookmark
	// Disconnected: the stream is lost (Disconnect says why); another is opened by itself.
	// What you hold grows stale.
	Disconnected
)

var eventKinds = map[EventKind]string{
	InitBegin: "init_begin", InitApply: "init_apply", InitDone: "init_done",
	Resumed: "resumed", NetBegin: "net_begin", ManifestBegin: "manifest_begin",
	CaughtUp: "caught_up", Apply: "apply", Delete: "delete", Unchanged: "unchanged",
	Bookmark: "bookmark", Disconnected: "disconnected",
}

// String gives the kind in lower case, such as init_begin.
func (k EventKind) String() string { return nameIn(eventKinds, k) }

// IsPoint tells whether an event of this kind has a Point.
func (k EventKind) IsPoint() bool {
	return k == InitDone || k == Resumed || k == CaughtUp || k == Bookmark
}

// Change says how an object came to be as an Apply shows it.
type Change int

const (
	// Added: it was created, or matches the selector from now on.
	Added Change = iota + 1
	// Modified: it was there before.
	Modified
	// Upserted: only your own copy can tell. Another uid under a key that you hold means
	// that the old object was deleted first.
	Upserted
)

var changes = map[Change]string{Added: "added", Modified: "modified", Upserted: "upserted"}

// String gives the change in lower case.
func (c Change) String() string { return nameIn(changes, c) }

// Event is one step of a watch. Kind says which of the other fields are set.
type Event struct {
	// Kind is always set.
	Kind EventKind
	// Object is set for InitApply, Apply, Delete and Unchanged. It is the receiver's own.
	Object *Resource
	// Previous is the state before an Apply or a Delete, if [WithPrevious] asked for it and
	// the server still has it.
	Previous *Resource
	// Change is set for Apply.
	Change Change
	// Cause is set for Delete.
	Cause listwatchv1.DeleteCause
	// Point is set for InitDone, Resumed, CaughtUp and Bookmark.
	Point Point
	// Disconnect is set for Disconnected.
	Disconnect *Disconnect
}

// String is for logs, such as "apply default/a at revision 7 (modified)".
func (e Event) String() string {
	switch {
	case e.Kind.IsPoint():
		return fmt.Sprintf("%s at revision %d", e.Kind, e.Point.Revision)
	case e.Disconnect != nil:
		return fmt.Sprintf("%s: %s", e.Kind, e.Disconnect)
	case e.Object == nil:
		return e.Kind.String()
	}
	text := fmt.Sprintf("%s %s at revision %d", e.Kind, objectKeyOf(e.Object.GetKey()), e.Object.GetRevision())
	if e.Change != 0 {
		text += " (" + e.Change.String() + ")"
	}
	return text
}

// Point is a place in the history from which a watch can go on.
type Point struct {
	// Revision is up to where everything has been told.
	Revision int64
	// ResumeToken starts a watch of the same selector here ([FromToken]). Opaque.
	ResumeToken string
	// LatestRevision is the store's newest when this was sent.
	LatestRevision int64
	// Coalesced is how many changes DELIVERY_MODE_LATEST left out since the last point.
	Coalesced int64
}

func pointOf(b *listwatchv1.Bookmark) Point {
	return Point{
		Revision:       b.GetRevision(),
		ResumeToken:    b.GetResumeToken(),
		LatestRevision: b.GetLatestRevision(),
		Coalesced:      b.GetCoalescedCount(),
	}
}

// DisconnectCause says why a stream was lost.
type DisconnectCause int

const (
	// StreamEnded: the server ended it with OK.
	StreamEnded DisconnectCause = iota + 1
	// GoingAway: the server said that it is going away.
	GoingAway
	// Silent: nothing came for two and a half bookmark intervals.
	Silent
	// NoResponse: the first response did not come in time.
	NoResponse
	// NoProgress: an initial state, net difference or manifest stood still.
	NoProgress
	// Restarted: [Watcher.Restart] was called.
	Restarted
	// StreamFailed: an error that goes away by itself, or with a new initial state;
	// [Disconnect.Err] has it.
	StreamFailed
)

var disconnectCauses = map[DisconnectCause]string{
	StreamEnded: "ended", GoingAway: "going_away", Silent: "silent",
	NoResponse: "no_response", NoProgress: "no_progress", Restarted: "restarted",
	StreamFailed: "error",
}

// String gives the cause in lower case.
func (c DisconnectCause) String() string { return nameIn(disconnectCauses, c) }

// Disconnect is the loss of a stream.
type Disconnect struct {
	// Cause is always set.
	Cause DisconnectCause
	// Err is set for StreamFailed.
	Err *Error
	// RetryIn is how long after this event's making the next stream is opened.
	RetryIn time.Duration
}

// String is for logs.
func (d *Disconnect) String() string {
	if d.Err != nil {
		return fmt.Sprintf("%s, next stream in %s", d.Err, d.RetryIn)
	}
	return fmt.Sprintf("%s, next stream in %s", d.Cause, d.RetryIn)
}

// nameIn is the name of a constant, or its type and number.
func nameIn[K ~int](names map[K]string, k K) string {
	if name, ok := names[k]; ok {
		return name
	}
	return fmt.Sprintf("%T(%d)", k, int(k))
}
