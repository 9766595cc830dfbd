"""Against a real server, whose address is in LISTWATCH_ADDRESS; skipped without one."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import threading
import time
import uuid
from typing import Iterator, List

import pytest

import listwatch
from listwatch import aio, v1

ADDRESS = os.environ.get("LISTWATCH_ADDRESS", "")
PATIENCE = 30.0

pytestmark = pytest.mark.skipif(not ADDRESS, reason="no server in LISTWATCH_ADDRESS")


@pytest.fixture
def client() -> Iterator[listwatch.Client]:
    with listwatch.Client(ADDRESS) as client:
        yield client


@pytest.fixture
def collection() -> str:
    return f"c-{uuid.uuid4().hex}"


def watch_count(client: listwatch.Client, collection: str) -> int:
    return len(list(client.watches(collection)))


def wait_for_watches(client: listwatch.Client, collection: str, count: int) -> None:
    until = time.monotonic() + PATIENCE
    while watch_count(client, collection) != count:
        assert time.monotonic() < until, "not in time"
        time.sleep(0.02)


def test_calls(client: listwatch.Client, collection: str) -> None:
    made = [client.create(listwatch.resource(collection, "n", name)) for name in "abc"]
    with pytest.raises(listwatch.AlreadyExists):
        client.create(listwatch.resource(collection, "n", "a"))
    with pytest.raises(listwatch.Conflict) as conflict:
        client.update(listwatch.resource(collection, "n", "a"), if_revision=made[1].revision)
    assert conflict.value.reason == "REVISION_MISMATCH"
    pages = list(client.list(collection, page_size=2))
    assert [len(page.resources) for page in pages] == [2, 1]
    names = [each.key.name for each in client.list(collection, name_prefix="b").resources()]
    assert names == ["b"]
    check = v1.BatchOperation(check=v1.CheckRevision(key=made[0].key, revision=made[0].revision))
    delete = v1.BatchOperation(delete=v1.DeleteRequest(key=made[1].key))
    assert client.batch([check, delete]).revision > made[2].revision
    assert len(client.list(collection).collect().resources) == 2
    assert list(client.export())[-1].HasField("footer")
    assert client.status().revision > 0


def test_a_watch_is_closed_by_another_thread(client: listwatch.Client, collection: str) -> None:
    watcher = client.watch(collection)
    threading.Timer(0.3, watcher.close).start()
    kinds = [type(event) for event in watcher]
    assert kinds == [listwatch.InitBegin, listwatch.InitDone]
    wait_for_watches(client, collection, 0)


def test_a_watch_that_is_dropped_is_cancelled(client: listwatch.Client, collection: str) -> None:
    watcher = client.watch(collection)
    next(watcher)
    wait_for_watches(client, collection, 1)
    del watcher
    wait_for_watches(client, collection, 0)


def test_a_reflector_that_is_dropped_stops(client: listwatch.Client, collection: str) -> None:
    reflector = client.reflector(collection)
    reflector.wait_until_ready(PATIENCE)
    del reflector
    gc.collect()
    wait_for_watches(client, collection, 0)


def test_a_reflector(client: listwatch.Client, collection: str) -> None:
    client.create(listwatch.resource(collection, "n", "a", b'{"n": 1}'))
    notices: List[listwatch.Notice[object]] = []
    with client.reflector(collection, decode=json.loads) as reflector:
        reflector.on_change(notices.append)
        assert reflector.wait_until_ready(PATIENCE)["n", "a"].value == {"n": 1}
        updated = client.update(listwatch.resource(collection, "n", "a", b'{"n": 2}'))
        snapshot = reflector.wait_for_revision(updated.revision, PATIENCE)
        assert snapshot["n", "a"].value == reflector["n", "a"].value == {"n": 2}
        assert ("n", "b") not in reflector
        with pytest.raises(listwatch.WaitTimeout):
            reflector.wait_for_revision(updated.revision + 1000, 0.01)
    assert reflector.status.stopped
    assert len(reflector) == 1
    with pytest.raises(listwatch.ReflectorStopped):
        reflector.wait_for_revision(updated.revision + 1000, PATIENCE)
    assert isinstance(notices[0], listwatch.ObjectChanged)


def test_closing_the_client_ends_everything(collection: str) -> None:
    client = listwatch.Client(ADDRESS)
    watcher, reflector = client.watch(collection), client.reflector(collection)
    next(watcher)
    reflector.wait_until_ready(PATIENCE)
    client.close()
    assert list(watcher) == []
    assert reflector.status.stopped


def test_a_refused_watch(client: listwatch.Client) -> None:
    with pytest.raises(listwatch.WatchRefused) as refused:
        next(client.watch("-no-collection-"))
    assert refused.value.reason == "FIELD_INVALID"


def test_an_open_watch_does_not_hold_up_the_end_of_the_interpreter(collection: str) -> None:
    program = (
        "import listwatch, threading\n"
        f"client = listwatch.Client({ADDRESS!r})\n"
        f"reflector = client.reflector({collection!r})\n"
        "reflector.wait_until_ready(30)\n"
        "reflector.on_change(print)\n"
        f"watcher = client.watch({collection!r})\n"
        "threading.Thread(target=lambda: list(watcher), daemon=True).start()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=PATIENCE)


def test_asyncio(collection: str) -> None:
    async def scenario() -> None:
        async with aio.Client(ADDRESS) as client:
            watcher = client.watch(collection)
            assert isinstance(await watcher.__anext__(), listwatch.InitBegin)
            assert isinstance(await watcher.__anext__(), listwatch.InitDone)
            # Giving up waiting loses nothing.
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(watcher.__anext__(), 0.05)
            made = await client.create(listwatch.resource(collection, "n", "a", b"1"))
            event = await asyncio.wait_for(watcher.__anext__(), PATIENCE)
            assert isinstance(event, listwatch.Apply)
            assert event.object.uid == made.uid
            async with client.reflector(collection) as reflector:
                snapshot = await reflector.wait_for_revision(made.revision, PATIENCE)
                assert snapshot["n", "a"].value == b"1"
                subscription = reflector.subscribe()
                assert isinstance(await subscription.__anext__(), listwatch.ObjectChanged)
                assert isinstance(await subscription.__anext__(), listwatch.Synced)
            assert [notice async for notice in subscription] == []
            asyncio.get_running_loop().call_later(0.1, watcher.close)
            rest = [type(event) async for event in watcher]
            assert rest == [listwatch.Bookmark]
            listing = await client.list(collection).collect()
            assert [each.key.name for each in listing.resources] == ["a"]
            with pytest.raises(listwatch.NotFound):
                await client.get(listwatch.key(collection, "n", "b"))

    asyncio.run(scenario())


def test_asyncio_closes_what_the_client_opened(collection: str) -> None:
    async def scenario() -> None:
        client = aio.Client(ADDRESS)
        watcher, reflector = client.watch(collection), client.reflector(collection)
        await watcher.__anext__()
        await reflector.wait_until_ready(PATIENCE)
        await client.close()
        assert [event async for event in watcher] == []
        assert reflector.status.stopped

    asyncio.run(scenario())
