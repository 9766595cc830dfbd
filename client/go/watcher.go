package listwatch

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	listwatchv1 "listwatch.dev/go/listwatch/v1"
)

const (
	// shortestGoodStream: one that ends sooner counts as a failure, however politely it
	// ends. A server (or a proxy) that ends every stream at once would otherwise be called
	// in a tight loop.
	shortestGoodStream = time.Second
	// healthyAfter: a stream of this length has proved that the server is well, and the next
	// failure is a new one.
	healthyAfter = 120 * time.Second
	// reconnectSpread spreads those that reconnect without backoff, since a server that
	// goes away sends all its clients at one moment.
	reconnectSpread = 200 * time.Millisecond
	// shortestRetryAfter counts however soon the server says.
	shortestRetryAfter = 100 * time.Millisecond
	// maxAttemptsAhead is how often the same position is tried on servers that are behind
	// it; a lagging replica catches up within the time that this takes.
	maxAttemptsAhead = 5
	// maxUnexplained is how often to start over for a reason that is not known.
	maxUnexplained = 5
)

// Watch gives the events of what selector matches: everything that exists, and then every
// change; options say otherwise. The stream reconnects, resumes and starts over by itself,
// and goes on until the loop is left or the watch ends with an error, which then comes as
// the last element, with no event: ctx's own, or a [WatchError] ([ErrRefused], or
// [ErrExpired] under [FailOnExpired]).
//
//	for event, err := range client.Watch(ctx, selector) {
//
// Nothing is queued: while the loop's body works, no event is read, and the server is held
// back. The token to go on from is that of the last point ([Point.ResumeToken]). Leaving
// the loop cancels the stream. [Client.NewWatcher] gives finer control.
func (c *Client) Watch(ctx context.Context, selector *Selector, options ...WatchOption) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		watcher := c.NewWatcher(ctx, selector, options...)
		defer watcher.Close()
		for {
			event, err := watcher.Next(ctx)
			if !yield(event, err) || err != nil {
				return
			}
		}
	}
}

// Watcher is a watch of which events are taken one by one. Close it in the end.
//
// Only one Next runs at a time. ResumeToken and Close may be called while one does.
type Watcher struct {
	open     func(context.Context, *listwatchv1.WatchRequest) (listwatchv1.ListWatchService_WatchClient, error)
	selector *Selector
	options  watchOptions
	delays   *delays

	life   context.Context
	cancel context.CancelFunc
	// parent is what life was made from, to tell its end from Close.
	parent context.Context

	// position is the token of the last point whose events have all been given out; nil
	// while there is none.
	position atomic.Pointer[string]

	// mu guards all below. Next holds it while it waits.
	mu sync.Mutex
	// nextStart is where the next stream starts while there is no position.
	nextStart start
	// told is what has been given out since the position.
	told told
	// syncing tells that what is given out belongs to an initial state or catches up: that
	// is told again as a whole after a disconnection, and told does not concern it.
	syncing bool
	// ready is what of the last response has not been given out.
	ready []Event
	// stream is nil while there is none.
	stream *stream
	// retryAt is when the next stream may be opened.
	retryAt time.Time
	// ended is what Next goes on to return after the watch ended by itself.
	ended error
	// attemptsAhead, unexplained and hasty count in a row: positions ahead of the server,
	// errors without a known reason, and reconnections without backoff that led to a short
	// stream.
	attemptsAhead, unexplained, hasty int
}

// NewWatcher makes a watch of what selector matches. It opens its stream with the first
// Next. ctx is for all of its life: it ends when ctx does, and ctx's values (outgoing
// metadata) go with each stream.
func (c *Client) NewWatcher(ctx context.Context, selector *Selector, options ...WatchOption) *Watcher {
	o := watchOptionsOf(options)
	life, cancel := context.WithCancel(ctx)
	return &Watcher{
		open: func(ctx context.Context, request *listwatchv1.WatchRequest) (listwatchv1.ListWatchService_WatchClient, error) {
			return c.service.Watch(ctx, request, c.callOptions())
		},
		selector:  proto.CloneOf(selector),
		options:   o,
		delays:    newDelays(o.backoff, o.draw),
		life:      life,
		cancel:    cancel,
		parent:    ctx,
		nextStart: o.start,
	}
}

// ResumeToken is that of the last point whose events have all been given out: where to go
// on after a restart of the program. Empty before the first.
func (w *Watcher) ResumeToken() string {
	if token := w.position.Load(); token != nil {
		return *token
	}
	return ""
}

// Next waits for the next event. When ctx ends first, its error is returned and nothing is
// lost: call Next again. Every other error is the end and comes again: a [WatchError],
// [ErrClosed], or the error of the context that the watcher was made with.
func (w *Watcher) Next(ctx context.Context) (Event, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		if err := w.endOfLife(); err != nil {
			return Event{}, err
		}
		if event, ok := w.nextReady(); ok {
			return event, nil
		}
		if w.ended != nil {
			return Event{}, w.ended
		}
		if err := ctx.Err(); err != nil {
			return Event{}, err
		}
		if w.stream == nil {
			if !w.waitForRetry(ctx) {
				continue
			}
			w.openNext()
		}
		w.step(ctx)
	}
}

// endOfLife is the error of a watcher that was closed, or whose context ended.
func (w *Watcher) endOfLife() error {
	if w.life.Err() == nil {
		return nil
	}
	w.closeStream()
	if err := w.parent.Err(); err != nil {
		return err
	}
	return ErrClosed
}

// Close ends the watch and cancels its stream. A Next that waits returns [ErrClosed].
func (w *Watcher) Close() {
	w.cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closeStream()
}

// Restart forgets the position and goes on with a new initial state, after backoff. For
// when a copy has turned out not to be what the server takes it for.
func (w *Watcher) Restart() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended != nil {
		return
	}
	w.ready = nil
	w.closeStream()
	w.startOver()
	w.disconnect(Disconnect{Cause: Restarted, RetryIn: w.delays.next()})
}

// responseIsDone tells whether every event of the last response has been given out. Events
// of one response belong together.
func (w *Watcher) responseIsDone() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.ready) == 0
}

// nextReady gives out the next event of the last response, and with a point takes its
// token: not before, since who stops reading here has not seen what comes before the point.
func (w *Watcher) nextReady() (Event, bool) {
	if len(w.ready) == 0 {
		return Event{}, false
	}
	event := w.ready[0]
	// What was given out is the receiver's, and not kept alive from here.
	w.ready[0] = Event{}
	w.ready = w.ready[1:]
	switch {
	case event.Kind.IsPoint():
		if token := event.Point.ResumeToken; token != "" {
			w.position.Store(&token)
		}
		w.told.clear()
		w.syncing = false
	case event.Kind == InitBegin, event.Kind == NetBegin, event.Kind == ManifestBegin:
		w.syncing = true
	case event.Kind == Disconnected:
		w.syncing = false
	case (event.Kind == Apply || event.Kind == Delete) && !w.syncing:
		w.told.record(event.Object)
	}
	return event, true
}

// waitForRetry waits until the next stream may be opened. False if a context ended first.
func (w *Watcher) waitForRetry(ctx context.Context) bool {
	delay := time.Until(w.retryAt)
	if delay <= 0 {
		return true
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-w.life.Done():
	}
	return false
}

func (w *Watcher) openNext() {
	from := w.nextStart
	if token := w.position.Load(); token != nil {
		from = start{kind: fromToken, token: *token}
	}
	now := phaseOpenedResuming
	if from.kind == fromInitialState {
		now = phaseOpenedInitial
	}
	request := w.options.request(w.selector, from)
	open := func(ctx context.Context) (listwatchv1.ListWatchService_WatchClient, error) {
		return w.open(ctx, request)
	}
	w.stream = openStream(w.life, open, now, &w.options)
	w.stream.repeats, w.told = w.told, told{}
}

// step waits for a response, or for what ends the stream.
func (w *Watcher) step(ctx context.Context) {
	got, how := w.stream.wait(ctx, w.life)
	switch how {
	case waitedCanceled:
	case waitedSilent:
		cause := Silent
		if w.stream.phase.isOpened() {
			cause = NoResponse
		}
		w.lose(Disconnect{Cause: cause})
	case waitedNoProgress:
		w.lose(Disconnect{Cause: NoProgress})
	case waitedResponse:
		switch {
		case w.life.Err() != nil:
			// The error, if it is one, is that of this watcher's own end.
		case got.err != nil:
			w.lose(Disconnect{Cause: StreamFailed, Err: newError(got.err)})
		case got.response == nil:
			w.lose(Disconnect{Cause: StreamEnded})
		default:
			w.take(got.response)
		}
	}
}

// take makes events of a response.
func (w *Watcher) take(response *listwatchv1.WatchResponse) {
	s := w.stream
	if s.since.IsZero() {
		s.since = time.Now()
	}
	w.attemptsAhead = 0
	s.silence = w.options.silenceLimit()
	wasSyncing := s.phase.isSyncing()
	meant, breach := translate(s.phase, response, &s.repeats)
	if breach != nil {
		w.lose(Disconnect{Cause: StreamFailed, Err: breach})
		return
	}
	s.phase = meant.next
	if len(response.GetEvents()) > 0 || s.phase.isSyncing() && !wasSyncing {
		s.progress = w.options.progressTimeout
	}
	if s.phase == phaseLive {
		w.unexplained = 0
	}
	for _, event := range meant.events {
		// At a point beyond the stream's start, what earlier streams told is behind.
		if event.Kind.IsPoint() && event.Kind != Resumed {
			s.repeats.clear()
		}
	}
	w.ready = meant.events
	if meant.goingAway {
		w.lose(Disconnect{Cause: GoingAway})
	}
}

// lose gives up the stream and decides when and from where to go on, or that no way leads
// on.
func (w *Watcher) lose(lost Disconnect) {
	lived, responded := w.stream.lived()
	w.told.absorb(w.stream.repeats)
	w.closeStream()
	good := responded && lived >= shortestGoodStream
	if responded && lived >= healthyAfter {
		w.delays.reset()
	}
	if good {
		w.hasty = 0
	}
	switch {
	case lost.Err != nil:
		w.loseByError(lost)
		return
	case lost.Cause == StreamEnded && good:
		lost.RetryIn = w.delays.jittered(reconnectSpread)
	case lost.Cause == GoingAway && w.hasty == 0:
		if !good {
			w.hasty++
		}
		lost.RetryIn = w.delays.jittered(reconnectSpread)
	default:
		lost.RetryIn = w.delays.next()
	}
	w.disconnect(lost)
}

func (w *Watcher) loseByError(lost Disconnect) {
	fails := w.options.failOnExpired
	switch judge(lost.Err) {
	case resume:
	case refused:
		w.end(ErrRefused, lost.Err)
		return
	case ahead:
		w.attemptsAhead++
		if w.attemptsAhead >= maxAttemptsAhead {
			if fails {
				w.end(ErrExpired, lost.Err)
				return
			}
			w.attemptsAhead = 0
			w.startOver()
		}
	case badToken:
		// One that the server gave to this watcher went bad with the server; the caller's
		// own is the caller's mistake.
		if w.position.Load() == nil || fails {
			w.end(ErrRefused, lost.Err)
			return
		}
		w.startOver()
	case dataLoss:
		w.startOver()
	case startOver, unexplained:
		if fails {
			w.end(ErrExpired, lost.Err)
			return
		}
		// An initial state cannot expire, unless it was asked for at a revision.
		if judge(lost.Err) == unexplained || w.startsWithState() {
			w.unexplained++
			if w.unexplained >= maxUnexplained {
				w.end(ErrRefused, lost.Err)
				return
			}
		}
		w.startOver()
	}
	if lost.Err.HasRetryAfter {
		// At least what the server says, and not everyone at the same moment.
		delay := max(lost.Err.RetryAfter, shortestRetryAfter)
		lost.RetryIn = delay + w.delays.jittered(delay/10)
	} else {
		lost.RetryIn = w.delays.next()
	}
	w.disconnect(lost)
}

func (w *Watcher) startsWithState() bool {
	return w.position.Load() == nil && w.nextStart.kind == fromInitialState
}

// startOver has the next stream begin with the initial state.
func (w *Watcher) startOver() {
	w.position.Store(nil)
	w.nextStart = start{}
	w.told.clear()
	// A revision that was asked for at the start is of the past, perhaps of another store.
	w.options.consistency = nil
}

// disconnect tells of a lost stream after what it still gave.
func (w *Watcher) disconnect(lost Disconnect) {
	w.retryAt = time.Now().Add(lost.RetryIn)
	w.ready = append(w.ready, Event{Kind: Disconnected, Disconnect: &lost})
}

func (w *Watcher) end(kind error, err *Error) {
	w.ended = &WatchError{Kind: kind, Err: err}
}

func (w *Watcher) closeStream() {
	if w.stream != nil {
		w.stream.close()
		w.stream = nil
	}
}
