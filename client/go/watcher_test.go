package listwatch

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	listwatchv1 "listwatch.dev/go/listwatch/v1"
)

var pods = &Selector{Collection: "pods"}

// nextEvents takes so many events.
func nextEvents(t *testing.T, w *Watcher, count int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var texts []string
	for range count {
		event, err := w.Next(ctx)
		if err != nil {
			t.Fatalf("after %q: %v", texts, err)
		}
		texts = append(texts, shown(event))
	}
	return texts
}

func expectEvents(t *testing.T, w *Watcher, want ...string) {
	t.Helper()
	if got := nextEvents(t, w, len(want)); !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
}

func TestALostStreamIsResumedAndNothingIsToldTwice(t *testing.T) {
	fake := &fakeServer{watches: []func(*fakeStream) error{
		func(s *fakeStream) error {
			s.send(response(bookmark(stateBegin, 1)), response(bookmark(stateEnd, 1), change(existing, "a@1")))
			s.send(response(nil, change(added, "b@2"), change(added, "c@3")))
			return status.Error(codes.Unavailable, "lost")
		},
		func(s *fakeStream) error {
			s.send(response(bookmark(resumed, 1)))
			s.send(response(bookmark(progress, 3), change(added, "b@2"), change(added, "c@3"), change(added, "d@3")))
			return s.stay()
		},
	}}
	w := dialFake(t, fake).NewWatcher(context.Background(), pods, impatient()...)
	defer w.Close()
	expectEvents(t, w, "init_begin", "init_apply a@1", "init_done t1", "apply b@2 added")
	if w.ResumeToken() != "t1" {
		t.Errorf("token %q", w.ResumeToken())
	}
	expectEvents(t, w, "apply c@3 added", "disconnected error", "resumed t1", "apply d@3 added", "bookmark t3")
	if w.ResumeToken() != "t3" {
		t.Errorf("token %q", w.ResumeToken())
	}
	if got := fake.starts(); !slices.Equal(got, []string{"initial", "t1"}) {
		t.Errorf("starts %q", got)
	}
}

func TestAWatchThatIsRefusedEnds(t *testing.T) {
	fake := &fakeServer{watches: []func(*fakeStream) error{
		func(*fakeStream) error { return failure(codes.PermissionDenied, errorDomain, "", -1) },
	}}
	client := dialFake(t, fake)
	count := 0
	for event, err := range client.Watch(context.Background(), pods) {
		count++
		var e *Error
		if !errors.Is(err, ErrRefused) || !errors.Is(err, ErrDenied) || !errors.As(err, &e) {
			t.Errorf("got %v, %v", event, err)
		}
	}
	if count != 1 {
		t.Errorf("%d elements", count)
	}
}

func TestExpiredHistoryStartsOverOrEnds(t *testing.T) {
	expired := func(*fakeStream) error {
		return failure(codes.OutOfRange, errorDomain, ReasonRevisionCompacted, -1)
	}
	fake := &fakeServer{watches: []func(*fakeStream) error{expired, func(s *fakeStream) error {
		s.send(response(bookmark(stateBegin, 9)))
		return s.stay()
	}}}
	client := dialFake(t, fake)
	w := client.NewWatcher(context.Background(), pods, impatient(FromToken("t1"))...)
	expectEvents(t, w, "disconnected error", "init_begin")
	w.Close()
	if got := fake.starts(); !slices.Equal(got, []string{"t1", "initial"}) {
		t.Errorf("starts %q", got)
	}

	fake.mu.Lock()
	fake.watches = []func(*fakeStream) error{expired}
	fake.mu.Unlock()
	w = client.NewWatcher(context.Background(), pods, FromToken("t1"), FailOnExpired())
	defer w.Close()
	for range 2 {
		if _, err := w.Next(context.Background()); !errors.Is(err, ErrExpired) || errors.Is(err, ErrRefused) {
			t.Error(err)
		}
	}
}

func TestNextCanBeGivenUpAndLosesNothing(t *testing.T) {
	goOn := make(chan struct{})
	fake := &fakeServer{watches: []func(*fakeStream) error{func(s *fakeStream) error {
		s.send(response(bookmark(stateBegin, 1)))
		<-goOn
		s.send(response(bookmark(stateEnd, 1)))
		return s.stay()
	}}}
	w := dialFake(t, fake).NewWatcher(context.Background(), pods)
	defer w.Close()
	expectEvents(t, w, "init_begin")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := w.Next(ctx); err != context.DeadlineExceeded {
		t.Error(err)
	}
	close(goOn)
	expectEvents(t, w, "init_done t1")
}

func TestClosingCancelsTheStreamAndEndsNext(t *testing.T) {
	gone := make(chan struct{})
	fake := &fakeServer{watches: []func(*fakeStream) error{func(s *fakeStream) error {
		defer close(gone)
		s.send(response(bookmark(stateBegin, 1)))
		return s.stay()
	}}}
	w := dialFake(t, fake).NewWatcher(context.Background(), pods)
	expectEvents(t, w, "init_begin")
	ended := make(chan error)
	go func() {
		_, err := w.Next(context.Background())
		ended <- err
	}()
	w.Close()
	if err := <-ended; err != ErrClosed {
		t.Error(err)
	}
	select {
	case <-gone:
	case <-time.After(patience):
		t.Error("the stream goes on")
	}
}

func TestLeavingTheLoopCancelsTheStream(t *testing.T) {
	gone := make(chan struct{})
	fake := &fakeServer{watches: []func(*fakeStream) error{func(s *fakeStream) error {
		defer close(gone)
		s.send(response(bookmark(stateBegin, 1)))
		return s.stay()
	}}}
	client := dialFake(t, fake)
	for _, err := range client.Watch(context.Background(), pods) {
		if err != nil {
			t.Error(err)
		}
		break
	}
	select {
	case <-gone:
	case <-time.After(patience):
		t.Error("the stream goes on")
	}
}

func TestTheContextEndsAWatch(t *testing.T) {
	fake := &fakeServer{watches: []func(*fakeStream) error{func(s *fakeStream) error {
		s.send(response(bookmark(stateBegin, 1)))
		return s.stay()
	}}}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var last error
	for event, err := range dialFake(t, fake).Watch(ctx, pods) {
		last = err
		if event.Kind == InitBegin {
			cancel()
		}
	}
	if last != context.Canceled {
		t.Error(last)
	}
}

func TestSilenceIsWhatTheWaitingHear(t *testing.T) {
	fake := &fakeServer{watches: []func(*fakeStream) error{func(s *fakeStream) error {
		s.send(response(bookmark(stateBegin, 1)), response(bookmark(stateEnd, 1)))
		return s.stay()
	}}}
	w := dialFake(t, fake).NewWatcher(context.Background(), pods, impatient(WithBookmarkInterval(100*time.Millisecond))...)
	defer w.Close()
	expectEvents(t, w, "init_begin", "init_done t1")
	// Nobody waits: nobody hears the silence.
	time.Sleep(400 * time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if event, err := w.Next(ctx); err != context.DeadlineExceeded {
		t.Errorf("got %s, %v", shown(event), err)
	}
	expectEvents(t, w, "disconnected silent")
}

func TestWhoDoesNotReadHoldsTheServerBack(t *testing.T) {
	var sent atomic.Int64
	fake := &fakeServer{watches: []func(*fakeStream) error{func(s *fakeStream) error {
		s.send(response(bookmark(stateBegin, 1)), response(bookmark(stateEnd, 1)))
		big := change(added, "big@2")
		big.Resource.Value = make([]byte, 64<<10)
		for s.Context().Err() == nil {
			if s.Send(&listwatchv1.WatchResponse{Events: []*listwatchv1.WatchEvent{big}}) == nil {
				sent.Add(64 << 10)
			}
		}
		return s.Context().Err()
	}}}
	w := dialFake(t, fake).NewWatcher(context.Background(), pods)
	defer w.Close()
	expectEvents(t, w, "init_begin", "init_done t1")
	var before int64 = -1
	eventually(t, "the server to be held back", func() bool {
		now := sent.Load()
		still := now == before
		before = now
		time.Sleep(50 * time.Millisecond)
		return still
	})
	// The window, what the server's side buffers, and one response that is read ahead.
	if limit := int64(streamWindowBytes + 1<<20); before > limit {
		t.Errorf("%d bytes were sent to a client that does not read", before)
	}
}
