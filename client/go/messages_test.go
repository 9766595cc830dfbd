package listwatch

import (
	"strconv"
	"strings"

	listwatchv1 "listwatch.dev/go/listwatch/v1"
)

// The tests' short forms: "a@3" is the object a of uid "uid-a" at revision 3; "a@3#x" has the
// uid x.
func object(name string) *Resource {
	name, uid, hasUID := strings.Cut(name, "#")
	name, revision, _ := strings.Cut(name, "@")
	if !hasUID {
		uid = "uid-" + name
	}
	number, _ := strconv.ParseInt(revision, 10, 64)
	return &Resource{
		Key: &Key{Collection: "pods", Namespace: "default", Name: name},
		Uid: uid, Revision: number, Value: []byte(name + "@" + revision),
	}
}

const (
	existing  = listwatchv1.EventType_EVENT_TYPE_EXISTING
	added     = listwatchv1.EventType_EVENT_TYPE_ADDED
	modified  = listwatchv1.EventType_EVENT_TYPE_MODIFIED
	deleted   = listwatchv1.EventType_EVENT_TYPE_DELETED
	unchanged = listwatchv1.EventType_EVENT_TYPE_UNCHANGED
	upserted  = listwatchv1.EventType_EVENT_TYPE_UPSERTED

	progress      = listwatchv1.BookmarkKind_BOOKMARK_KIND_PROGRESS
	stateBegin    = listwatchv1.BookmarkKind_BOOKMARK_KIND_INITIAL_STATE_BEGIN
	resumed       = listwatchv1.BookmarkKind_BOOKMARK_KIND_RESUMED
	stateEnd      = listwatchv1.BookmarkKind_BOOKMARK_KIND_INITIAL_STATE_END
	goingAway     = listwatchv1.BookmarkKind_BOOKMARK_KIND_GOING_AWAY
	netBegin      = listwatchv1.BookmarkKind_BOOKMARK_KIND_NET_BEGIN
	manifestBegin = listwatchv1.BookmarkKind_BOOKMARK_KIND_MANIFEST_BEGIN
)

func change(kind listwatchv1.EventType, name string) *listwatchv1.WatchEvent {
	return &listwatchv1.WatchEvent{Type: kind, Resource: object(name)}
}

// bookmark has the token "tREVISION".
func bookmark(kind listwatchv1.BookmarkKind, revision int64) *listwatchv1.Bookmark {
	return &listwatchv1.Bookmark{
		Kind: kind, Revision: revision, LatestRevision: revision,
		ResumeToken: "t" + strconv.FormatInt(revision, 10),
	}
}

func response(bookmark *listwatchv1.Bookmark, events ...*listwatchv1.WatchEvent) *listwatchv1.WatchResponse {
	return &listwatchv1.WatchResponse{Events: events, Bookmark: bookmark}
}

// shown is an event in the short form.
func shown(event Event) string {
	text := event.Kind.String()
	switch {
	case event.Kind.IsPoint():
		text += " " + event.Point.ResumeToken
	case event.Object != nil:
		text += " " + event.Object.GetKey().GetName() + "@" + strconv.FormatInt(event.Object.GetRevision(), 10)
	case event.Disconnect != nil:
		text += " " + event.Disconnect.Cause.String()
	}
	if event.Change != 0 {
		text += " " + event.Change.String()
	}
	return text
}

func allShown(events []Event) []string {
	texts := make([]string, 0, len(events))
	for _, event := range events {
		texts = append(texts, shown(event))
	}
	return texts
}
