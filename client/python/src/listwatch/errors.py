"""What can go wrong, and what the caller can do about it."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Protocol, Tuple, Type

import grpc
from google.rpc import error_details_pb2, status_pb2

_DOMAIN = "listwatch"
_DETAILS_KEY = "grpc-status-details-bin"


class ListwatchError(Exception):
    """The base of every error of this package that comes from a server or a connection.

    The class says what can be done about it, the attributes have all that the server sent.
    """

    def __init__(
        self,
        message: str,
        *,
        code: grpc.StatusCode = grpc.StatusCode.UNKNOWN,
        reason: str = "",
        metadata: Optional[Mapping[str, str]] = None,
        retry_after: Optional[float] = None,
    ) -> None:
        super().__init__(message)
        self.message: str = message
        """The server's words."""
        self.code: grpc.StatusCode = code
        """The gRPC code."""
        self.reason: str = reason
        """The name of an ``ErrorReason`` without its prefix; empty where the error is not
        Listwatch's own (a proxy's, the transport's)."""
        self.metadata: Mapping[str, str] = dict(metadata or {})
        """Which keys there are says the comment on each ``ErrorReason``."""
        self.retry_after: Optional[float] = retry_after
        """How long the server asks to wait before a retry, in seconds."""

    def __str__(self) -> str:
        what = f"{self.code.name} {self.reason}" if self.reason else self.code.name
        return f"{self.message} ({what})"


class NotFound(ListwatchError):
    """The object does not exist. A retry does not help."""


class AlreadyExists(ListwatchError):
    """The key is taken. Update the object, or choose another key."""


class Conflict(ListwatchError):
    """The object is not in the state that the write expects (REVISION_MISMATCH or UID_MISMATCH).

    Read, decide again, write again.
    """


class Expired(ListwatchError):
    """The point in history is gone: compacted, or of another store. List again."""


class FutureRevision(ListwatchError):
    """The revision is not there yet: the server is behind, or it is another store's revision."""


class InvalidRequest(ListwatchError):
    """The request is wrong; ``metadata["field"]`` names the field. A retry does not help."""


class Unauthenticated(ListwatchError):
    """No credentials, or wrong ones."""


class PermissionDenied(ListwatchError):
    """Not allowed."""


class Exhausted(ListwatchError):
    """A limit is reached. Retry only if ``retry_after`` is given."""


class Unimplemented(ListwatchError):
    """The server does not have what was asked for."""


class DataLoss(ListwatchError):
    """The server's store is damaged; its log says what to do."""


class DeadlineExceeded(ListwatchError):
    """The answer did not come in time.

    A write may have happened: a retry is safe with the same ``request_id``.
    """


class Unavailable(ListwatchError):
    """The server cannot be reached or cannot answer now. Retry with backoff."""


class Interrupted(ListwatchError):
    """The call was cancelled before its answer was complete. Retry."""


class ServerFault(ListwatchError):
    """Any other status (INTERNAL, UNKNOWN). A retry may meet the same fault."""


class ProtocolBreach(ListwatchError):
    """The answer is not what the API promises: one of the two sides has a fault."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code=grpc.StatusCode.INTERNAL)


class WatchEnded(ListwatchError):
    """Why a watch ended by itself. It has the attributes of the error behind it.

    ``__cause__`` is that error.
    """

    def __init__(self, error: ListwatchError) -> None:
        super().__init__(
            error.message,
            code=error.code,
            reason=error.reason,
            metadata=error.metadata,
            retry_after=error.retry_after,
        )
        self.__cause__ = error


class WatchRefused(WatchEnded):
    """The server refuses the watch as it stands: a retry does not help."""


class WatchExpired(WatchEnded):
    """The history after the position is gone and the options say ``OnExpired.FAIL``."""


class ReflectorStopped(WatchEnded):
    """A wait was in vain, since the reflector was closed or its watch was refused."""


class WaitTimeout(TimeoutError):
    """A wait took longer than it was allowed to. The reflector goes on."""


_CLASSES: Mapping[grpc.StatusCode, Type[ListwatchError]] = {
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExists,
    grpc.StatusCode.ABORTED: Conflict,
    grpc.StatusCode.OUT_OF_RANGE: Expired,
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequest,
    grpc.StatusCode.FAILED_PRECONDITION: InvalidRequest,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Exhausted,
    grpc.StatusCode.UNIMPLEMENTED: Unimplemented,
    grpc.StatusCode.DATA_LOSS: DataLoss,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.CANCELLED: Interrupted,
}


class FailedCall(Protocol):
    """What the errors of ``grpc`` and of ``grpc.aio`` have in common."""

    def code(self) -> Optional[grpc.StatusCode]:
        """The gRPC code."""

    def details(self) -> Optional[str]:
        """The message."""

    def trailing_metadata(self) -> Any:
        """Pairs of names and values, or None."""


def error_of(call: FailedCall) -> ListwatchError:
    """Translates a failed call of ``grpc`` or ``grpc.aio``."""
    code = call.code() or grpc.StatusCode.UNKNOWN
    info, retry = _details_of(call)
    retry_after = None
    if retry is not None and retry.HasField("retry_delay"):
        retry_after = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
    return error_from(
        call.details() or code.name,
        code=code,
        reason=info.reason if info is not None else "",
        metadata=dict(info.metadata) if info is not None else {},
        retry_after=retry_after,
    )


def error_from(
    message: str,
    *,
    code: grpc.StatusCode,
    reason: str = "",
    metadata: Optional[Mapping[str, str]] = None,
    retry_after: Optional[float] = None,
) -> ListwatchError:
    """An error of the class that fits its code and reason."""
    kind = _CLASSES.get(code, ServerFault)
    if kind is Expired and reason == "REVISION_IN_FUTURE":
        kind = FutureRevision
    return kind(message, code=code, reason=reason, metadata=metadata, retry_after=retry_after)


def _details_of(
    call: FailedCall,
) -> Tuple[Optional[error_details_pb2.ErrorInfo], Optional[error_details_pb2.RetryInfo]]:
    info, retry = None, None
    for name, value in call.trailing_metadata() or ():
        if name != _DETAILS_KEY or not isinstance(value, bytes):
            continue
        try:
            status = status_pb2.Status.FromString(value)
            for detail in status.details:
                if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
                    found = error_details_pb2.ErrorInfo.FromString(detail.value)
                    info = found if found.domain == _DOMAIN else info
                elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
                    retry = error_details_pb2.RetryInfo.FromString(detail.value)
        except Exception:  # Of a proxy that writes something else there: the code remains.
            continue
    return info, retry
