package listwatch

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// maxAttempts counts the first one. What fails longer is the caller's decision.
const maxAttempts = 4

// unary sends request until there is an answer, an error that a retry does not cure, or
// the deadline. Right for reads, and for writes with a request_id: the server gives the
// first answer again. The deadline goes to the server as grpc-timeout with each attempt.
func unary[Q, A any](
	ctx context.Context,
	c *Client,
	request Q,
	call func(context.Context, Q, ...grpc.CallOption) (A, error),
) (A, error) {
	ctx, cancel := context.WithTimeout(ctx, c.settings.requestTimeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	between := newDelays(betweenAttempts, c.settings.draw)
	var none A
	for attempt := 1; ; attempt++ {
		answer, err := call(ctx, request, c.callOptions())
		if err == nil {
			return answer, nil
		}
		failure := newError(err)
		failure.canceled = ctx.Err() == context.Canceled
		delay := failure.RetryAfter
		if !failure.HasRetryAfter {
			delay = between.next()
		}
		// Better the server's own words than a timeout that is already certain.
		if !isCurable(failure) || attempt == maxAttempts || !time.Now().Add(delay).Before(deadline) {
			return none, failure
		}
		if err := sleep(ctx, delay); err != nil {
			return none, newError(err)
		}
	}
}

// isCurable tells whether the same request may soon succeed.
func isCurable(failure *Error) bool {
	return failure.Code == codes.Unavailable ||
		failure.Code == codes.ResourceExhausted && failure.HasRetryAfter
}

// sleep waits, or gives the context's error.
func sleep(ctx context.Context, delay time.Duration) error {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
