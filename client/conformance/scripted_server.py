"""A server that says what its case tells it to say, and remembers what it was asked."""

import threading
import time
from concurrent import futures

import grpc
from google.protobuf import json_format
from google.rpc import code_pb2, error_details_pb2, status_pb2
from listwatch.v1 import listwatch_pb2 as pb

import words
from relay import Relay

SERVICE = "listwatch.v1.ListWatchService"
UNARY = ("Get", "List", "Create", "Update", "Delete", "Batch")


def fail(context, end):
    """Ends a call with a status, its details as Listwatch sends them."""
    code = grpc.StatusCode[end["code"]]
    message = end.get("message", "scripted")
    details = []
    if "reason" in end:
        info = error_details_pb2.ErrorInfo(
            domain=end.get("domain", "listwatch"),
            reason=end["reason"],
            metadata={k: str(v) for k, v in end.get("metadata", {}).items()},
        )
        details.append(info)
    if "retry" in end:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromMilliseconds(end["retry"])
        details.append(retry)
    if details:
        status = status_pb2.Status(code=code_pb2.Code.Value(end["code"]), message=message)
        for detail in details:
            status.details.add().Pack(detail)
        packed = ("grpc-status-details-bin", status.SerializeToString())
        context.set_trailing_metadata((packed,))
    context.abort(code, message)


class Attempt:
    """One call of Watch: what was asked, when, and how it ended."""

    def __init__(self, number, request):
        self.number, self.request = number, request
        self.began = time.monotonic()
        self.ended = None  # by the server
        self.cancelled = None  # by the client
        self.over = threading.Event()

    @property
    def end(self):
        """When the server ended it; before, when it began: what the client does comes later."""
        return self.ended or self.began


class Call:
    def __init__(self, method, request, context):
        self.method, self.request = method, request
        self.began = time.monotonic()
        self.remaining = context.time_remaining()


class Scripted:
    def __init__(self, script, began):
        self.began = began
        self.watches = script.get("watches", [])
        self.calls = script.get("calls", {})
        self.attempts, self.made = [], []
        self.lock = threading.Lock()
        self.gates = {}
        self.complaints = []
        self.stopping = threading.Event()
        self.relay = Relay()
        handlers = {
            "Watch": grpc.unary_stream_rpc_method_handler(
                self._watch,
                request_deserializer=pb.WatchRequest.FromString,
                response_serializer=pb.WatchResponse.SerializeToString,
            )
        }
        for method in UNARY:
            handlers[method] = grpc.unary_unary_rpc_method_handler(
                lambda request, context, method=method: self._call(method, request, context),
                request_deserializer=getattr(pb, f"{method}Request").FromString,
                response_serializer=getattr(pb, f"{method}Response").SerializeToString,
            )
        options = [("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0)]
        self.server = grpc.server(futures.ThreadPoolExecutor(max_workers=24), options=options)
        self.server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, handlers),)
        )
        port = self.server.add_insecure_port("127.0.0.1:0")
        self.relay.target = ("127.0.0.1", port)
        self.server.start()

    def gate(self, name):
        with self.lock:
            return self.gates.setdefault(name, threading.Event())

    def _pause(self, item, attempt):
        """Waits as long as an item says, or until the client has gone."""
        if "gate" in item:
            gate = self.gate(item["gate"])
            while not gate.wait(0.005):
                if attempt.over.is_set() or self.stopping.is_set():
                    return
        else:
            attempt.over.wait(item["wait"] / 1000)

    def _watch(self, request, context):
        with self.lock:
            attempt = Attempt(len(self.attempts) + 1, request)
            self.attempts.append(attempt)

        def over():
            if attempt.ended is None:
                attempt.cancelled = time.monotonic()
            attempt.over.set()

        context.add_callback(over)
        if attempt.number > len(self.watches):
            self.complaints.append(f"attempt {attempt.number} was not to be made")
            script = {}
        else:
            script = self.watches[attempt.number - 1]
        wanted, start = script.get("want"), words.start_of(request)
        if wanted is not None and wanted != start:
            self.complaints.append(f"attempt {attempt.number}: starts with {start}, not {wanted}")
        for item in script.get("send", []):
            if isinstance(item, dict):
                if "headers" in item:
                    context.send_initial_metadata(())
                else:
                    self._pause(item, attempt)
            else:
                yield words.response(item)
            if attempt.over.is_set():
                return
        end = script.get("end", "hang")
        if end == "hang":
            while not attempt.over.wait(0.5) and not self.stopping.is_set():
                pass
            return
        if end == "break":
            self.relay.when_idle()
            attempt.ended = time.monotonic()
            self.relay.cut()
            return
        attempt.ended = time.monotonic()
        if end != "ok":
            fail(context, end)

    def _call(self, method, request, context):
        with self.lock:
            number = sum(call.method == method for call in self.made)
            self.made.append(Call(method, request, context))
        answers = self.calls.get(method, [])
        if number >= len(answers):
            self.complaints.append(f"call {number + 1} of {method} was not to be made")
            fail(context, {"code": "INTERNAL", "reason": "INTERNAL"})
        answer = answers[number]
        if "hang" in answer:
            gone = threading.Event()
            context.add_callback(gone.set)
            gone.wait(answer["hang"] / 1000)
        if "fail" in answer:
            fail(context, answer["fail"])
        made = getattr(pb, f"{method}Response")()
        for size in answer.get("sizes", []):
            resource = made.resources.add(revision=1, value=b"x" * size)
            resource.key.CopyFrom(pb.Key(**words.key(f"big-{len(made.resources)}")))
        return json_format.ParseDict(words.full(answer.get("ok", {})), made)

    def close(self):
        self.stopping.set()
        self.relay.close()
        self.server.stop(None)

    def seen(self):
        """What happened, for a report."""
        told = []
        for attempt in self.attempts:
            text = f"{attempt.began - self.began:7.3f} attempt {attempt.number}"
            text += f" starts with {words.start_of(attempt.request)}"
            for what, when in (("ended", attempt.ended), ("cancelled", attempt.cancelled)):
                if when is not None:
                    text += f", {what} at {when - self.began:.3f}"
            told.append(text)
        for call in self.made:
            shown = json_format.MessageToJson(call.request, indent=None)
            told.append(f"{call.began - self.began:7.3f} {call.method} {shown[:200]}")
        return told
