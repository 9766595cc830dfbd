package listwatch

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	listwatchv1 "listwatch.dev/go/listwatch/v1"
)

// script is a stream without a transport: its responses, and then its end.
type script struct {
	grpc.ClientStream
	responses []*listwatchv1.WatchResponse
	end       error
}

func (s *script) Recv() (*listwatchv1.WatchResponse, error) {
	if len(s.responses) == 0 {
		return nil, s.end
	}
	next := s.responses[0]
	s.responses = s.responses[1:]
	return next, nil
}

// scripted is a watcher over streams that all do the same, which draws no delays.
func scripted(end error, responses []*listwatchv1.WatchResponse, options ...WatchOption) *Watcher {
	client := New(nil)
	w := client.NewWatcher(context.Background(), pods, append(options, WithJitter(always(0)))...)
	w.open = func(context.Context, *listwatchv1.WatchRequest) (listwatchv1.ListWatchService_WatchClient, error) {
		return &script{responses: responses, end: end}, nil
	}
	return w
}

// lostTimes is how often the stream is lost before the watch ends, and the error.
func lostTimes(t *testing.T, w *Watcher) (int, error) {
	t.Helper()
	defer w.Close()
	for lost := 0; lost < 20; {
		event, err := w.Next(context.Background())
		if err != nil {
			return lost, err
		}
		if event.Kind == Disconnected {
			lost++
		}
	}
	return 20, nil
}

func TestHowOftenAPositionIsTried(t *testing.T) {
	future := failure(codes.OutOfRange, errorDomain, ReasonRevisionInFuture, -1)
	compacted := failure(codes.OutOfRange, errorDomain, ReasonRevisionCompacted, -1)
	unknown := failure(codes.OutOfRange, "", "", -1)
	invalid := failure(codes.InvalidArgument, errorDomain, ReasonTokenInvalid, -1)
	token, fail := FromToken("t1"), FailOnExpired()
	tests := []struct {
		name    string
		end     error
		options []WatchOption
		lost    int
		want    error
	}{
		{"future", future, []WatchOption{token}, 20, nil},
		{"future, fail", future, []WatchOption{token, fail}, 4, ErrExpired},
		{"unknown", unknown, []WatchOption{token}, 4, ErrRefused},
		{"unknown, fail", unknown, []WatchOption{token, fail}, 0, ErrExpired},
		{"compacted, fail", compacted, []WatchOption{token, fail}, 0, ErrExpired},
		// The first loss is the token's; an initial state cannot be compacted.
		{"compacted", compacted, []WatchOption{token}, 5, ErrRefused},
		{"a token of the caller's", invalid, []WatchOption{token}, 0, ErrRefused},
		{"data loss", failure(codes.DataLoss, "", "", -1), []WatchOption{token}, 20, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			lost, err := lostTimes(t, scripted(test.end, nil, test.options...))
			if lost != test.lost || test.want == nil && err != nil || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("lost %d times, then %v", lost, err)
			}
		})
	}
}

// delaysOf are the bounds of the first delays, drawn in full.
func delaysOf(t *testing.T, end error, count int, responses ...*listwatchv1.WatchResponse) []time.Duration {
	t.Helper()
	w := scripted(end, responses, WithBackoff(Backoff{Initial: time.Millisecond, Factor: 2, Max: time.Second}))
	w.delays.draw = always(1)
	defer w.Close()
	var delays []time.Duration
	for len(delays) < count {
		event, err := w.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if event.Kind == Disconnected {
			delays = append(delays, event.Disconnect.RetryIn)
		}
	}
	return delays
}

func TestHowLongToWait(t *testing.T) {
	ms := time.Millisecond
	tests := map[string]struct {
		end       error
		responses []*listwatchv1.WatchResponse
		want      []time.Duration
	}{
		"failures":              {status.Error(codes.Unavailable, ""), nil, []time.Duration{ms, 2 * ms, 4 * ms}},
		"what the server says":  {failure(codes.Unavailable, "", "", 200*ms), nil, []time.Duration{220 * ms, 220 * ms}},
		"at least a tenth":      {failure(codes.Unavailable, "", "", 0), nil, []time.Duration{110 * ms}},
		"an end at once":        {io.EOF, nil, []time.Duration{ms, 2 * ms}},
		"going away, and again": {io.EOF, []*listwatchv1.WatchResponse{response(bookmark(goingAway, 1))}, []time.Duration{200 * ms, ms, 2 * ms}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := delaysOf(t, test.end, len(test.want), test.responses...)
			for i := range got {
				if got[i] != test.want[i] {
					t.Fatalf("got %v, want %v", got, test.want)
				}
			}
		})
	}
}
