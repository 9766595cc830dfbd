package listwatch

import "google.golang.org/grpc/codes"

// verdict is what an error means for a watch.
type verdict int

const (
	// resume goes on from the same position.
	resume verdict = iota
	// ahead: the position is ahead of the server. It may be a replica that is behind, so
	// the same position is tried again; not for ever: it may be another history.
	ahead
	// startOver: the position is worth nothing any more.
	startOver
	// dataLoss is startOver where no position is known to be better.
	dataLoss
	// unexplained is startOver for no reason that Listwatch knows: another start may meet
	// the same, so not for ever.
	unexplained
	// badToken: the token is not one of this server and selector.
	badToken
	// refused: no retry helps.
	refused
)

func judge(err *Error) verdict {
	switch err.Code {
	case codes.OutOfRange:
		switch err.Reason {
		case ReasonRevisionCompacted, ReasonStoreChanged:
			return startOver
		case ReasonRevisionInFuture:
			return ahead
		default:
			return unexplained
		}
	case codes.DataLoss:
		return dataLoss
	case codes.ResourceExhausted:
		if err.HasRetryAfter {
			return resume
		}
		return refused
	case codes.InvalidArgument:
		if err.Reason == ReasonTokenInvalid {
			return badToken
		}
		return refused
	case codes.FailedPrecondition, codes.Unauthenticated, codes.PermissionDenied,
		codes.NotFound, codes.AlreadyExists, codes.Unimplemented:
		return refused
	default:
		// UNAVAILABLE, INTERNAL, UNKNOWN, CANCELLED, ABORTED, DEADLINE_EXCEEDED.
		return resume
	}
}
