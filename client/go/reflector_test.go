package listwatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
)

func textOf(resource *Resource) (string, error) {
	text := string(resource.GetValue())
	resource.Value = nil
	return text, nil
}

func withPatience(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func values(snapshot *Snapshot[string]) []string {
	var all []string
	for _, object := range snapshot.All() {
		all = append(all, object.Value)
	}
	return all
}

func TestAReflectorShowsConsistentStates(t *testing.T) {
	next := make(chan struct{})
	fake := &fakeServer{watches: []func(*fakeStream) error{
		func(s *fakeStream) error {
			s.send(response(bookmark(stateBegin, 2)), response(nil, change(existing, "a@1")))
			<-next
			s.send(response(bookmark(stateEnd, 2), change(existing, "b@2")))
			<-next
			s.send(response(bookmark(progress, 4), change(modified, "a@3"), change(deleted, "b@4")))
			<-next
			return nil
		},
		func(s *fakeStream) error {
			s.send(response(bookmark(stateBegin, 5)), response(bookmark(stateEnd, 5), change(existing, "c@5")))
			return s.stay()
		},
	}}
	ctx := withPatience(t)
	r := NewReflector(ctx, dialFake(t, fake), pods, textOf, impatient()...)
	defer r.Close()
	changes := r.Subscribe()
	defer changes.Close()

	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := r.WaitUntilReady(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if r.Snapshot().Len() != 0 || r.Status().Ready {
		t.Error("half an initial state is shown")
	}
	next <- struct{}{}
	first, err := r.WaitUntilReady(ctx)
	if err != nil || !slices.Equal(values(first), []string{"a@1", "b@2"}) || first.Revision() != 2 {
		t.Fatalf("%v, %v", first, err)
	}
	if status := r.Status(); status.Stale() || first.ResumeToken() != "t2" {
		t.Errorf("%+v, token %q", status, first.ResumeToken())
	}
	next <- struct{}{}
	second, err := r.WaitForRevision(ctx, 4)
	if err != nil || !slices.Equal(values(second), []string{"a@3"}) {
		t.Fatalf("%v, %v", second, err)
	}
	if !slices.Equal(values(first), []string{"a@1", "b@2"}) {
		t.Error("an old snapshot has changed")
	}
	next <- struct{}{}
	if _, err := r.WaitForRevision(ctx, 5); err != nil {
		t.Fatal(err)
	}
	if a, ok := r.Get(ObjectKey{"default", "a"}); ok {
		t.Errorf("%+v is still there", a)
	}
	if c, ok := r.Get(ObjectKey{"default", "c"}); !ok || c.Value != "c@5" || c.Revision() != 5 || c.UID() != "uid-c" {
		t.Errorf("%+v", c)
	}

	// Whatever was coalesced, a subscriber's copy is the snapshot in the end.
	copied := map[ObjectKey]int64{}
	synced := false
	for len(copied) != 1 || copied[ObjectKey{"default", "c"}] != 5 {
		notice, err := changes.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case notice.Synced:
			synced = true
		case notice.New == nil:
			delete(copied, notice.Key)
		default:
			copied[notice.Key] = notice.New.Revision()
		}
	}
	if !synced {
		t.Error("not synced")
	}
}

func TestChangesWithoutAPointAreShownSoon(t *testing.T) {
	fake := &fakeServer{watches: []func(*fakeStream) error{func(s *fakeStream) error {
		s.send(response(bookmark(stateBegin, 1)), response(bookmark(stateEnd, 1)), response(nil, change(added, "a@2")))
		return s.stay()
	}}}
	ctx := withPatience(t)
	r := dialFake(t, fake).Reflector(ctx, pods)
	defer r.Close()
	if snapshot, err := r.WaitForRevision(ctx, 2); err != nil || snapshot.Len() != 1 {
		t.Errorf("%v, %v", snapshot, err)
	}
}

func TestARefusedReflectorCanStillBeRead(t *testing.T) {
	refused := make(chan struct{})
	fake := &fakeServer{watches: []func(*fakeStream) error{func(s *fakeStream) error {
		s.send(response(bookmark(stateBegin, 1)), response(bookmark(stateEnd, 1), change(existing, "a@1")))
		<-refused
		return failure(codes.PermissionDenied, errorDomain, "", -1)
	}}}
	ctx := withPatience(t)
	r := dialFake(t, fake).Reflector(ctx, pods)
	defer r.Close()
	if _, err := r.WaitUntilReady(ctx); err != nil {
		t.Fatal(err)
	}
	close(refused)
	if _, err := r.WaitForRevision(ctx, 2); !errors.Is(err, ErrRefused) || !errors.Is(err, ErrDenied) {
		t.Error(err)
	}
	status := r.Status()
	if r.Snapshot().Len() != 1 || !status.Stale() || !errors.Is(status.Err, ErrRefused) {
		t.Errorf("%+v", status)
	}
	// Who comes late is told what is held, and then why there is no more.
	late := r.Subscribe()
	var told []string
	for notice, err := range late.All(ctx) {
		told = append(told, fmt.Sprintf("%q %t %t", notice.Key.Name, notice.Synced, errors.Is(err, ErrRefused)))
	}
	if want := []string{`"a" false false`, `"" true false`, `"" false true`}; !slices.Equal(told, want) {
		t.Errorf("told %q", told)
	}
}

func TestASlowSubscriberHoldsUpNoOne(t *testing.T) {
	const versions = 2000
	fake := &fakeServer{watches: []func(*fakeStream) error{func(s *fakeStream) error {
		s.send(response(bookmark(stateBegin, 1)), response(bookmark(stateEnd, 1)))
		for revision := int64(2); revision <= versions; revision++ {
			name := fmt.Sprintf("n%d@%d", revision%10, revision)
			s.send(response(bookmark(progress, revision), change(upserted, name)))
		}
		return s.stay()
	}}}
	ctx := withPatience(t)
	r := dialFake(t, fake).Reflector(ctx, pods)
	defer r.Close()
	slow, quick := r.Subscribe(), r.Subscribe()
	defer slow.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for notice, err := range quick.All(ctx) {
			if err != nil || notice.New != nil && notice.New.Revision() == versions {
				return
			}
		}
	}()
	if _, err := r.WaitForRevision(ctx, versions); err != nil {
		t.Fatal(err)
	}
	<-done
	if waiting := slow.Waiting(); waiting != 10 {
		t.Errorf("%d wait", waiting)
	}
	quick.Close()
	r.Close()
	if err := r.Status().Err; err != ErrClosed {
		t.Error(err)
	}
}
