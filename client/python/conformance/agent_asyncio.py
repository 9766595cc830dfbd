"""The conformance agent over the asyncio client: see client/conformance/README.md.

python conformance/agent_asyncio.py, with the package installed or ../src on the path.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Dict, Optional, Set

import listwatch
import protocol
from listwatch import aio
from protocol import Json


class Watch:
    """A watch whose events are told by a task of its own."""

    def __init__(self, name: str, watcher: aio.Watcher) -> None:
        self.name = name
        self.watcher = watcher
        self.running = asyncio.Event()
        self.running.set()
        self.task = asyncio.ensure_future(self._tell())

    async def _tell(self) -> None:
        ended: Optional[listwatch.WatchEnded] = None
        try:
            while True:
                await self.running.wait()
                event = await self.watcher.__anext__()
                await self.running.wait()
                protocol.write_line(protocol.event_line(self.name, event))
        except StopAsyncIteration:
            pass
        except listwatch.WatchEnded as error:
            ended = error
        protocol.write_line(protocol.end_line(self.name, ended))

    def close(self) -> None:
        """Cancels the stream."""
        self.watcher.close()
        self.running.set()


class Agent:
    """What there is, by name, and the commands of the protocol as methods."""

    def __init__(self) -> None:
        self.client = aio.Client()
        self.watches: Dict[str, Watch] = {}
        self.reflectors: Dict[str, aio.Reflector[bytes]] = {}

    async def do(self, command: Json) -> None:
        """Does what a line says and answers it."""
        try:
            ok = await getattr(self, f"do_{command['do']}")(command)
            answer = protocol.answer_ok(command, ok)
        except Exception as error:
            answer = protocol.answer_error(command, error)
        protocol.write_line(answer)

    async def do_connect(self, command: Json) -> Json:
        timeout = command.get("request_timeout")
        self.client = aio.Client(
            command["address"], request_timeout=30.0 if timeout is None else timeout / 1000
        )
        return {}

    async def do_create(self, command: Json) -> Json:
        made = await self.client.create(protocol.resource_of(command))
        return {"resource": protocol.message_to_json(made)}

    async def do_update(self, command: Json) -> Json:
        made = await self.client.update(
            protocol.resource_of(command),
            if_revision=protocol.optional_revision(command),
            allow_missing=bool(command.get("allow_missing")),
        )
        return {"resource": protocol.message_to_json(made)}

    async def do_delete(self, command: Json) -> Json:
        gone = await self.client.delete(
            protocol.key_of(command), if_revision=protocol.optional_revision(command)
        )
        return {"resource": protocol.message_to_json(gone)}

    async def do_get(self, command: Json) -> Json:
        found = await self.client.get(protocol.key_of(command))
        return {
            "resource": protocol.message_to_json(found.resource),
            "revision": found.revision,
        }

    async def do_list(self, command: Json) -> Json:
        page_size = int(command.get("page_size") or 0)
        pages = self.client.list(protocol.selector_of(command), page_size=page_size)
        listing = await pages.collect()
        return {
            "resources": [protocol.message_to_json(each) for each in listing.resources],
            "revision": listing.revision,
            "resume_token": listing.resume_token,
        }

    async def do_watch(self, command: Json) -> Json:
        selector, options = protocol.selector_of(command), protocol.options_of(command)
        watcher = self.client.watch(selector, options=options)
        self.watches[command["name"]] = Watch(command["name"], watcher)
        return {}

    async def do_pause(self, command: Json) -> Json:
        self.watches[command["name"]].running.clear()
        return {}

    async def do_resume(self, command: Json) -> Json:
        self.watches[command["name"]].running.set()
        return {}

    async def do_reflect(self, command: Json) -> Json:
        name = command["name"]
        reflector = self.client.reflector(
            protocol.selector_of(command), options=protocol.options_of(command)
        )
        reflector.on_change(lambda notice: protocol.write_line(protocol.notice_line(name, notice)))
        self.reflectors[name] = reflector
        return {}

    async def do_state(self, command: Json) -> Json:
        reflector = self.reflectors[command["name"]]
        return protocol.state_to_json(reflector.status, reflector.snapshot())

    async def do_wait_until_ready(self, command: Json) -> Json:
        reflector = self.reflectors[command["name"]]
        snapshot = await reflector.wait_until_ready(protocol.timeout_of(command))
        return protocol.state_to_json(reflector.status, snapshot)

    async def do_wait_for_revision(self, command: Json) -> Json:
        reflector = self.reflectors[command["name"]]
        revision = int(command["revision"])
        snapshot = await reflector.wait_for_revision(revision, protocol.timeout_of(command))
        return protocol.state_to_json(reflector.status, snapshot)

    async def do_close(self, command: Json) -> Json:
        if command["name"] in self.watches:
            self.watches[command["name"]].close()
        else:
            self.reflectors[command["name"]].close()
        return {}


async def main() -> None:
    """Does what the lines of the input say until it ends."""
    agent = Agent()
    lines = asyncio.StreamReader(limit=64 * 1024 * 1024)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    # The loop holds tasks only weakly. Tasks begin in the order of the lines.
    tasks: Set[asyncio.Task[None]] = set()
    async for text in lines:
        if text.strip():
            task = asyncio.ensure_future(agent.do(protocol.read_line(text)))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
    protocol.end()


if __name__ == "__main__":
    asyncio.run(main())
