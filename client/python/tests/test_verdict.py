from __future__ import annotations

from typing import Optional

import pytest

from listwatch.errors import ProtocolBreach
from listwatch.verdict import Verdict, verdict
from sent import error


@pytest.mark.parametrize(
    ("code", "reason", "retry_after", "judged"),
    [
        ("UNAVAILABLE", "", None, Verdict.RESUME),
        ("INTERNAL", "", None, Verdict.RESUME),
        ("UNKNOWN", "", None, Verdict.RESUME),
        ("CANCELLED", "", None, Verdict.RESUME),
        ("ABORTED", "", None, Verdict.RESUME),
        ("DEADLINE_EXCEEDED", "", None, Verdict.RESUME),
        ("RESOURCE_EXHAUSTED", "TOO_MANY_WATCHES", 1.0, Verdict.RESUME),
        ("RESOURCE_EXHAUSTED", "STORAGE_FULL", None, Verdict.REFUSED),
        ("OUT_OF_RANGE", "REVISION_COMPACTED", None, Verdict.START_OVER),
        ("OUT_OF_RANGE", "STORE_CHANGED", None, Verdict.START_OVER),
        ("OUT_OF_RANGE", "REVISION_IN_FUTURE", None, Verdict.AHEAD),
        ("OUT_OF_RANGE", "", None, Verdict.UNEXPLAINED),
        ("DATA_LOSS", "", None, Verdict.DATA_LOSS),
        ("INVALID_ARGUMENT", "TOKEN_INVALID", None, Verdict.BAD_TOKEN),
        ("INVALID_ARGUMENT", "FIELD_INVALID", None, Verdict.REFUSED),
        ("FAILED_PRECONDITION", "", None, Verdict.REFUSED),
        ("UNAUTHENTICATED", "", None, Verdict.REFUSED),
        ("PERMISSION_DENIED", "", None, Verdict.REFUSED),
        ("NOT_FOUND", "", None, Verdict.REFUSED),
        ("ALREADY_EXISTS", "", None, Verdict.REFUSED),
        ("UNIMPLEMENTED", "", None, Verdict.REFUSED),
    ],
)
def test_errors(code: str, reason: str, retry_after: Optional[float], judged: Verdict) -> None:
    assert verdict(error(code, reason, retry_after)) is judged


def test_a_breach_of_the_protocol_is_like_unavailable() -> None:
    assert verdict(ProtocolBreach("no")) is Verdict.RESUME
