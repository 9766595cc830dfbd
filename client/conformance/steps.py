"""The verbs of the cases. What each takes is said in cases/README.md."""

import re
import signal
import time

from google.protobuf import json_format

import words
from agent_process import Agent
from real_server import Server
from scripted_server import Scripted

PATIENCE = 10000  # ms; only a failure waits for it


class Failed(Exception):
    """What was expected, and what was seen."""


class Run:
    """One case as it runs."""

    def __init__(self, case, agent_command, server_binary, folder):
        self.case, self.server_binary, self.folder = case, server_binary, folder
        self.began = time.monotonic()
        self.agent = Agent(agent_command, self.began)
        self.server = self.fake = None
        self.saved = {}
        self.before = {}  # of each name, the line that was expected last
        self.pending = {}
        self.held = {}

    def close(self):
        ended = self.agent.close()
        for end in (self.fake, self.server):
            if end is not None:
                end.close()
        return ended

    def steps(self):
        for number, step in enumerate(self.case["steps"], 1):
            ((verb, given),) = step.items()
            try:
                getattr(self, f"do_{verb}")(self.filled(given))
            except Failed as failed:
                raise Failed(f"step {number} ({verb}): {failed}") from None
            except Exception as error:
                raise Failed(f"step {number} ({verb}): {type(error).__name__}: {error}") from error
            if self.agent.ended.is_set() and verb != "end":
                raise Failed(f"step {number} ({verb}): the agent has ended")
        if self.fake is not None and self.fake.complaints:
            raise Failed("; ".join(self.fake.complaints))

    def filled(self, given):
        """With what was saved in the place of $NAME."""
        if isinstance(given, dict):
            return {name: self.filled(value) for name, value in given.items()}
        if isinstance(given, list):
            return [self.filled(value) for value in given]
        if not isinstance(given, str):
            return given
        whole = re.fullmatch(r"\$(\w+)", given)
        if whole:
            return self.saved[whole[1]]
        return re.sub(r"\$(\w+)", lambda found: str(self.saved[found[1]]), given)

    # Servers

    def do_server(self, given):
        given = {given: None} if isinstance(given, str) else given
        if self.server is None:
            self.server = Server(self.server_binary, self.folder)
        if "start" in given:
            self.server.start(given["start"] or (), given.get("data"))
        elif "stop" in given:
            self.server.stop()
        elif "kill" in given:
            self.server.stop(signal.SIGKILL)
        elif "terminate" in given:
            self.server.tell(signal.SIGTERM)
        else:
            raise ValueError(f"no such order: {given}")

    def do_fake(self, given):
        self.fake = Scripted(given, self.began)

    def do_network(self, given):
        relay = (self.fake or self.server).relay
        if given == "up":
            relay.up = True
        else:
            {"cut": relay.cut, "down": relay.down}[given]()

    def do_open(self, given):
        self.fake.gate(given).set()

    def do_write(self, given):
        given = given if isinstance(given, dict) else {"names": given}
        names = given.get("names", given.get("name"))
        value = b"x" * given["size"] if "size" in given else str(given.get("value", "")).encode()
        for time_of in range(given.get("times", 1)):
            for name in [names] if isinstance(names, str) else names:
                revision = self.server.write(name.format(time_of), value, given.get("labels"))
                self.saved[re.sub(r"\W", "_", name)] = revision
        self.saved["revision"] = revision

    def do_write_together(self, given):
        self.saved["revision"] = self.server.write_together(given)

    def do_delete(self, given):
        for name in [given] if isinstance(given, str) else given:
            self.saved[re.sub(r"\W", "_", name)] = self.saved["revision"] = self.server.delete(name)

    def do_compact(self, _):
        self.server.compact()

    def do_sleep(self, given):
        time.sleep(given / 1000)

    # The agent

    def do_connect(self, given):
        given = {"to": given} if isinstance(given, str) else dict(given)
        end = {"server": self.server, "fake": self.fake}[given.pop("to")]
        self.do_agent(dict(given, do="connect", address=end.relay.address, ok={}))

    def do_agent(self, given):
        given = dict(given)
        wanted = {name: given.pop(name) for name in ("ok", "error") if name in given}
        save, later = given.pop("save", {}), given.pop("later", None)
        within = given.pop("within", PATIENCE)
        at_least = given.pop("at_least", 0)
        sent = time.monotonic()
        number = self.agent.send(words.full(given))
        if later:
            self.pending[later] = number
            return
        self._answered(number, wanted or {"ok": {}}, within, save)
        took = (time.monotonic() - sent) * 1000
        if took < at_least:
            raise Failed(f"answered after {took:.0f} ms, not {at_least} or more")

    def do_answer(self, given):
        wanted = {name: given[name] for name in ("ok", "error") if name in given}
        number = self.pending[given["of"]]
        self._answered(number, wanted, given.get("within", PATIENCE), given.get("save", {}))

    def do_unanswered(self, given):
        if self.agent.answer(self.pending[given["of"]], given["for"] / 1000) is not None:
            raise Failed("there is an answer already")

    def _answered(self, number, wanted, within, save):
        answer = self.agent.answer(number, within / 1000)
        if answer is None:
            raise Failed(f"no answer within {within} ms; expected {wanted}")
        ((kind, value),) = wanted.items()
        if kind not in answer or not words.matches(words.full(value), answer[kind]):
            raise Failed(f"expected {wanted}, seen {shortened(answer)}")
        for name, path in save.items():
            found = answer["ok"]
            for part in str(path).split("."):
                found = found[int(part)] if isinstance(found, list) else found[part]
            self.saved[name] = found

    def _line(self, name, within):
        if name in self.held:
            return self.held.pop(name)
        return self.agent.line(name, within)

    def do_expect(self, given):
        name, skipped = given["of"], given.get("skip", [])
        skipped = [words.line(item) for item in ([skipped] if isinstance(skipped, str) else skipped)]
        until = time.monotonic() + given.get("within", PATIENCE) / 1000
        for item in given["lines"]:
            wanted = item["any_order"] if "any_order" in item else [item]
            wanted = [words.line(one) for one in wanted]
            while wanted:
                found = self._line(name, until - time.monotonic())
                if found is None:
                    raise Failed(f"no line; expected {wanted}")
                line = found[1]
                fitting = [one for one in wanted if words.matches(one, line)]
                again = is_connection_lost(line) and is_connection_lost(self.before.get(name, {}))
                self.before[name] = line
                if fitting:
                    wanted.remove(fitting[0])
                elif again:
                    # Who tries again at once may meet the connection before it is known to be lost.
                    pass
                elif not any(words.matches(one, line) for one in skipped):
                    raise Failed(f"expected {wanted}, seen {shortened(line)}")
                self.saved["token"] = line.get("resume_token") or self.saved.get("token")

    def do_expect_numbered(self, given):
        """apply lines of names with a number in them, all of them, in order."""
        until = time.monotonic() + given.get("within", PATIENCE) / 1000
        next_one, last_revision = given.get("from", 0), 0
        while next_one < given["to"]:
            found = self._line(given["of"], until - time.monotonic())
            if found is None:
                raise Failed(f"{next_one} is not told")
            line = found[1]
            if line.get("event") == "bookmark":
                continue
            wanted = {"event": "apply", "object": {"key": {"name": given["name"].format(next_one)}}}
            if not words.matches(wanted, line):
                raise Failed(f"expected {wanted}, seen {shortened(line)}")
            revision = int(line["object"]["revision"])
            if revision <= last_revision:
                raise Failed(f"revision {revision} after {last_revision}")
            next_one, last_revision = next_one + 1, revision

    def do_expect_quiet(self, given):
        but = given.get("but", [])
        but = [words.line(item) for item in ([but] if isinstance(but, str) else but)]
        until = time.monotonic() + given["for"] / 1000
        while time.monotonic() < until:
            found = self._line(given["of"], until - time.monotonic())
            if found and not any(words.matches(one, found[1]) for one in but):
                raise Failed(f"expected nothing, seen {shortened(found[1])}")

    def do_expect_state(self, given):
        given = dict(given)
        name, within = given.pop("of"), given.pop("within", PATIENCE)
        if "same_as_server" in given:
            given["objects"] = self.server.contents(given.pop("same_as_server"))
        objects = given.pop("objects", None)
        if objects is not None:
            objects = {key if "/" in key else words.shown(key): r for key, r in objects.items()}
        until = time.monotonic() + within / 1000
        while True:
            number = self.agent.send({"do": "state", "name": name})
            answer = self.agent.answer(number, PATIENCE / 1000) or {}
            state = answer.get("ok", {})
            if words.matches(given, state) and objects in (None, state.get("objects")):
                return
            if time.monotonic() >= until:
                raise Failed(f"expected {given} and objects {objects}, seen {shortened(answer)}")
            time.sleep(0.03)

    # What the servers saw

    def do_expect_attempts(self, given):
        given = {"count": given} if isinstance(given, int) else given
        until = time.monotonic() + given.get("within", PATIENCE) / 1000
        while len(self.fake.attempts) < given["count"] and time.monotonic() < until:
            time.sleep(0.005)
        attempts = list(self.fake.attempts)
        if len(attempts) != given["count"]:
            raise Failed(f"expected {given['count']} attempts, seen {len(attempts)}")
        starts = [words.start_of(attempt.request) for attempt in attempts]
        if given.get("starts", starts) != starts:
            raise Failed(f"expected starts {given['starts']}, seen {starts}")
        for wanted, one, next_one in zip(given.get("gaps", []), attempts, attempts[1:]):
            gap = (next_one.began - one.end) * 1000
            if wanted and not words.matches(wanted, gap):
                raise Failed(f"expected a gap of {wanted} ms, seen {gap:.0f}")
        for wanted, attempt in zip(given.get("requests", []), attempts):
            seen = json_format.MessageToDict(attempt.request)
            if not words.matches(words.full(wanted), seen):
                raise Failed(f"expected a request of {wanted}, seen {seen}")

    def do_expect_cancelled(self, given):
        given = {"attempt": given} if isinstance(given, int) else given
        attempt = self.fake.attempts[given["attempt"] - 1]
        until = time.monotonic() + given.get("within", PATIENCE) / 1000
        while attempt.cancelled is None and time.monotonic() < until:
            time.sleep(0.005)
        if attempt.cancelled is None:
            raise Failed("the client did not cancel it")
        if given.get("before_next"):
            # The two are told by different threads of the server.
            late = attempt.cancelled - self.fake.attempts[given["attempt"]].began
            if late > 0.2:
                raise Failed(f"cancelled {late * 1000:.0f} ms after the next attempt began")

    def do_expect_calls(self, given):
        made = [call for call in self.fake.made if call.method == given["method"]]
        if len(made) != given["count"]:
            raise Failed(f"expected {given['count']} calls, seen {len(made)}")
        for field in given.get("same", []):
            values = [getattr(call.request, field) for call in made]
            if not values[0] or any(value != values[0] for value in values):
                raise Failed(f"{field}: expected one and the same, seen {values}")
        for wanted, call in zip(given.get("remaining", []), made):
            seen = None if call.remaining is None else call.remaining * 1000
            if not words.matches(wanted, seen):
                raise Failed(f"expected a deadline in {wanted} ms, seen {seen}")
        for wanted, one, next_one in zip(given.get("gaps", []), made, made[1:]):
            gap = (next_one.began - one.began) * 1000
            if not words.matches(wanted, gap):
                raise Failed(f"expected a gap of {wanted} ms, seen {gap:.0f}")

    def do_expect_watches(self, given):
        """How many watches the real server has, and how much it has sent them."""
        until = time.monotonic() + given.get("within", PATIENCE) / 1000
        while True:
            open_watches = self.server.watches()
            seen = {"count": len(open_watches), "sent": sum(w.sent_bytes for w in open_watches)}
            if all(words.matches(given[name], seen[name]) for name in seen if name in given):
                return
            if time.monotonic() >= until:
                raise Failed(f"expected {given}, seen {seen}")
            time.sleep(0.05)


def is_connection_lost(line):
    error = line.get("error") or {}
    is_lost = line.get("event") == "disconnected" and error.get("code") == "UNAVAILABLE"
    return is_lost and not error.get("reason")


def shortened(value):
    text = str(value)
    return text if len(text) < 1200 else f"{text[:1100]} ... {text[-80:]}"
