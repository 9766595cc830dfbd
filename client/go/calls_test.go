package listwatch

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	listwatchv1 "listwatch.dev/go/listwatch/v1"
)

func TestAWriteIsTriedAgainUnderItsRequestID(t *testing.T) {
	var ids []string
	fake := &fakeServer{create: func(_ context.Context, request *CreateRequest) (*listwatchv1.CreateResponse, error) {
		ids = append(ids, request.GetRequestId())
		if len(ids) < maxAttempts {
			return nil, failure(codes.Unavailable, errorDomain, ReasonNotReady, time.Millisecond)
		}
		return &listwatchv1.CreateResponse{Resource: object("a@7")}, nil
	}}
	request := &CreateRequest{Resource: object("a@0")}
	made, err := dialFake(t, fake).Create(context.Background(), request)
	if err != nil || made.GetResource().GetRevision() != 7 {
		t.Errorf("got %v, %v", made, err)
	}
	if len(ids) != 4 || ids[0] == "" || ids[0] != ids[3] {
		t.Errorf("ids %q", ids)
	}
	if request.GetRequestId() != "" {
		t.Error("the caller's request was changed")
	}
}

func TestAnAttemptAfterTheDeadlineIsNotWaitedFor(t *testing.T) {
	fake := &fakeServer{create: func(context.Context, *CreateRequest) (*listwatchv1.CreateResponse, error) {
		return nil, failure(codes.Unavailable, errorDomain, ReasonNotReady, time.Hour)
	}}
	began := time.Now()
	_, err := dialFake(t, fake).Create(context.Background(), &CreateRequest{RequestId: "mine"})
	var e *Error
	if !errors.As(err, &e) || e.Reason != ReasonNotReady || e.RetryAfter != time.Hour || time.Since(began) > patience {
		t.Errorf("got %v after %v", err, time.Since(began))
	}
}

func TestTheDeadlineIsOfTheWholeCall(t *testing.T) {
	fake := &fakeServer{create: func(ctx context.Context, _ *CreateRequest) (*listwatchv1.CreateResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	client := dialFake(t, fake, WithRequestTimeout(20*time.Millisecond))
	if _, err := client.Create(context.Background(), &CreateRequest{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := client.Create(ctx, &CreateRequest{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// pagesOf serves pages of one object each; the page at fail fails once.
func pagesOf(count int, fail string) *fakeServer {
	return &fakeServer{list: func(_ context.Context, request *ListRequest) (*listwatchv1.ListResponse, error) {
		at := 0
		if token := request.GetPageToken(); token != "" {
			if token == fail {
				fail = ""
				return nil, failure(codes.OutOfRange, errorDomain, ReasonRevisionCompacted, -1)
			}
			_, _ = fmt.Sscan(token, &at)
		}
		page := &listwatchv1.ListResponse{
			Resources: []*Resource{object(fmt.Sprintf("n%d@1", at))}, Revision: 5, ResumeToken: "t5",
		}
		if at+1 < count {
			page.NextPageToken = fmt.Sprint(at + 1)
		}
		return page, nil
	}}
}

func TestAListIsReadPageByPage(t *testing.T) {
	client := dialFake(t, pagesOf(3, ""))
	request := &ListRequest{Selector: pods, PageSize: 1}
	var names []string
	for resource, err := range client.List(context.Background(), request) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, resource.GetKey().GetName())
	}
	if got := fmt.Sprint(names); got != "[n0 n1 n2]" || request.GetPageToken() != "" {
		t.Errorf("got %s, token %q", got, request.GetPageToken())
	}
}

func TestAListThatExpiresBetweenPages(t *testing.T) {
	request := &ListRequest{Selector: pods}
	count := 0
	for _, err := range dialFake(t, pagesOf(3, "2")).List(context.Background(), request) {
		if count++; count == 3 && !errors.Is(err, ErrExpired) {
			t.Error(err)
		}
	}
	if count != 3 {
		t.Errorf("%d elements", count)
	}
	listing, err := dialFake(t, pagesOf(3, "2")).ListAll(context.Background(), request)
	if err != nil || len(listing.Resources) != 3 || listing.Revision != 5 || listing.ResumeToken != "t5" {
		t.Errorf("got %v, %v", listing, err)
	}
}
