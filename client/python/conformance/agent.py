"""The conformance agent over the synchronous client: see client/conformance/README.md.

python conformance/agent.py, with the package installed or ../src on the path.
"""

from __future__ import annotations

import sys
import threading
from typing import Dict, Optional

import listwatch
import protocol
from protocol import Json


class Watch:
    """A watch whose events are told by a thread of its own."""

    def __init__(self, name: str, watcher: listwatch.Watcher) -> None:
        self.name = name
        self.watcher = watcher
        self.running = threading.Event()
        self.running.set()
        threading.Thread(target=self._tell, daemon=True).start()

    def _tell(self) -> None:
        ended: Optional[listwatch.WatchEnded] = None
        try:
            while True:
                self.running.wait()
                event = next(self.watcher)
                self.running.wait()
                protocol.write_line(protocol.event_line(self.name, event))
        except StopIteration:
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
        self.client = listwatch.Client()
        self.watches: Dict[str, Watch] = {}
        self.reflectors: Dict[str, listwatch.Reflector[bytes]] = {}

    def do(self, command: Json) -> None:
        """Does what a line says and answers it."""
        try:
            answer = protocol.answer_ok(command, getattr(self, f"do_{command['do']}")(command))
        except Exception as error:
            answer = protocol.answer_error(command, error)
        protocol.write_line(answer)

    def do_connect(self, command: Json) -> Json:
        timeout = command.get("request_timeout")
        self.client = listwatch.Client(
            command["address"], request_timeout=30.0 if timeout is None else timeout / 1000
        )
        return {}

    def do_create(self, command: Json) -> Json:
        made = self.client.create(protocol.resource_of(command))
        return {"resource": protocol.message_to_json(made)}

    def do_update(self, command: Json) -> Json:
        made = self.client.update(
            protocol.resource_of(command),
            if_revision=protocol.optional_revision(command),
            allow_missing=bool(command.get("allow_missing")),
        )
        return {"resource": protocol.message_to_json(made)}

    def do_delete(self, command: Json) -> Json:
        gone = self.client.delete(
            protocol.key_of(command), if_revision=protocol.optional_revision(command)
        )
        return {"resource": protocol.message_to_json(gone)}

    def do_get(self, command: Json) -> Json:
        found = self.client.get(protocol.key_of(command))
        return {
            "resource": protocol.message_to_json(found.resource),
            "revision": found.revision,
        }

    def do_list(self, command: Json) -> Json:
        page_size = int(command.get("page_size") or 0)
        listing = self.client.list(protocol.selector_of(command), page_size=page_size).collect()
        return {
            "resources": [protocol.message_to_json(each) for each in listing.resources],
            "revision": listing.revision,
            "resume_token": listing.resume_token,
        }

    def do_watch(self, command: Json) -> Json:
        selector, options = protocol.selector_of(command), protocol.options_of(command)
        watcher = self.client.watch(selector, options=options)
        self.watches[command["name"]] = Watch(command["name"], watcher)
        return {}

    def do_pause(self, command: Json) -> Json:
        self.watches[command["name"]].running.clear()
        return {}

    def do_resume(self, command: Json) -> Json:
        self.watches[command["name"]].running.set()
        return {}

    def do_reflect(self, command: Json) -> Json:
        name = command["name"]
        reflector = self.client.reflector(
            protocol.selector_of(command), options=protocol.options_of(command)
        )
        reflector.on_change(lambda notice: protocol.write_line(protocol.notice_line(name, notice)))
        self.reflectors[name] = reflector
        return {}

    def do_state(self, command: Json) -> Json:
        reflector = self.reflectors[command["name"]]
        return protocol.state_to_json(reflector.status, reflector.snapshot())

    def do_wait_until_ready(self, command: Json) -> Json:
        reflector = self.reflectors[command["name"]]
        snapshot = reflector.wait_until_ready(protocol.timeout_of(command))
        return protocol.state_to_json(reflector.status, snapshot)

    def do_wait_for_revision(self, command: Json) -> Json:
        reflector = self.reflectors[command["name"]]
        revision = int(command["revision"])
        snapshot = reflector.wait_for_revision(revision, protocol.timeout_of(command))
        return protocol.state_to_json(reflector.status, snapshot)

    def do_close(self, command: Json) -> Json:
        if command["name"] in self.watches:
            self.watches[command["name"]].close()
        else:
            self.reflectors[command["name"]].close()
        return {}


# These wait for the network or for something to happen: each on a thread of its own, so that
# others are not held up. The rest is done in the order of the lines.
WAITING = ("wait_until_ready", "wait_for_revision", "create", "update", "delete", "get", "list")


def main() -> None:
    """Does what the lines of the input say until it ends."""
    agent = Agent()
    for text in sys.stdin:
        if not text.strip():
            continue
        command = protocol.read_line(text)
        if command.get("do") in WAITING:
            threading.Thread(target=agent.do, args=(command,), daemon=True).start()
        else:
            agent.do(command)
    protocol.end()


if __name__ == "__main__":
    main()
