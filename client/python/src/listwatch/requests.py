"""From arguments to requests, the same for both clients."""

from __future__ import annotations

import uuid
from typing import Iterable, Optional

from listwatch import v1
from listwatch.options import to_duration


def create(
    resource: v1.Resource, *, ttl: Optional[float] = None, request_id: str = ""
) -> v1.CreateRequest:
    """A create under ``request_id``, or under a random one."""
    return v1.CreateRequest(
        resource=resource, ttl=to_duration(ttl), request_id=request_id or _random_id()
    )


def update(
    resource: v1.Resource,
    *,
    if_revision: Optional[int] = None,
    allow_missing: bool = False,
    ttl: Optional[float] = None,
    request_id: str = "",
) -> v1.UpdateRequest:
    """An update under ``request_id``, or under a random one."""
    return v1.UpdateRequest(
        resource=resource,
        if_revision=if_revision,
        allow_missing=allow_missing,
        ttl=to_duration(ttl),
        request_id=request_id or _random_id(),
    )


def delete(
    key: v1.Key,
    *,
    if_revision: Optional[int] = None,
    if_uid: Optional[str] = None,
    allow_missing: bool = False,
    request_id: str = "",
) -> v1.DeleteRequest:
    """A delete under ``request_id``, or under a random one."""
    return v1.DeleteRequest(
        key=key,
        if_revision=if_revision,
        if_uid=if_uid,
        allow_missing=allow_missing,
        request_id=request_id or _random_id(),
    )


def batch(operations: Iterable[v1.BatchOperation], *, request_id: str = "") -> v1.BatchRequest:
    """A batch under ``request_id``, or under a random one."""
    return v1.BatchRequest(operations=operations, request_id=request_id or _random_id())


def _random_id() -> str:
    """So many random bits that two clients do not meet by chance within any server's window."""
    return uuid.uuid4().hex
