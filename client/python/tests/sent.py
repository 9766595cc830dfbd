"""Short forms of what servers send."""

from __future__ import annotations

from typing import Iterable, Optional

import grpc

from listwatch import v1
from listwatch.errors import ListwatchError, error_from
from listwatch.events import Point


def resource(name: str, revision: int, uid: str = "") -> v1.Resource:
    key = v1.Key(collection="pods", namespace="default", name=name)
    value = f"{name}@{revision}".encode()
    return v1.Resource(key=key, uid=uid or f"uid-{name}", revision=revision, value=value)


def event(kind: str, name: str, revision: int, uid: str = "") -> v1.WatchEvent:
    return v1.WatchEvent(type=f"EVENT_TYPE_{kind}", resource=resource(name, revision, uid))


def response(
    kind: Optional[str] = None,
    revision: int = 0,
    *,
    events: Iterable[v1.WatchEvent] = (),
    latest: int = 0,
    token: Optional[str] = None,
) -> v1.WatchResponse:
    if kind is None:
        return v1.WatchResponse(events=events)
    bookmark = v1.Bookmark(
        kind=f"BOOKMARK_KIND_{kind}",
        revision=revision,
        resume_token=f"t{revision}" if token is None else token,
        latest_revision=latest or revision,
    )
    return v1.WatchResponse(events=events, bookmark=bookmark)


def point(revision: int, latest: int = 0) -> Point:
    return Point(revision, f"t{revision}", latest or revision)


def error(code: str, reason: str = "", retry_after: Optional[float] = None) -> ListwatchError:
    return error_from("no", code=grpc.StatusCode[code], reason=reason, retry_after=retry_after)
