package listwatch

import listwatchv1 "listwatch.dev/go/listwatch/v1"

// phase is where a stream is.
type phase int

const (
	// phaseOpenedInitial: the first response is outstanding, and must begin the initial
	// state that was asked for.
	phaseOpenedInitial phase = iota
	// phaseOpenedResuming: the first response is outstanding, and says what follows.
	phaseOpenedResuming
	// phaseInitial: between INITIAL_STATE_BEGIN and INITIAL_STATE_END.
	phaseInitial
	// phaseNet: between NET_BEGIN and INITIAL_STATE_END.
	phaseNet
	// phaseManifest: between MANIFEST_BEGIN and INITIAL_STATE_END.
	phaseManifest
	// phaseLive: every change as it comes.
	phaseLive
)

func (p phase) isOpened() bool { return p == phaseOpenedInitial || p == phaseOpenedResuming }

// isSyncing tells whether the stream owes an end of what it has begun.
func (p phase) isSyncing() bool {
	return p == phaseInitial || p == phaseNet || p == phaseManifest
}

// translated is what a response meant.
type translated struct {
	events    []Event
	next      phase
	goingAway bool
}

// translate reads a response of a stream in phase now. Changes that were told before, by a
// stream that broke, are left out.
func translate(now phase, response *listwatchv1.WatchResponse, before *told) (translated, *Error) {
	if now.isOpened() && len(response.GetEvents()) > 0 {
		return translated{}, breach("events before the first bookmark")
	}
	t := translated{next: now, events: make([]Event, 0, len(response.GetEvents())+1)}
	for _, sent := range response.GetEvents() {
		event, ok := translateEvent(now, sent)
		if ok && !(now == phaseLive && repeats(event, before)) {
			t.events = append(t.events, event)
		}
	}
	bookmark := response.GetBookmark()
	if bookmark == nil {
		return t, nil
	}
	next, kind, err := takeBookmark(now, bookmark.GetKind())
	if err != nil {
		return translated{}, err
	}
	t.next = next
	t.goingAway = bookmark.GetKind() == listwatchv1.BookmarkKind_BOOKMARK_KIND_GOING_AWAY
	if kind != 0 {
		event := Event{Kind: kind}
		if kind.IsPoint() {
			event.Point = pointOf(bookmark)
		}
		t.events = append(t.events, event)
	}
	return t, nil
}

func repeats(event Event, before *told) bool {
	return (event.Kind == Apply || event.Kind == Delete) && before.includes(event.Object)
}

// takeBookmark gives the phase after a bookmark and the kind of event that it makes, 0 for
// none. Kinds of a newer server are progress.
func takeBookmark(now phase, kind listwatchv1.BookmarkKind) (phase, EventKind, *Error) {
	switch kind {
	case listwatchv1.BookmarkKind_BOOKMARK_KIND_INITIAL_STATE_BEGIN:
		return phaseInitial, InitBegin, nil
	case listwatchv1.BookmarkKind_BOOKMARK_KIND_NET_BEGIN:
		return phaseNet, NetBegin, nil
	case listwatchv1.BookmarkKind_BOOKMARK_KIND_MANIFEST_BEGIN:
		return phaseManifest, ManifestBegin, nil
	case listwatchv1.BookmarkKind_BOOKMARK_KIND_INITIAL_STATE_END:
		switch now {
		case phaseInitial:
			return phaseLive, InitDone, nil
		case phaseNet, phaseManifest:
			return phaseLive, CaughtUp, nil
		default:
			return now, 0, breach("the end of what never began")
		}
	case listwatchv1.BookmarkKind_BOOKMARK_KIND_GOING_AWAY:
		if now.isOpened() {
			// Not even its first word: the position stays what it was.
			return now, 0, nil
		}
	}
	switch now {
	case phaseOpenedInitial:
		return now, 0, breach("an initial state without its beginning")
	case phaseOpenedResuming:
		return phaseLive, Resumed, nil
	case phaseLive:
		return phaseLive, Bookmark, nil
	default:
		// A sign of life. Its token would skip what is still owed, or, in a net difference,
		// name a point at which no consistent copy exists.
		return now, 0, nil
	}
}

// translateEvent leaves out what has no object or no key: a client cannot act on it.
func translateEvent(now phase, sent *listwatchv1.WatchEvent) (Event, bool) {
	object := sent.GetResource()
	if object.GetKey() == nil {
		return Event{}, false
	}
	switch kind := sent.GetType(); {
	case kind == listwatchv1.EventType_EVENT_TYPE_DELETED:
		return Event{
			Kind: Delete, Object: object, Previous: sent.GetPrevious(), Cause: sent.GetDeleteCause(),
		}, true
	case kind == listwatchv1.EventType_EVENT_TYPE_UNCHANGED:
		return Event{Kind: Unchanged, Object: object}, true
	case now == phaseInitial:
		return Event{Kind: InitApply, Object: object}, true
	default:
		return Event{
			Kind: Apply, Object: object, Previous: sent.GetPrevious(), Change: changeOf(kind),
		}, true
	}
}

func changeOf(kind listwatchv1.EventType) Change {
	switch kind {
	case listwatchv1.EventType_EVENT_TYPE_ADDED:
		return Added
	case listwatchv1.EventType_EVENT_TYPE_UPSERTED, listwatchv1.EventType_EVENT_TYPE_EXISTING:
		return Upserted
	default:
		// The API says that unknown types are to be taken as MODIFIED.
		return Modified
	}
}
