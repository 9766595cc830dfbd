"""The protocol between the conformance runner and its agents: what both agents share.

Described in client/conformance/README.md. Nothing here does I/O but :func:`write_line`.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any, Dict, NoReturn, Optional, Union

from google.protobuf import json_format

import listwatch
from listwatch import v1

Json = Dict[str, Any]

_writing = threading.Lock()


def write_line(line: Json) -> None:
    """Writes one line of output at once."""
    text = json.dumps(line) + "\n"
    with _writing:
        sys.stdout.write(text)
        sys.stdout.flush()


def end() -> NoReturn:
    """Ends the process at once: there is nothing to save, and taking an interpreter apart that has
    open streams takes longer on a busy machine than the runner waits."""
    sys.stdout.flush()
    os._exit(0)


def read_line(text: Union[str, bytes]) -> Json:
    """One command."""
    command = json.loads(text)
    assert isinstance(command, dict)
    return command


def answer_ok(command: Json, ok: Json) -> Json:
    """The answer to a command that has been done."""
    return {"id": command.get("id"), "ok": ok}


def answer_error(command: Json, error: BaseException) -> Json:
    """The answer to a command that failed."""
    return {"id": command.get("id"), "error": error_to_json(error)}


def error_to_json(error: BaseException) -> Json:
    """An error as the protocol has it."""
    if isinstance(error, listwatch.ListwatchError):
        after = error.retry_after
        return {
            "code": error.code.name,
            "reason": error.reason,
            "message": error.message,
            "metadata": dict(error.metadata),
            "retry_after": None if after is None else round(after * 1000),
        }
    code = "TIMEOUT" if isinstance(error, listwatch.WaitTimeout) else "AGENT"
    message = str(error) or repr(error)
    return {"code": code, "reason": "", "message": message, "metadata": {}, "retry_after": None}


def message_to_json(message: Any) -> Json:
    """ProtoJSON of a message."""
    return json_format.MessageToDict(message)


def resource_of(command: Json) -> v1.Resource:
    """The object that a command is about."""
    return json_format.ParseDict(command["resource"], v1.Resource())


def key_of(command: Json) -> v1.Key:
    """The key that a command is about."""
    return json_format.ParseDict(command["key"], v1.Key())


def selector_of(command: Json) -> v1.Selector:
    """What a command selects."""
    return json_format.ParseDict(command["selector"], v1.Selector())


def optional_revision(command: Json) -> Optional[int]:
    """``if_revision``, which may come as a number or as ProtoJSON's text."""
    revision = command.get("if_revision")
    return None if revision is None else int(revision)


def timeout_of(command: Json) -> float:
    """``timeout`` in seconds."""
    return float(command["timeout"]) / 1000


def options_of(command: Json) -> listwatch.WatchOptions:
    """The options of a watch or a reflector."""
    given: Json = command.get("options") or {}
    found: Json = {}
    start = given.get("start") or {}
    if "resume_token" in start:
        found["start"] = listwatch.AfterToken(start["resume_token"])
    elif "after_revision" in start:
        found["start"] = listwatch.AfterRevision(int(start["after_revision"]))
    elif start.get("now"):
        found["start"] = listwatch.Now()
    for name, enum in (
        ("view", v1.View),
        ("delivery_mode", v1.DeliveryMode),
        ("catch_up", v1.CatchUp),
    ):
        if given.get(name) is not None:
            found[name] = enum.Value(given[name])
    for name in ("bookmark_interval", "first_response_timeout", "progress_timeout"):
        if given.get(name) is not None:
            found[name] = given[name] / 1000
    if given.get("send_previous") is not None:
        found["send_previous"] = given["send_previous"]
    if given.get("backoff") is not None:
        backoff = given["backoff"]
        found["backoff"] = listwatch.BackoffOptions(
            initial=backoff.get("initial", 800) / 1000,
            factor=backoff.get("factor", 2.0),
            max=backoff.get("max", 30_000) / 1000,
        )
    if given.get("jitter") is not None:
        jitter = float(given["jitter"])
        found["randomness"] = lambda: jitter
    if given.get("on_expired") is not None:
        found["on_expired"] = listwatch.OnExpired(given["on_expired"])
    return listwatch.WatchOptions(**found)


_KINDS = {
    listwatch.InitBegin: "init_begin",
    listwatch.InitApply: "init_apply",
    listwatch.InitDone: "init_done",
    listwatch.Resumed: "resumed",
    listwatch.NetBegin: "net_begin",
    listwatch.ManifestBegin: "manifest_begin",
    listwatch.CaughtUp: "caught_up",
    listwatch.Apply: "apply",
    listwatch.Delete: "delete",
    listwatch.Unchanged: "unchanged",
    listwatch.Bookmark: "bookmark",
    listwatch.Disconnected: "disconnected",
}


def event_line(name: str, event: listwatch.Event) -> Json:
    """What is told of an event of a watch."""
    line: Json = {"watch": name, "event": _KINDS[type(event)]}
    if isinstance(
        event, (listwatch.InitApply, listwatch.Apply, listwatch.Delete, listwatch.Unchanged)
    ):
        line["object"] = message_to_json(event.object)
    if isinstance(event, (listwatch.Apply, listwatch.Delete)) and event.previous is not None:
        line["previous"] = message_to_json(event.previous)
    if isinstance(event, listwatch.Apply):
        line["change"] = event.change.value
    elif isinstance(event, listwatch.Delete):
        line["cause"] = f"DELETE_CAUSE_{event.cause.name}"
    elif isinstance(
        event, (listwatch.InitDone, listwatch.Resumed, listwatch.CaughtUp, listwatch.Bookmark)
    ):
        line["revision"] = event.point.revision
        line["resume_token"] = event.point.resume_token
        line["latest_revision"] = event.point.latest_revision
    elif isinstance(event, listwatch.Disconnected):
        line["cause"] = event.cause.value
        line["retry_in"] = event.retry_in * 1000
        if event.error is not None:
            line["error"] = error_to_json(event.error)
    return line


def end_line(name: str, error: Optional[listwatch.WatchEnded]) -> Json:
    """What is told of the end of a watch."""
    if error is None:
        return {"watch": name, "ended": "closed"}
    ended = "expired" if isinstance(error, listwatch.WatchExpired) else "refused"
    return {"watch": name, "ended": ended, "error": error_to_json(error)}


def notice_line(name: str, notice: listwatch.Notice[bytes]) -> Json:
    """What is told of a change of a reflector."""
    if isinstance(notice, listwatch.Synced):
        return {"reflector": name, "synced": True}
    return {
        "reflector": name,
        "change": {
            "key": f"{notice.key.namespace}/{notice.key.name}",
            "old": _version(notice.old),
            "new": _version(notice.new),
        },
    }


def _version(held: Optional[listwatch.Object[bytes]]) -> Optional[Json]:
    return None if held is None else {"uid": held.uid, "revision": held.revision}


def state_to_json(status: listwatch.Status, snapshot: listwatch.Snapshot[bytes]) -> Json:
    """The answer to ``state``."""
    stopped = status.stopped_by
    return {
        "ready": status.ready,
        "stale": status.stale,
        "revision": snapshot.revision,
        "objects": {f"{k.namespace}/{k.name}": each.revision for k, each in snapshot.items()},
        "stopped": None if stopped is None else error_to_json(stopped),
    }
