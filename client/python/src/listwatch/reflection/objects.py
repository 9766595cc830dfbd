"""What a reflector holds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Generic, Mapping, NamedTuple, Optional, Tuple, TypeVar, Union

from google.protobuf import timestamp_pb2

from listwatch import v1

T = TypeVar("T")


class ObjectKey(NamedTuple):
    """The name of an object within its collection. Ordered as the server orders lists, and equal to
    the plain tuple of its parts."""

    namespace: str
    """Empty for objects outside any namespace."""
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True)
class Object(Generic[T]):
    """One object: what the server says of it, and its decoded value."""

    key: ObjectKey
    uid: str
    """Of this life of the name: a new one each time it is created."""
    revision: int
    """The store revision of its last write: for ``if_revision``."""
    create_revision: int
    """The store revision at which it was created."""
    update_time: Optional[datetime]
    """When it was last written, by the server's clock. To the microsecond."""
    expire_time: Optional[datetime]
    """When it expires by itself, by the server's clock."""
    labels: Mapping[str, str]
    content_type: str
    """What its value was encoded as."""
    value: T
    """As the reflector's ``decode`` made it; not to be changed, since all readers share it."""


@dataclass(frozen=True)
class Undecodable(Generic[T]):
    """An object whose present value cannot be decoded. It exists; it is not among the objects of
    the snapshot, and subscribers are not told that it is gone."""

    key: ObjectKey
    resource: v1.Resource
    """As the server sent it."""
    error: Exception
    """What ``decode`` raised."""
    last: Optional[Object[T]]
    """The newest version of the same object that could be decoded, if one was held."""


Content = Union[Object[T], Undecodable[T]]
"""What is known of one key."""

Version = Tuple[str, int, int, int]


class Held(Generic[T]):
    """One version of an object."""

    __slots__ = ("content", "version")

    def __init__(self, version: Version, content: Content[T]) -> None:
        self.version = version
        self.content = content

    @property
    def uid(self) -> str:
        """Of which life of the name it is."""
        return self.version[0]

    @property
    def revision(self) -> int:
        """Of its last write."""
        return self.version[1]

    @property
    def visible(self) -> Optional[Object[T]]:
        """What subscribers know of it: an undecodable version does not end an object."""
        content = self.content
        return content.last if isinstance(content, Undecodable) else content


def version_of(resource: v1.Resource) -> Version:
    """What tells two versions apart. The time too: a store that was restored from a backup gives
    revisions out a second time."""
    time = resource.update_time
    return (resource.uid, resource.revision, time.seconds, time.nanos)


def key_of(resource: v1.Resource) -> ObjectKey:
    """Its name within its collection."""
    return ObjectKey(resource.key.namespace, resource.key.name)


def object_of(resource: v1.Resource, value: T) -> Object[T]:
    """Takes everything out of the message: what stays in it would keep the whole response that
    it came with in memory."""
    return Object(
        key=key_of(resource),
        uid=resource.uid,
        revision=resource.revision,
        create_revision=resource.create_revision,
        update_time=_time(resource.update_time) if resource.HasField("update_time") else None,
        expire_time=_time(resource.expire_time) if resource.HasField("expire_time") else None,
        labels=dict(resource.labels),
        content_type=resource.content_type,
        value=value,
    )


def _time(time: timestamp_pb2.Timestamp) -> datetime:
    return time.ToDatetime(tzinfo=timezone.utc)
