package listwatch

import (
	"context"
	"errors"
	"testing"
	"time"
)

func version(name string) *Object[string] {
	resource := object(name)
	return &Object[string]{Key: objectKeyOf(resource.GetKey()), Resource: resource}
}

func pushed(s *Subscription[string], old, now *Object[string]) {
	key := ObjectKey{}
	for _, object := range []*Object[string]{old, now} {
		if object != nil {
			key = object.Key
		}
	}
	s.push([]keyChange[string]{{key, old, now}})
}

func nextNotice(t *testing.T, s *Subscription[string]) Notice[string] {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	notice, err := s.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return notice
}

func TestASlowSubscriberGetsTheNewestOfEachKey(t *testing.T) {
	s := newSubscription[string]()
	a1, a2, a3, b1 := version("a@1"), version("a@2"), version("a@3"), version("b@1")
	pushed(s, nil, a1)
	if got := nextNotice(t, s); got.Old != nil || got.New != a1 {
		t.Errorf("%+v", got)
	}
	pushed(s, a1, a2)
	pushed(s, nil, b1)
	pushed(s, a2, a3)
	if s.Waiting() != 2 {
		t.Errorf("%d wait", s.Waiting())
	}
	if got := nextNotice(t, s); got.Old != a1 || got.New != a3 {
		t.Errorf("a: %+v", got)
	}
	// It came and went unseen.
	pushed(s, b1, nil)
	if s.Waiting() != 0 {
		t.Errorf("%d wait", s.Waiting())
	}
	pushed(s, a3, nil)
	if got := nextNotice(t, s); got.Old != a3 || got.New != nil {
		t.Errorf("a: %+v", got)
	}
}

func TestSyncedComesAfterTheFirstState(t *testing.T) {
	s := newSubscription[string]()
	a1, a2 := version("a@1"), version("a@2")
	pushed(s, nil, a1)
	s.markSynced()
	pushed(s, nil, version("b@2"))
	pushed(s, a1, a2)
	if got := nextNotice(t, s); got.New != a2 {
		t.Errorf("%+v", got)
	}
	if got := nextNotice(t, s); !got.Synced {
		t.Errorf("%+v", got)
	}
	if got := nextNotice(t, s); got.Key.Name != "b" {
		t.Errorf("%+v", got)
	}
}

func TestWhatWaitsIsToldBeforeTheEnd(t *testing.T) {
	s := newSubscription[string]()
	pushed(s, nil, version("a@1"))
	why := errors.New("why")
	s.stop(why)
	if got := nextNotice(t, s); got.Key.Name != "a" {
		t.Errorf("%+v", got)
	}
	if _, err := s.Next(context.Background()); err != why {
		t.Error(err)
	}
	s.Close()
	if _, err := s.Next(context.Background()); err != ErrClosed {
		t.Error(err)
	}
}
