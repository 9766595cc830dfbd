package listwatch

import (
	"context"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	listwatchv1 "listwatch.dev/go/listwatch/v1"
)

// patience is how long a test waits for what must happen.
const patience = 5 * time.Second

// fakeServer does what a test says.
type fakeServer struct {
	listwatchv1.UnimplementedListWatchServiceServer
	// watches are what is done with one Watch after the other; the last one's again.
	watches []func(*fakeStream) error

	create func(context.Context, *CreateRequest) (*listwatchv1.CreateResponse, error)
	list   func(context.Context, *ListRequest) (*listwatchv1.ListResponse, error)

	mu    sync.Mutex
	asked []*listwatchv1.WatchRequest
}

// fakeStream is a Watch that was called.
type fakeStream struct {
	grpc.ServerStreamingServer[listwatchv1.WatchResponse]
}

// send sends responses; the receiver's absence is seen by Context.
func (s *fakeStream) send(responses ...*listwatchv1.WatchResponse) {
	for _, response := range responses {
		if s.Send(response) != nil {
			return
		}
	}
}

// stay waits until the client goes.
func (s *fakeStream) stay() error {
	<-s.Context().Done()
	return s.Context().Err()
}

func (f *fakeServer) Watch(request *listwatchv1.WatchRequest, stream grpc.ServerStreamingServer[listwatchv1.WatchResponse]) error {
	f.mu.Lock()
	at := min(len(f.asked), len(f.watches)-1)
	f.asked = append(f.asked, request)
	f.mu.Unlock()
	return f.watches[at](&fakeStream{stream})
}

// starts are the tokens that were asked for, "initial" for none.
func (f *fakeServer) starts() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var starts []string
	for _, request := range f.asked {
		if token := request.GetResumeToken(); token != "" {
			starts = append(starts, token)
		} else {
			starts = append(starts, "initial")
		}
	}
	return starts
}

func (f *fakeServer) Create(ctx context.Context, request *CreateRequest) (*listwatchv1.CreateResponse, error) {
	return f.create(ctx, request)
}

func (f *fakeServer) List(ctx context.Context, request *ListRequest) (*listwatchv1.ListResponse, error) {
	return f.list(ctx, request)
}

// dialFake gives a client of a fake server within this process. At the end of the test no
// goroutine may be left.
func dialFake(t *testing.T, fake *fakeServer, options ...Option) *Client {
	t.Helper()
	before := runtime.NumGoroutine()
	listener := bufconn.Listen(64 << 10)
	server := grpc.NewServer()
	listwatchv1.RegisterListWatchServiceServer(server, fake)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	options = append(options, WithDialOptions(grpc.WithContextDialer(
		func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) },
	)))
	client, err := Dial("passthrough:///fake", options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		server.Stop()
		<-served
		if !eventually(t, "all goroutines to end", func() bool { return runtime.NumGoroutine() <= before }) {
			t.Log(stacks())
		}
	})
	return client
}

func stacks() string {
	buffer := make([]byte, 1<<16)
	return string(buffer[:runtime.Stack(buffer, true)])
}

func eventually(t *testing.T, what string, holds func() bool) bool {
	t.Helper()
	for until := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Errorf("waited in vain for %s", what)
			return false
		}
	}
	return true
}

// impatient has watches lose no time.
func impatient(options ...WatchOption) []WatchOption {
	quick := WithBackoff(Backoff{Initial: time.Millisecond, Factor: 1, Max: time.Millisecond})
	return append([]WatchOption{quick}, options...)
}
