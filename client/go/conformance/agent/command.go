package main

import (
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	listwatch "listwatch.dev/go"
	listwatchv1 "listwatch.dev/go/listwatch/v1"
)

// command is a line of the input.
type command struct {
	ID             int64
	Do             string
	Address        string
	RequestTimeout *millis `json:"request_timeout"`
	Resource       json.RawMessage
	Key            json.RawMessage
	Selector       json.RawMessage
	IfRevision     *int64 `json:"if_revision"`
	AllowMissing   bool   `json:"allow_missing"`
	PageSize       int32  `json:"page_size"`
	Name           string
	Revision       int64
	Timeout        millis
	Options        watchOptions
}

// millis is a duration in milliseconds.
type millis float64

func (m millis) duration() time.Duration {
	return time.Duration(float64(m) * float64(time.Millisecond))
}

func (c command) resource() (*listwatch.Resource, error) {
	return message(c.Resource, &listwatch.Resource{})
}

func (c command) key() (*listwatch.Key, error) { return message(c.Key, &listwatch.Key{}) }

func (c command) selector() (*listwatch.Selector, error) {
	return message(c.Selector, &listwatch.Selector{})
}

// message reads ProtoJSON.
func message[M proto.Message](text json.RawMessage, into M) (M, error) {
	return into, protojson.Unmarshal(text, into)
}

type watchOptions struct {
	Start *struct {
		ResumeToken   *string `json:"resume_token"`
		AfterRevision *int64  `json:"after_revision"`
		Now           bool
	}
	View                 string
	DeliveryMode         string  `json:"delivery_mode"`
	CatchUp              string  `json:"catch_up"`
	SendPrevious         bool    `json:"send_previous"`
	BookmarkInterval     *millis `json:"bookmark_interval"`
	FirstResponseTimeout *millis `json:"first_response_timeout"`
	ProgressTimeout      *millis `json:"progress_timeout"`
	Backoff              *struct {
		Initial *millis
		Factor  *float64
		Max     *millis
	}
	Jitter    *float64
	OnExpired string `json:"on_expired"`
}

func (o watchOptions) all() ([]listwatch.WatchOption, error) {
	var all []listwatch.WatchOption
	add := func(option listwatch.WatchOption) { all = append(all, option) }
	if start := o.Start; start != nil {
		switch {
		case start.ResumeToken != nil:
			add(listwatch.FromToken(*start.ResumeToken))
		case start.AfterRevision != nil:
			add(listwatch.AfterRevision(*start.AfterRevision))
		case start.Now:
			add(listwatch.FromNow())
		}
	}
	view, err := enum(o.View, listwatchv1.View_value)
	if err != nil {
		return nil, err
	}
	mode, err := enum(o.DeliveryMode, listwatchv1.DeliveryMode_value)
	if err != nil {
		return nil, err
	}
	catchUp, err := enum(o.CatchUp, listwatchv1.CatchUp_value)
	if err != nil {
		return nil, err
	}
	add(listwatch.WithView(listwatchv1.View(view)))
	add(listwatch.WithDeliveryMode(listwatchv1.DeliveryMode(mode)))
	add(listwatch.WithCatchUp(listwatchv1.CatchUp(catchUp)))
	if o.SendPrevious {
		add(listwatch.WithPrevious())
	}
	if o.BookmarkInterval != nil {
		add(listwatch.WithBookmarkInterval(o.BookmarkInterval.duration()))
	}
	if o.FirstResponseTimeout != nil {
		add(listwatch.WithFirstResponseTimeout(o.FirstResponseTimeout.duration()))
	}
	if o.ProgressTimeout != nil {
		add(listwatch.WithProgressTimeout(o.ProgressTimeout.duration()))
	}
	if o.Backoff != nil {
		add(listwatch.WithBackoff(o.backoff()))
	}
	if o.Jitter != nil {
		add(listwatch.WithJitter(func() float64 { return *o.Jitter }))
	}
	switch o.OnExpired {
	case "", "start_over":
	case "fail":
		add(listwatch.FailOnExpired())
	default:
		return nil, fmt.Errorf("on_expired %q", o.OnExpired)
	}
	return all, nil
}

// backoff is the default one where nothing else is said.
func (o watchOptions) backoff() listwatch.Backoff {
	backoff := listwatch.Backoff{Initial: 800 * time.Millisecond, Factor: 2, Max: 30 * time.Second}
	if o.Backoff.Initial != nil {
		backoff.Initial = o.Backoff.Initial.duration()
	}
	if o.Backoff.Factor != nil {
		backoff.Factor = *o.Backoff.Factor
	}
	if o.Backoff.Max != nil {
		backoff.Max = o.Backoff.Max.duration()
	}
	return backoff
}

// enum is the number of a name; that of an empty one is 0.
func enum(name string, numbers map[string]int32) (int32, error) {
	number, ok := numbers[name]
	if !ok && name != "" {
		return 0, fmt.Errorf("nothing is called %q", name)
	}
	return number, nil
}
