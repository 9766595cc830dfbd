package listwatch

// What [Error.Reason] can hold: the names of the API's ErrorReason without their prefix.
// A newer server may send others.
const (
	// ReasonRevisionCompacted: the history from there is gone. List again.
	ReasonRevisionCompacted = "REVISION_COMPACTED"
	// ReasonRevisionInFuture: this server is not there yet. Retry.
	ReasonRevisionInFuture = "REVISION_IN_FUTURE"
	// ReasonStoreChanged: the revision or token is of another store. List again.
	ReasonStoreChanged = "STORE_CHANGED"
	// ReasonTokenInvalid: the token is damaged or of another selector.
	ReasonTokenInvalid = "TOKEN_INVALID"
	// ReasonRevisionMismatch: the object is at another revision. Read, then write again.
	ReasonRevisionMismatch = "REVISION_MISMATCH"
	// ReasonUIDMismatch: the name was taken by a new object.
	ReasonUIDMismatch = "UID_MISMATCH"
	// ReasonTooManyRequests: retry after [Error.RetryAfter].
	ReasonTooManyRequests = "TOO_MANY_REQUESTS"
	// ReasonTooManyWatches: retry after [Error.RetryAfter].
	ReasonTooManyWatches = "TOO_MANY_WATCHES"
	// ReasonStorageFull: no write is taken until someone frees space.
	ReasonStorageFull = "STORAGE_FULL"
	// ReasonNotReady: retry after [Error.RetryAfter].
	ReasonNotReady = "NOT_READY"
	// ReasonTooLarge: Metadata has field, limit and size.
	ReasonTooLarge = "TOO_LARGE"
	// ReasonFieldInvalid: Metadata has field.
	ReasonFieldInvalid = "FIELD_INVALID"
	// ReasonObjectNotFound: there is no object of this key.
	ReasonObjectNotFound = "OBJECT_NOT_FOUND"
	// ReasonObjectExists: the key is taken.
	ReasonObjectExists = "OBJECT_EXISTS"
	// ReasonRequestIDReused: the request_id was used for a different request.
	ReasonRequestIDReused = "REQUEST_ID_REUSED"
	// ReasonStoreDamaged: the server's log says how and what to do.
	ReasonStoreDamaged = "STORE_DAMAGED"
	// ReasonWriteUncertain: a write may be stored or not. Retry with the same request_id.
	ReasonWriteUncertain = "WRITE_UNCERTAIN"
	// ReasonInternal: a fault of the server.
	ReasonInternal = "INTERNAL"
	// ReasonUnsupported: this server does not have what was asked for.
	ReasonUnsupported = "UNSUPPORTED"
	// ReasonDeadlineExceeded: a write may be stored or not. Retry with the same request_id.
	ReasonDeadlineExceeded = "DEADLINE_EXCEEDED"
	// ReasonWatchTooSlow: the watch was further behind than the server allows.
	ReasonWatchTooSlow = "WATCH_TOO_SLOW"
)

// errorDomain is the ErrorInfo.domain of Listwatch's own errors.
const errorDomain = "listwatch"
