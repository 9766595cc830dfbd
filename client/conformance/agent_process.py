"""The client's side: a process that is told what to do, and tells what happens."""

import json
import queue
import subprocess
import threading
import time
from collections import defaultdict, deque


class Agent:
    def __init__(self, command, began):
        self.began = began
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.answers = defaultdict(queue.Queue)
        self.lines = defaultdict(queue.Queue)
        self.last = deque(maxlen=25)
        self.errors = deque(maxlen=40)
        self.ended = threading.Event()
        self.next_id = 0
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._read_errors, daemon=True).start()

    def _read(self):
        for text in self.process.stdout:
            now = time.monotonic()
            self._note("<", text.decode(errors="replace").strip(), now)
            try:
                line = json.loads(text)
                if "id" in line:
                    self.answers[line["id"]].put(line)
                else:
                    self.lines[line.get("watch", line.get("reflector"))].put((now, line))
            except (ValueError, TypeError, AttributeError):
                self._note("!", "not a line of the protocol", now)
        self.ended.set()

    def _read_errors(self):
        for text in self.process.stderr:
            self.errors.append(text.decode(errors="replace").rstrip())

    def _note(self, direction, text, now):
        if len(text) > 400:
            text = f"{text[:300]} ... {text[-60:]}"
        self.last.append(f"{now - self.began:7.3f} {direction} {text}")

    def send(self, command):
        self.next_id += 1
        text = json.dumps(dict(command, id=self.next_id))
        self._note(">", text, time.monotonic())
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()
        return self.next_id

    def answer(self, number, within):
        """The answer to a command, or None."""
        return self._take(self.answers[number], within)

    def line(self, name, within):
        """The next line of a watch or a reflector with its time, or None."""
        return self._take(self.lines[name], within)

    def _take(self, source, within):
        until = time.monotonic() + within
        while True:
            try:
                return source.get(timeout=max(0.0, min(0.1, until - time.monotonic())))
            except queue.Empty:
                gone = self.ended.is_set() and source.empty()
                if gone or time.monotonic() >= until:
                    return None

    def close(self):
        try:
            self.process.stdin.close()
        except OSError:
            pass
        try:
            self.process.wait(timeout=2)
            return True
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return False
