"""Agents with a fault, made of one that has none: to see that the cases find it.

    faults.py FAULT STUBS -- AGENT COMMAND...

Stands between the runner and the agent, and between the agent and the server, and changes what passes.
`run.py --self-check` runs, for each fault, the cases named beside it: each must fail.
"""

import json
import os
import queue
import subprocess
import sys
import threading
import uuid
from concurrent import futures

# What each does wrong, and the cases that must find it.
FAULTS = {
    "none": "nothing: these must pass, or what is between them is at fault itself",
    "tells_twice": "tells every change of a watch twice",
    "loses_one": "leaves out one change among hundreds",
    "tells_late": "collects lines until there are twenty",
    "tells_changes_twice": "tells subscribers of a reflector everything twice",
    "mixes_uids": "does not tell an object from its successor of the same name",
    "hides_staleness": "never calls a copy stale",
    "shows_too_much": "says that the copy is at the next revision already",
    "forgets_reasons": "gives errors without their reason",
    "ends_otherwise": "calls every end of a watch refused",
    "never_resumes": "asks for the initial state always",
    "never_cancels": "leaves streams open that it does not read any more",
    "never_backs_off": "opens a lost stream again at once",
    "reads_ahead": "takes what the server sends and queues it",
    "forgets_request_ids": "gives each attempt of a write an id of its own",
    "has_no_deadline": "sends calls without a deadline",
    "hears_no_delay": "does not read RetryInfo",
    "tires_early": "loses a stream that says nothing for a second",
}
FOUND_BY = {
    "none": [
        "a_write_is_tried_again_under_its_request_id",
        "backoff_doubles_up_to_its_bound",
        "going_away_resumes_at_once",
        "nothing_is_told_twice",
        "silence_loses_the_stream",
        "silence_is_not_told_early",
        "the_deadline_is_of_the_whole_call",
        "thirty_seconds_unless_said_otherwise",
        "too_many_watches_come_back_when_they_are_told",
        "who_reads_slowly_holds_the_server_back",
        "close_cancels_the_stream",
        "compaction_while_away_gives_the_net_difference",
    ],
    "tells_twice": ["nothing_is_told_twice", "a_real_server_is_listed_watched_and_written"],
    "loses_one": ["who_reads_slowly_holds_the_server_back"],
    "tells_late": ["a_whole_new_state_in_the_middle_of_a_stream"],
    "tells_changes_twice": ["unchanged_objects_are_told_to_no_one", "changes_with_a_point_are_shown_together"],
    "mixes_uids": ["another_uid_is_another_object"],
    "hides_staleness": ["a_restarted_server_is_resumed", "another_store_replaces_the_copy"],
    "shows_too_much": ["a_half_net_difference_is_never_seen", "what_was_written_can_be_waited_for"],
    "forgets_reasons": ["errors_of_a_real_server_say_what_to_do", "a_refused_watch_ends"],
    "ends_otherwise": ["expired_ends_the_watch_that_asks_for_it"],
    "never_resumes": ["going_away_resumes_at_once", "compaction_while_away_gives_the_net_difference", "nothing_is_told_twice"],
    "never_cancels": ["silence_loses_the_stream", "close_cancels_the_stream"],
    "never_backs_off": ["backoff_doubles_up_to_its_bound", "an_end_at_once_is_a_failure"],
    "reads_ahead": ["who_reads_slowly_holds_the_server_back"],
    "forgets_request_ids": ["a_write_is_tried_again_under_its_request_id"],
    "has_no_deadline": ["the_deadline_is_of_the_whole_call", "thirty_seconds_unless_said_otherwise"],
    "hears_no_delay": ["too_many_watches_come_back_when_they_are_told", "a_write_is_tried_again_under_its_request_id"],
    "tires_early": ["silence_is_not_told_early"],
}


class Lines:
    """What the agent says, as the fault has it."""

    def __init__(self, fault):
        self.fault, self.kept = fault, []

    def changed(self, line):
        fault = self.fault
        if fault == "tells_late" and "id" not in line:
            self.kept.append(line)
            if len(self.kept) < 20:
                return []
            lines, self.kept = self.kept, []
            return lines
        if fault == "tells_twice" and line.get("event") == "apply":
            return [line, line]
        if fault == "tells_changes_twice" and "change" in line and "reflector" in line:
            return [line, line]
        if fault == "loses_one" and line.get("event") == "apply":
            return [] if line["object"]["key"]["name"] == "big-77" else [line]
        if fault == "mixes_uids" and "reflector" in line:
            change = line.get("change", {})
            if change.get("old") and change.get("new"):
                change["new"]["uid"] = change["old"]["uid"]
        if fault == "forgets_reasons" and "error" in line:
            line["error"]["reason"] = ""
        if fault == "ends_otherwise" and "ended" in line:
            line["ended"] = "refused"
        if fault == "hides_staleness" and "stale" in line.get("ok", {}):
            line["ok"]["stale"] = False
        if fault == "shows_too_much" and "stale" in line.get("ok", {}):
            line["ok"]["revision"] += 1
        return [line]


class Between:
    """A proxy of calls, between the agent and a server."""

    def __init__(self, fault, target):
        import grpc
        from listwatch.v1 import listwatch_pb2 as pb

        self.grpc, self.pb, self.fault, self.left = grpc, pb, fault, []
        unlimited = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        quick = [("grpc.initial_reconnect_backoff_ms", 20), ("grpc.min_reconnect_backoff_ms", 20)]
        quick += [("grpc.max_reconnect_backoff_ms", 50)]
        self.channel = grpc.insecure_channel(target, unlimited + quick)
        self.server = grpc.server(futures.ThreadPoolExecutor(32), options=unlimited)
        self.server.add_generic_rpc_handlers((self,))
        self.address = "127.0.0.1:%d" % self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def service(self, details):
        path = details.method
        if path.endswith("/Watch"):
            return self.grpc.unary_stream_rpc_method_handler(
                lambda request, context: self._watch(path, request, context)
            )
        return self.grpc.unary_unary_rpc_method_handler(
            lambda request, context: self._call(path, request, context)
        )

    def _fail(self, error, context):
        details = error.trailing_metadata() or ()
        if self.fault != "hears_no_delay":
            context.set_trailing_metadata([(k, v) for k, v in details if k.endswith("-bin")])
        context.abort(error.code(), error.details())

    def _call(self, path, request, context):
        method = path.rsplit("/", 1)[1]
        if self.fault == "forgets_request_ids" and method in ("Create", "Update", "Delete"):
            message = getattr(self.pb, f"{method}Request").FromString(request)
            message.request_id = uuid.uuid4().hex
            request = message.SerializeToString()
        limit = None if self.fault == "has_no_deadline" else context.time_remaining()
        try:
            return self.channel.unary_unary(path)(request, timeout=limit)
        except self.grpc.RpcError as error:
            self._fail(error, context)

    def _watch(self, path, request, context):
        if self.fault == "never_resumes":
            message = self.pb.WatchRequest.FromString(request)
            message.initial_state.SetInParent()
            request = message.SerializeToString()
        while True:
            call = self.channel.unary_stream(path)(request)
            if self.fault == "never_cancels":
                # gRPC cancels what is not referred to.
                self.left.append(call)
            else:
                context.add_callback(call.cancel)
            try:
                yield from {"reads_ahead": self._ahead, "tires_early": self._tired}.get(
                    self.fault, iter
                )(call)
                if self.fault != "never_backs_off":
                    return
            except self.grpc.RpcError as error:
                if self.fault != "never_backs_off":
                    self._fail(error, context)
            if not context.is_active():
                return

    def _queued(self, call):
        read = queue.Queue()

        def read_all():
            try:
                for response in call:
                    read.put(response)
                read.put(None)
            except self.grpc.RpcError as error:
                read.put(error)

        threading.Thread(target=read_all, daemon=True).start()
        return read

    def _ahead(self, call):
        read = self._queued(call)
        while True:
            response = read.get()
            if response is None:
                return
            if isinstance(response, self.grpc.RpcError):
                raise response
            yield response

    def _tired(self, call):
        read = self._queued(call)
        while True:
            try:
                response = read.get(timeout=1)
            except queue.Empty:
                call.cancel()
                return
            if response is None or isinstance(response, self.grpc.RpcError):
                return
            yield response


def main():
    fault, folder = sys.argv[1], sys.argv[2]
    sys.path.insert(0, folder)
    command = sys.argv[sys.argv.index("--") + 1 :]
    agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    lines, between = Lines(fault), []

    def answers():
        for text in agent.stdout:
            for line in lines.changed(json.loads(text)):
                sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()

    reader = threading.Thread(target=answers)
    reader.start()
    for text in sys.stdin:
        line = json.loads(text)
        if line["do"] == "connect":
            between.append(Between(fault, line["address"]))
            line["address"] = between[-1].address
        agent.stdin.write(json.dumps(line).encode() + b"\n")
        agent.stdin.flush()
    agent.stdin.close()
    agent.wait()
    reader.join()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    main()
