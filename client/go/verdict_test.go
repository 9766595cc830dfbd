package listwatch

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

// failure is a status as a server of the domain sends it; a negative retry is none.
func failure(code codes.Code, domain, reason string, retry time.Duration) error {
	var details []protoadapt.MessageV1
	if reason != "" {
		details = append(details, &errdetails.ErrorInfo{
			Domain: domain, Reason: reason, Metadata: map[string]string{"field": "x"},
		})
	}
	if retry >= 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(retry)})
	}
	st, err := status.New(code, "said the server").WithDetails(details...)
	if err != nil {
		panic(err)
	}
	return st.Err()
}

func TestVerdicts(t *testing.T) {
	tests := []struct {
		code   codes.Code
		reason string
		retry  time.Duration
		want   verdict
	}{
		{codes.Unavailable, "", -1, resume},
		{codes.Internal, ReasonInternal, -1, resume},
		{codes.Unknown, "", -1, resume},
		{codes.Canceled, "", -1, resume},
		{codes.Aborted, "", -1, resume},
		{codes.DeadlineExceeded, "", -1, resume},
		{codes.Code(77), "", -1, resume},
		{codes.ResourceExhausted, ReasonTooManyWatches, 0, resume},
		{codes.ResourceExhausted, ReasonStorageFull, -1, refused},
		{codes.OutOfRange, ReasonRevisionCompacted, -1, startOver},
		{codes.OutOfRange, ReasonStoreChanged, -1, startOver},
		{codes.OutOfRange, ReasonRevisionInFuture, -1, ahead},
		{codes.OutOfRange, "", -1, unexplained},
		{codes.DataLoss, ReasonStoreDamaged, -1, dataLoss},
		{codes.InvalidArgument, ReasonTokenInvalid, -1, badToken},
		{codes.InvalidArgument, ReasonFieldInvalid, -1, refused},
		{codes.FailedPrecondition, "", -1, refused},
		{codes.Unauthenticated, "", -1, refused},
		{codes.PermissionDenied, "", -1, refused},
		{codes.NotFound, "", -1, refused},
		{codes.AlreadyExists, "", -1, refused},
		{codes.Unimplemented, ReasonUnsupported, -1, refused},
	}
	for _, test := range tests {
		err := newError(failure(test.code, errorDomain, test.reason, test.retry))
		if got := judge(err); got != test.want {
			t.Errorf("%v: verdict %d, want %d", err, got, test.want)
		}
	}
}

func TestErrorsSayWhatTheServerSaid(t *testing.T) {
	sent := failure(codes.OutOfRange, errorDomain, ReasonRevisionCompacted, 2*time.Second)
	var err error = fmt.Errorf("wrapped: %w", newError(sent))
	var e *Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	if e.Code != codes.OutOfRange || e.Reason != ReasonRevisionCompacted || e.Message != "said the server" ||
		e.Metadata["field"] != "x" || e.RetryAfter != 2*time.Second || !e.HasRetryAfter {
		t.Errorf("got %+v", e)
	}
	if st, ok := status.FromError(err); !ok || st.Code() != codes.OutOfRange || len(st.Details()) != 2 {
		t.Errorf("status %v", st)
	}
}

func TestAnotherDomainsReasonIsNotOurs(t *testing.T) {
	e := newError(failure(codes.NotFound, "proxy.example", ReasonObjectNotFound, -1))
	if e.Reason != "" || e.Metadata != nil || e.HasRetryAfter {
		t.Errorf("got %+v", e)
	}
}

func TestSentinels(t *testing.T) {
	all := []error{
		ErrNotFound, ErrAlreadyExists, ErrConflict, ErrExpired, ErrFutureRevision, ErrInvalid,
		ErrDenied, ErrUnavailable, ErrExhausted, ErrRefused, ErrClosed,
		context.Canceled, context.DeadlineExceeded,
	}
	tests := map[error]error{
		failure(codes.NotFound, "", "", -1):           ErrNotFound,
		failure(codes.AlreadyExists, "", "", -1):      ErrAlreadyExists,
		failure(codes.Aborted, "", "", -1):            ErrConflict,
		failure(codes.OutOfRange, "", "", -1):         ErrExpired,
		failure(codes.InvalidArgument, "", "", -1):    ErrInvalid,
		failure(codes.FailedPrecondition, "", "", -1): ErrInvalid,
		failure(codes.Unauthenticated, "", "", -1):    ErrDenied,
		failure(codes.PermissionDenied, "", "", -1):   ErrDenied,
		failure(codes.Unavailable, "", "", -1):        ErrUnavailable,
		failure(codes.ResourceExhausted, "", "", -1):  ErrExhausted,
		failure(codes.DeadlineExceeded, "", "", -1):   context.DeadlineExceeded,
		// The server's word is not the caller's context.
		failure(codes.Canceled, "", "", -1): nil,
		context.Canceled:                    context.Canceled,
		context.DeadlineExceeded:            context.DeadlineExceeded,
		failure(codes.OutOfRange, errorDomain, ReasonRevisionInFuture, -1): ErrFutureRevision,
	}
	for sent, want := range tests {
		for _, sentinel := range all {
			if got := errors.Is(newError(sent), sentinel); got != (sentinel == want) {
				t.Errorf("%v is %v: %v", sent, sentinel, got)
			}
		}
	}
}

func TestAWatchErrorIsOfOneKind(t *testing.T) {
	expired := newError(failure(codes.OutOfRange, errorDomain, ReasonRevisionCompacted, -1))
	err := error(&WatchError{Kind: ErrRefused, Err: expired})
	var e *Error
	if !errors.Is(err, ErrRefused) || !errors.As(err, &e) || e != expired {
		t.Errorf("%v", err)
	}
	if status.Code(err) != codes.OutOfRange {
		t.Errorf("status %v", status.Code(err))
	}
}
