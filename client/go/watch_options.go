package listwatch

import (
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	listwatchv1 "listwatch.dev/go/listwatch/v1"
)

const (
	// DefaultBookmarkInterval is how often the server is asked to say where it is. With the
	// 2.5 intervals of silence that are put up with, a dead stream is noticed after 25 s.
	DefaultBookmarkInterval = 10 * time.Second
	// DefaultFirstResponseTimeout is from opening a stream to its first response.
	DefaultFirstResponseTimeout = 30 * time.Second
	// DefaultProgressTimeout is between two events of an initial state that has not ended.
	DefaultProgressTimeout = 60 * time.Second
)

// WatchOption is a setting of a watch or a reflector.
type WatchOption func(*watchOptions)

type watchOptions struct {
	start                start
	view                 listwatchv1.View
	deliveryMode         listwatchv1.DeliveryMode
	catchUp              listwatchv1.CatchUp
	consistency          *listwatchv1.Consistency
	sendPrevious         bool
	maxBatchDelay        time.Duration
	bookmarkInterval     time.Duration
	firstResponseTimeout time.Duration
	progressTimeout      time.Duration
	failOnExpired        bool
	backoff              Backoff
	draw                 func() float64
}

// start is where a stream begins. The zero value is the initial state.
type start struct {
	token         string
	afterRevision int64
	// kind tells which of the fields counts; zero values of these are legal to send.
	kind startKind
}

type startKind int

const (
	fromInitialState startKind = iota
	fromToken
	fromRevision
	fromNow
)

// FromToken starts after the point that a bookmark or a list of the same selector named.
// Default: with the initial state.
func FromToken(token string) WatchOption {
	return func(o *watchOptions) { o.start = start{kind: fromToken, token: token} }
}

// AfterRevision starts with the first change after this revision.
func AfterRevision(revision int64) WatchOption {
	return func(o *watchOptions) { o.start = start{kind: fromRevision, afterRevision: revision} }
}

// FromNow starts with the first change after the server takes the request.
func FromNow() WatchOption {
	return func(o *watchOptions) { o.start = start{kind: fromNow} }
}

// WithView says how much of each object to send. Default: all.
func WithView(view listwatchv1.View) WatchOption {
	return func(o *watchOptions) { o.view = view }
}

// WithDeliveryMode says what a slow reader gets. Default: every change.
func WithDeliveryMode(mode listwatchv1.DeliveryMode) WatchOption {
	return func(o *watchOptions) { o.deliveryMode = mode }
}

// WithCatchUp says what to get when the history after the position is compacted. Default:
// the net difference.
func WithCatchUp(catchUp listwatchv1.CatchUp) WatchOption {
	return func(o *watchOptions) { o.catchUp = catchUp }
}

// WithConsistency is of the first initial state. Default: linearizable.
func WithConsistency(consistency *listwatchv1.Consistency) WatchOption {
	return func(o *watchOptions) { o.consistency = consistency }
}

// WithPrevious asks for the state before each change.
func WithPrevious() WatchOption {
	return func(o *watchOptions) { o.sendPrevious = true }
}

// WithMaxBatchDelay lets the server hold events back this long for fewer, larger
// responses.
func WithMaxBatchDelay(delay time.Duration) WatchOption {
	return func(o *watchOptions) { o.maxBatchDelay = delay }
}

// WithBookmarkInterval is the longest silence that the server is asked to keep. After two
// and a half such intervals another stream is opened, so it must be within the server's
// limits. Default: 10 s.
func WithBookmarkInterval(interval time.Duration) WatchOption {
	return func(o *watchOptions) { o.bookmarkInterval = interval }
}

// WithFirstResponseTimeout is how long the first response of a stream may take, the
// connection included. Default: 30 s.
func WithFirstResponseTimeout(timeout time.Duration) WatchOption {
	return func(o *watchOptions) { o.firstResponseTimeout = timeout }
}

// WithProgressTimeout is how long an initial state, net difference or manifest may go
// without an event and without its end. Default: 60 s.
func WithProgressTimeout(timeout time.Duration) WatchOption {
	return func(o *watchOptions) { o.progressTimeout = timeout }
}

// FailOnExpired ends the watch with [ErrExpired] when the history after its position is
// gone. Default: it goes on with a new initial state. Reflectors always do.
func FailOnExpired() WatchOption {
	return func(o *watchOptions) { o.failOnExpired = true }
}

// WithBackoff sets the delays between attempts. Default: 800 ms, doubled up to 30 s.
func WithBackoff(backoff Backoff) WatchOption {
	return func(o *watchOptions) { o.backoff = backoff }
}

// WithJitter is where the draws come from: numbers from 0 to 1. Each watch asks by one
// goroutine at a time. For tests.
func WithJitter(draw func() float64) WatchOption {
	return func(o *watchOptions) { o.draw = draw }
}

func watchOptionsOf(options []WatchOption) watchOptions {
	o := watchOptions{
		bookmarkInterval:     DefaultBookmarkInterval,
		firstResponseTimeout: DefaultFirstResponseTimeout,
		progressTimeout:      DefaultProgressTimeout,
		backoff:              defaultBackoff,
		draw:                 rand.Float64,
	}
	for _, option := range options {
		option(&o)
	}
	return o
}

// silenceLimit is how long a stream may say nothing.
func (o *watchOptions) silenceLimit() time.Duration {
	return o.bookmarkInterval * 5 / 2
}

func (o *watchOptions) request(selector *Selector, from start) *listwatchv1.WatchRequest {
	request := &listwatchv1.WatchRequest{
		Selector:         proto.CloneOf(selector),
		View:             o.view,
		DeliveryMode:     o.deliveryMode,
		SendPrevious:     o.sendPrevious,
		BookmarkInterval: durationpb.New(o.bookmarkInterval),
		CatchUp:          o.catchUp,
	}
	if o.maxBatchDelay > 0 {
		request.MaxBatchDelay = durationpb.New(o.maxBatchDelay)
	}
	switch from.kind {
	case fromInitialState:
		request.Start = &listwatchv1.WatchRequest_InitialState{
			InitialState: &listwatchv1.InitialState{Consistency: o.consistency},
		}
	case fromToken:
		request.Start = &listwatchv1.WatchRequest_ResumeToken{ResumeToken: from.token}
	case fromRevision:
		request.Start = &listwatchv1.WatchRequest_AfterRevision{AfterRevision: from.afterRevision}
	case fromNow:
		request.Start = &listwatchv1.WatchRequest_Now{Now: true}
	}
	return request
}
