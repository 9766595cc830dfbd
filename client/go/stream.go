package listwatch

import (
	"context"
	"errors"
	"io"
	"time"

	listwatchv1 "listwatch.dev/go/listwatch/v1"
)

// stream is one open Watch. Its goroutine reads a response only when it is asked to, so at
// most one is read ahead of the receiver, and gRPC's flow control reaches the server.
type stream struct {
	cancel context.CancelFunc
	// asks has room for one ask; answers for the one that is outstanding.
	asks    chan struct{}
	answers chan answer
	// asked tells that an answer is outstanding.
	asked bool
	done  chan struct{}

	phase phase
	// repeats is what streams before this one told after the point at which this one
	// starts.
	repeats told
	// since is when the first response came. Zero before.
	since time.Time
	// silence is how much longer the next response may take, and progress the next event
	// while the phase is one that ends. Only time in which someone waits is taken off:
	// who reads slowly has not been left in silence.
	silence  time.Duration
	progress time.Duration
}

// answer is what reading a response came to. Neither field is set at a stream's OK end.
type answer struct {
	response *listwatchv1.WatchResponse
	err      error
}

type openFunc func(context.Context) (listwatchv1.ListWatchService_WatchClient, error)

// openStream begins to open a stream, and does not wait for it.
func openStream(ctx context.Context, open openFunc, now phase, o *watchOptions) *stream {
	ctx, cancel := context.WithCancel(ctx)
	s := &stream{
		cancel:   cancel,
		asks:     make(chan struct{}, 1),
		answers:  make(chan answer, 1),
		done:     make(chan struct{}),
		phase:    now,
		silence:  o.firstResponseTimeout,
		progress: o.progressTimeout,
	}
	go s.read(ctx, open)
	return s
}

func (s *stream) read(ctx context.Context, open openFunc) {
	defer close(s.done)
	watch, err := open(ctx)
	for {
		select {
		case <-s.asks:
		case <-ctx.Done():
			// Read to the end, which is near: gRPC then has told the server of the
			// cancellation before close returns.
			for err == nil {
				_, err = watch.Recv()
			}
			return
		}
		var response *listwatchv1.WatchResponse
		if err == nil {
			response, err = watch.Recv()
		}
		if errors.Is(err, io.EOF) {
			s.answers <- answer{}
			return
		}
		s.answers <- answer{response: response, err: err}
		if err != nil {
			return
		}
	}
}

// close cancels the stream and waits until that is done: the next one must not be opened
// before, since both would count against the server's limits.
func (s *stream) close() {
	s.cancel()
	<-s.done
}

// lived is how long ago the first response came, and whether one came.
func (s *stream) lived() (time.Duration, bool) {
	if s.since.IsZero() {
		return 0, false
	}
	return time.Since(s.since), true
}

// waited is how waiting for a response ended.
type waited int

const (
	// waitedResponse: there is an answer.
	waitedResponse waited = iota
	// waitedSilent: the response that is due did not come.
	waitedSilent
	// waitedNoProgress: events that are due did not come.
	waitedNoProgress
	// waitedCanceled: a context ended, and nothing is lost: the answer that is outstanding
	// comes with the next wait.
	waitedCanceled
)

// wait asks for a response and waits for it until a limit or the end of a context.
func (s *stream) wait(ctx, life context.Context) (answer, waited) {
	if !s.asked {
		s.asked = true
		s.asks <- struct{}{}
	}
	limit, late := s.silence, waitedSilent
	if s.phase.isSyncing() && s.progress < limit {
		limit, late = s.progress, waitedNoProgress
	}
	began := time.Now()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	how := waitedResponse
	var got answer
	select {
	case got = <-s.answers:
	case <-timer.C:
		how = late
	case <-ctx.Done():
		how = waitedCanceled
	case <-life.Done():
		how = waitedCanceled
	}
	if how == waitedSilent || how == waitedNoProgress {
		// A response before a limit that was reached at the same moment.
		select {
		case got = <-s.answers:
			how = waitedResponse
		default:
		}
	}
	took := time.Since(began)
	s.silence -= took
	s.progress -= took
	if how == waitedResponse {
		s.asked = false
	}
	return got, how
}
