from __future__ import annotations

from typing import List, Optional, Tuple, Union

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from listwatch import errors
from sent import error


class Call:
    """A failed call, as gRPC shows it."""

    def __init__(self, code: grpc.StatusCode, *details: any_pb2.Any, raw: bytes = b"") -> None:
        status = status_pb2.Status(details=details)
        self._code = code
        self._raw = raw or status.SerializeToString()

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> Optional[str]:
        return "words"

    def trailing_metadata(self) -> List[Tuple[str, Union[str, bytes]]]:
        return [("x", "y"), ("grpc-status-details-bin", self._raw)]


def packed(domain: str = "listwatch") -> any_pb2.Any:
    info = error_details_pb2.ErrorInfo(
        domain=domain, reason="REVISION_COMPACTED", metadata={"compact_revision": "5"}
    )
    made = any_pb2.Any()
    made.Pack(info)
    return made


def test_an_error_has_what_the_server_sent() -> None:
    retry = error_details_pb2.RetryInfo()
    retry.retry_delay.FromMilliseconds(1500)
    delay = any_pb2.Any()
    delay.Pack(retry)
    found = errors.error_of(Call(grpc.StatusCode.OUT_OF_RANGE, packed(), delay))
    assert isinstance(found, errors.Expired)
    assert (found.code, found.message) == (grpc.StatusCode.OUT_OF_RANGE, "words")
    assert (found.reason, found.retry_after) == ("REVISION_COMPACTED", 1.5)
    assert found.metadata == {"compact_revision": "5"}


def test_the_reason_of_another_domain_is_none() -> None:
    found = errors.error_of(Call(grpc.StatusCode.OUT_OF_RANGE, packed("proxy")))
    assert (found.reason, found.metadata, found.retry_after) == ("", {}, None)


def test_details_that_are_rubbish_leave_the_code() -> None:
    found = errors.error_of(Call(grpc.StatusCode.NOT_FOUND, raw=b"\xff\xff"))
    assert isinstance(found, errors.NotFound)
    assert found.reason == ""


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("ABORTED", errors.Conflict),
        ("ALREADY_EXISTS", errors.AlreadyExists),
        ("FAILED_PRECONDITION", errors.InvalidRequest),
        ("INTERNAL", errors.ServerFault),
        ("CANCELLED", errors.Interrupted),
    ],
)
def test_classes(code: str, kind: type) -> None:
    assert type(error(code)) is kind


def test_a_revision_in_the_future_is_not_expired() -> None:
    assert type(error("OUT_OF_RANGE", "REVISION_IN_FUTURE")) is errors.FutureRevision
