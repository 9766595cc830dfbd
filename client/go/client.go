package listwatch

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	listwatchv1 "listwatch.dev/go/listwatch/v1"
)

const (
	// DefaultAddress is where a server listens unless told otherwise.
	DefaultAddress = "127.0.0.1:7450"
	// DefaultRequestTimeout is how long a unary call may take in all, retries included.
	DefaultRequestTimeout = 30 * time.Second
	// DefaultMaxMessageBytes is the largest response that is accepted: 64 MiB. A watch's
	// response can hold a whole batch of large objects, far above gRPC's usual 4 MiB.
	DefaultMaxMessageBytes = 64 << 20
)

const (
	// streamWindowBytes is what a stream may send before it is read. A fixed window also
	// keeps gRPC from growing it by its own measurements: a watch that is not read must
	// push back to the server.
	streamWindowBytes = 512 << 10
	// connectionWindowBytes is what all streams of the connection may. Far above one
	// stream's, since a watch whose reader is stuck keeps its share: 128 such leave the
	// others without a window.
	connectionWindowBytes = 64 << 20
	// connectTimeout is how long a connection may take to come about.
	connectTimeout = 10 * time.Second
)

// reconnect is how gRPC itself reconnects. Quickly: calls and watches have their own
// backoff, and meet the result of gRPC's last attempt until it makes another.
var reconnect = backoff.Config{
	BaseDelay:  50 * time.Millisecond,
	Multiplier: 1.6,
	Jitter:     0.2,
	MaxDelay:   time.Second,
}

// pings find dead connections, which otherwise would be used until the kernel gives up.
var pings = keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 20 * time.Second}

// Client calls a Listwatch server.
//
// Unary calls are tried up to four times within the request timeout when the server is
// unavailable. Writes too: each gets a random request_id unless the caller gives one,
// under which the server does it once and repeats its answer.
type Client struct {
	service  listwatchv1.ListWatchServiceClient
	admin    listwatchv1.AdminServiceClient
	settings settings
	// owned is the connection, if this client made it.
	owned *grpc.ClientConn
}

type settings struct {
	requestTimeout  time.Duration
	maxMessageBytes int
	tls             *tls.Config
	dial            []grpc.DialOption
	// draw gives the jitter between attempts.
	draw func() float64
}

// Option is a setting of a [Client].
type Option func(*settings)

// WithRequestTimeout bounds each unary call, its retries included. Default: 30 s; a
// shorter deadline of the call's context counts. Watches have no such limit.
func WithRequestTimeout(timeout time.Duration) Option {
	return func(s *settings) { s.requestTimeout = timeout }
}

// WithMaxMessageBytes sets the largest response that is accepted. Default: 64 MiB.
func WithMaxMessageBytes(bytes int) Option {
	return func(s *settings) { s.maxMessageBytes = bytes }
}

// WithTLS has [Dial] connect by TLS, as to a proxy before the server. Default: plain text.
func WithTLS(config *tls.Config) Option {
	return func(s *settings) { s.tls = config }
}

// WithDialOptions has [Dial] give gRPC further options, such as credentials for each call
// or interceptors. They come after this package's own and override them.
func WithDialOptions(options ...grpc.DialOption) Option {
	return func(s *settings) { s.dial = append(s.dial, options...) }
}

// New makes a client over a connection that the caller keeps and closes. [WithTLS] and
// [WithDialOptions] have no effect. Give the connection a fixed stream window and
// keepalive of your own, as [Dial] does.
func New(conn grpc.ClientConnInterface, options ...Option) *Client {
	return newClient(conn, settingsOf(options))
}

// Dial makes a client with a connection of its own to host:port, or http://host:port; the
// empty address is [DefaultAddress]. It does not wait for the connection: that comes about
// with the first call. Call [Client.Close] in the end.
//
// It fails only if the address or an option is malformed.
func Dial(address string, options ...Option) (*Client, error) {
	s := settingsOf(options)
	security := insecure.NewCredentials()
	if s.tls != nil {
		security = credentials.NewTLS(s.tls)
	}
	dial := append([]grpc.DialOption{
		grpc.WithTransportCredentials(security),
		grpc.WithUserAgent("listwatch-go/" + Version),
		grpc.WithStaticStreamWindowSize(streamWindowBytes),
		grpc.WithStaticConnWindowSize(connectionWindowBytes),
		grpc.WithKeepaliveParams(pings),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: reconnect, MinConnectTimeout: connectTimeout,
		}),
	}, s.dial...)
	conn, err := grpc.NewClient(cmp.Or(strings.TrimPrefix(address, "http://"), DefaultAddress), dial...)
	if err != nil {
		return nil, fmt.Errorf("listwatch: address %q: %w", address, err)
	}
	client := newClient(conn, s)
	client.owned = conn
	return client, nil
}

func settingsOf(options []Option) settings {
	s := settings{
		requestTimeout:  DefaultRequestTimeout,
		maxMessageBytes: DefaultMaxMessageBytes,
		draw:            rand.Float64,
	}
	for _, option := range options {
		option(&s)
	}
	return s
}

func newClient(conn grpc.ClientConnInterface, s settings) *Client {
	return &Client{
		service:  listwatchv1.NewListWatchServiceClient(conn),
		admin:    listwatchv1.NewAdminServiceClient(conn),
		settings: s,
	}
}

// Close closes the connection that [Dial] made, and with it what is still open on it; of a
// client made by [New] it does nothing. Close watchers and reflectors first: they would
// take it for an outage.
func (c *Client) Close() error {
	if c.owned == nil {
		return nil
	}
	return c.owned.Close()
}

// callOptions are those of every call, since a connection of the caller's has none.
func (c *Client) callOptions() grpc.CallOption {
	return grpc.MaxCallRecvMsgSize(c.settings.maxMessageBytes)
}
