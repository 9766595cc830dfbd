"""Calls, watches and reflectors for threads."""

from __future__ import annotations

import time
import weakref
from types import TracebackType
from typing import Any, Callable, Iterable, Iterator, Optional, Type, TypeVar, Union, overload

import grpc
from google.protobuf.message import Message

from listwatch import requests, v1
from listwatch.attempts import Attempts
from listwatch.channel import (
    DEFAULT_ADDRESS,
    DEFAULT_REQUEST_TIMEOUT,
    ChannelOptions,
    channel_options,
    target_of,
)
from listwatch.errors import error_of
from listwatch.options import WatchOptions
from listwatch.pages import Pages
from listwatch.reflector import Reflector
from listwatch.selection import FieldSelection, LabelSelection, select
from listwatch.v1 import listwatch_pb2_grpc as stubs
from listwatch.watchdog import Watchdog
from listwatch.watcher import Call, Watcher

Answer = TypeVar("Answer")
T = TypeVar("T")


class Client:
    """A connection to a Listwatch server.

    It connects with the first call, and anew whenever that is needed. Its methods may be called
    from any thread. gRPC does not survive a fork: make clients in the process that uses them.

    Calls are retried up to three times within the request timeout when the server is unavailable
    or asks to come back later. Writes too: each has a ``request_id``, under which the server does
    it once and repeats its answer. All of them raise :class:`~listwatch.errors.ListwatchError`.
    """

    def __init__(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        request_timeout: float = DEFAULT_REQUEST_TIMEOUT,
        credentials: Optional[grpc.ChannelCredentials] = None,
        options: ChannelOptions = (),
        channel: Optional[grpc.Channel] = None,
    ) -> None:
        """Does not connect yet.

        Args:
            address: ``host:port``, or any gRPC target.
            request_timeout: Seconds that a call may take in all, its retries included. Watches
                have their own patience, in :class:`~listwatch.options.WatchOptions`.
            credentials: For TLS; None: plain text.
            options: gRPC channel arguments that go before this package's own.
            channel: One made elsewhere (with interceptors, say), in place of all but the timeout;
                make it with :func:`listwatch.channel.channel_options`. :meth:`close` closes it.
        """
        if channel is None:
            target, arguments = target_of(address), channel_options(options)
            if credentials is None:
                channel = grpc.insecure_channel(target, arguments)
            else:
                channel = grpc.secure_channel(target, credentials, arguments)
        self._channel = channel
        self._service = stubs.ListWatchServiceStub(channel)
        self._admin = stubs.AdminServiceStub(channel)
        self._request_timeout = request_timeout
        self._watchdog = Watchdog()
        self._open: weakref.WeakSet[Union[Watcher, Reflector[Any]]] = weakref.WeakSet()

    def close(self) -> None:
        """Closes the connection, and every watch and reflector of this client."""
        for each in list(self._open):
            each.close()
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def get(
        self,
        key: v1.Key,
        *,
        view: v1.View = v1.VIEW_FULL,
        consistency: Optional[v1.Consistency] = None,
    ) -> v1.GetResponse:
        """Reads one object, and the store revision at which it was read.

        Raises:
            NotFound: It does not exist.
        """
        request = v1.GetRequest(key=key, view=view, consistency=consistency)
        return self._call(self._service.Get, request)

    def list(
        self,
        collection: Union[str, v1.Selector],
        *,
        namespace: str = "",
        name: str = "",
        name_prefix: str = "",
        labels: LabelSelection = (),
        fields: FieldSelection = (),
        view: v1.View = v1.VIEW_FULL,
        consistency: Optional[v1.Consistency] = None,
        page_size: int = 0,
    ) -> Pages:
        """Reads what is selected (see :func:`~listwatch.selection.select`) page by page, all of
        one revision. ``list(…).collect()`` reads everything at once.

        Args:
            page_size: At most so many objects a page; 0: the server's default.
        """
        selector = select(
            collection,
            namespace=namespace,
            name=name,
            name_prefix=name_prefix,
            labels=labels,
            fields=fields,
        )
        request = v1.ListRequest(
            selector=selector, page_size=page_size, view=view, consistency=consistency
        )
        return Pages(lambda request: self._call(self._service.List, request), request)

    def create(
        self, resource: v1.Resource, *, ttl: Optional[float] = None, request_id: str = ""
    ) -> v1.Resource:
        """Writes a new object and returns it without its value.

        Args:
            ttl: Seconds after which it expires by itself.
            request_id: At most 128 bytes; empty: a random one.

        Raises:
            AlreadyExists: The key is taken.
        """
        request = requests.create(resource, ttl=ttl, request_id=request_id)
        return self._call(self._service.Create, request).resource

    def update(
        self,
        resource: v1.Resource,
        *,
        if_revision: Optional[int] = None,
        allow_missing: bool = False,
        ttl: Optional[float] = None,
        request_id: str = "",
    ) -> v1.Resource:
        """Replaces an object and returns it without its value.

        Args:
            if_revision: Only if the object is at this revision.
            allow_missing: Creates it if it does not exist; not with ``if_revision``.
            ttl: Seconds after which it expires by itself.
            request_id: At most 128 bytes; empty: a random one.

        Raises:
            Conflict: ``if_revision`` is not the object's revision.
            NotFound: It does not exist.
        """
        request = requests.update(
            resource,
            if_revision=if_revision,
            allow_missing=allow_missing,
            ttl=ttl,
            request_id=request_id,
        )
        return self._call(self._service.Update, request).resource

    def delete(
        self,
        key: v1.Key,
        *,
        if_revision: Optional[int] = None,
        if_uid: Optional[str] = None,
        allow_missing: bool = False,
        request_id: str = "",
    ) -> v1.Resource:
        """Deletes an object and returns its last state, with the revision of the deletion.

        Args:
            if_revision: Only if the object is at this revision.
            if_uid: Only if it is still the object of this uid.
            allow_missing: No error if it does not exist.
            request_id: At most 128 bytes; empty: a random one.

        Raises:
            Conflict: ``if_revision`` or ``if_uid`` does not hold.
            NotFound: It does not exist.
        """
        request = requests.delete(
            key,
            if_revision=if_revision,
            if_uid=if_uid,
            allow_missing=allow_missing,
            request_id=request_id,
        )
        return self._call(self._service.Delete, request).resource

    def batch(
        self, operations: Iterable[v1.BatchOperation], *, request_id: str = ""
    ) -> v1.BatchResponse:
        """Applies several writes at one revision, all or none.

        Raises:
            ListwatchError: That of the first operation which cannot be done; then none was.
        """
        request = requests.batch(operations, request_id=request_id)
        return self._call(self._service.Batch, request)

    def compact(self, revision: int, *, wait: bool = False) -> int:
        """Drops history before a revision; returns the revision that was compacted to.

        Args:
            wait: Returns only when the space has been given back.
        """
        request = v1.CompactRequest(revision=revision, wait=wait)
        return self._call(self._admin.Compact, request).compact_revision

    def status(self) -> v1.GetStatusResponse:
        """Revisions, sizes, limits and watch counts of the server."""
        return self._call(self._admin.GetStatus, v1.GetStatusRequest())

    def watches(self, collection: str = "") -> Iterator[v1.OpenWatch]:
        """The server's open watches, of one collection or of all. Read page by page, and each page
        shows its own moment."""
        request = v1.ListWatchesRequest(collection=collection)
        while True:
            page = self._call(self._admin.ListWatches, request)
            yield from page.watches
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def export(self) -> Iterator[v1.ExportResponse]:
        """Streams every object as of one revision. It is complete only if the last frame is the
        footer. Neither retried nor limited in time."""
        try:
            yield from self._admin.Export(v1.ExportRequest())
        except grpc.RpcError as error:
            raise error_of(error) from error

    def watch(
        self,
        collection: Union[str, v1.Selector],
        *,
        namespace: str = "",
        name: str = "",
        name_prefix: str = "",
        labels: LabelSelection = (),
        fields: FieldSelection = (),
        options: WatchOptions = WatchOptions(),
    ) -> Watcher:
        """Watches what is selected (see :func:`~listwatch.selection.select`) until it is closed:
        reconnects, resumes, starts over. Opens its stream when the first event is asked for."""
        selector = select(
            collection,
            namespace=namespace,
            name=name,
            name_prefix=name_prefix,
            labels=labels,
            fields=fields,
        )
        watcher = Watcher(self._open_stream, self._watchdog, selector, options)
        self._open.add(watcher)
        return watcher

    @overload
    def reflector(
        self,
        collection: Union[str, v1.Selector],
        *,
        namespace: str = "",
        name: str = "",
        name_prefix: str = "",
        labels: LabelSelection = (),
        fields: FieldSelection = (),
        options: WatchOptions = WatchOptions(),
    ) -> Reflector[bytes]: ...

    @overload
    def reflector(
        self,
        collection: Union[str, v1.Selector],
        *,
        decode: Callable[[bytes], T],
        namespace: str = "",
        name: str = "",
        name_prefix: str = "",
        labels: LabelSelection = (),
        fields: FieldSelection = (),
        options: WatchOptions = WatchOptions(),
    ) -> Reflector[T]: ...

    def reflector(
        self,
        collection: Union[str, v1.Selector],
        *,
        decode: Callable[[bytes], Any] = bytes,
        namespace: str = "",
        name: str = "",
        name_prefix: str = "",
        labels: LabelSelection = (),
        fields: FieldSelection = (),
        options: WatchOptions = WatchOptions(),
    ) -> Reflector[Any]:
        """Keeps a copy of what is selected (see :func:`~listwatch.selection.select`) on a daemon
        thread until it is closed.

        Args:
            decode: Makes the value of an object from its bytes, such as ``json.loads``; on the
                reflector's thread, once for each version. What it raises keeps the object out of
                the snapshot (see :attr:`Snapshot.undecodable`) and does not stop the reflector.
            options: Their ``start`` and ``on_expired`` are left aside: a reflector begins with the
                initial state, and starts over when history is gone.
        """
        selector = select(
            collection,
            namespace=namespace,
            name=name,
            name_prefix=name_prefix,
            labels=labels,
            fields=fields,
        )
        reflector = Reflector(self._open_stream, self._watchdog, selector, options, decode)
        self._open.add(reflector)
        return reflector

    def _open_stream(self, request: v1.WatchRequest) -> Call:
        # A method, so that whoever watches keeps the client, and by it the channel.
        return self._service.Watch(request)

    def _call(self, method: Callable[..., Answer], request: Message) -> Answer:
        attempts = Attempts(self._request_timeout, time.monotonic())
        while True:
            left = attempts.begin(time.monotonic())
            try:
                return method(request, timeout=left)
            except grpc.RpcError as failure:
                error = error_of(failure)
                delay = attempts.delay_after(error, time.monotonic())
                if delay is None:
                    raise error from failure
            time.sleep(delay)
