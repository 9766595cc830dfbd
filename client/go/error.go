package listwatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What went wrong, for [errors.Is]. The first group answers what to do about a call's
// error; ErrRefused and ErrExpired also say why a watch or a reflector ended.
var (
	// ErrNotFound: the object does not exist. A retry does not help.
	ErrNotFound = errors.New("listwatch: not found")
	// ErrAlreadyExists: the key is taken. Update, or choose another.
	ErrAlreadyExists = errors.New("listwatch: already exists")
	// ErrConflict: the object is not at the revision or uid that the write expects. Read,
	// decide again, write again.
	ErrConflict = errors.New("listwatch: conflict")
	// ErrExpired: the point in history is gone (compacted, or of another store). The same
	// request fails again: list again, or watch from the initial state.
	ErrExpired = errors.New("listwatch: expired")
	// ErrFutureRevision: the server is behind that revision, or it is of another store.
	// Retry a few times, then list again.
	ErrFutureRevision = errors.New("listwatch: revision in the future")
	// ErrInvalid: the request is wrong; [Error.Metadata] names the field.
	ErrInvalid = errors.New("listwatch: invalid request")
	// ErrDenied: the credentials are missing, wrong, or do not suffice.
	ErrDenied = errors.New("listwatch: denied")
	// ErrUnavailable: the server cannot be reached, or cannot answer now. Retry later; a
	// write with the same request_id.
	ErrUnavailable = errors.New("listwatch: unavailable")
	// ErrExhausted: a limit is reached. Retry only if [Error.RetryAfter] is set.
	ErrExhausted = errors.New("listwatch: exhausted")

	// ErrRefused: the server refuses a watch as it stands, and no retry helps.
	ErrRefused = errors.New("listwatch: watch refused")
	// ErrClosed: the watcher, reflector or subscription was closed by this program.
	ErrClosed = errors.New("listwatch: closed")
)

// Error is what a failed call came with. Every call's error is or wraps one; get it with
// [errors.As], or compare with the sentinels by [errors.Is]. It unwraps to the gRPC
// status, so package status understands it as well. An Error also is
// [context.DeadlineExceeded] if its code says so, and [context.Canceled] if the caller's
// context was cancelled.
type Error struct {
	// Code is the gRPC code.
	Code codes.Code
	// Message is for people.
	Message string
	// Reason is one of the Reason constants, or what a newer server calls it. Empty where
	// the error is not Listwatch's own (a proxy's, the transport's).
	Reason string
	// Metadata is the detail that belongs to the reason, such as compact_revision. Nil if
	// there is none.
	Metadata map[string]string
	// RetryAfter is how long the server asks to wait before a retry. Zero if it does not
	// say; see HasRetryAfter for one that says zero.
	RetryAfter time.Duration
	// HasRetryAfter tells whether the server sent a RetryInfo.
	HasRetryAfter bool

	status *status.Status
	// canceled tells that it was the caller who gave up, not the server.
	canceled bool
}

// newError reads what a call of gRPC failed with. Nil stays nil.
func newError(err error) *Error {
	if err == nil {
		return nil
	}
	st, ok := status.FromError(err)
	if !ok {
		st = status.FromContextError(err)
	}
	e := &Error{
		Code:     st.Code(),
		Message:  st.Message(),
		status:   st,
		canceled: errors.Is(err, context.Canceled),
	}
	for _, detail := range st.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			if detail.GetDomain() == errorDomain {
				e.Reason, e.Metadata = detail.GetReason(), detail.GetMetadata()
			}
		case *errdetails.RetryInfo:
			if delay := detail.GetRetryDelay(); delay != nil {
				e.RetryAfter, e.HasRetryAfter = delay.AsDuration(), true
			}
		}
	}
	return e
}

// breach is the error of a server that does not keep to the protocol.
func breach(what string) *Error {
	return newError(status.Error(codes.Internal, "the server broke the protocol: "+what))
}

// Error has the code, the reason if there is one, and the server's words.
func (e *Error) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("listwatch: %s: %s", e.Code, e.Message)
	}
	return fmt.Sprintf("listwatch: %s (%s): %s", e.Code, e.Reason, e.Message)
}

// Unwrap gives the gRPC status error.
func (e *Error) Unwrap() error { return e.status.Err() }

// GRPCStatus is what package status asks for.
func (e *Error) GRPCStatus() *status.Status { return e.status }

// Is matches the sentinels of this package and of package context.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrNotFound:
		return e.Code == codes.NotFound
	case ErrAlreadyExists:
		return e.Code == codes.AlreadyExists
	case ErrConflict:
		return e.Code == codes.Aborted
	case ErrExpired:
		return e.Code == codes.OutOfRange && e.Reason != ReasonRevisionInFuture
	case ErrFutureRevision:
		return e.Code == codes.OutOfRange && e.Reason == ReasonRevisionInFuture
	case ErrInvalid:
		return e.Code == codes.InvalidArgument || e.Code == codes.FailedPrecondition
	case ErrDenied:
		return e.Code == codes.Unauthenticated || e.Code == codes.PermissionDenied
	case ErrUnavailable:
		return e.Code == codes.Unavailable
	case ErrExhausted:
		return e.Code == codes.ResourceExhausted
	case context.DeadlineExceeded:
		return e.Code == codes.DeadlineExceeded
	case context.Canceled:
		return e.canceled
	default:
		return false
	}
}

// WatchError is why a watch or a reflector ended by itself: it is its Kind, and wraps the
// server's [Error]. Ask for [ErrRefused] before [ErrExpired]: what a watch is refused for
// can be an error that as a call's is ErrExpired.
type WatchError struct {
	// Kind is [ErrRefused] or [ErrExpired].
	Kind error
	// Err is what the server said.
	Err *Error
}

// Error has the kind and the server's error.
func (e *WatchError) Error() string { return e.Kind.Error() + ": " + e.Err.Error() }

// Is matches the kind.
func (e *WatchError) Is(target error) bool { return target == e.Kind }

// Unwrap gives the server's [Error].
func (e *WatchError) Unwrap() error { return e.Err }
