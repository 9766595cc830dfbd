"""A Listwatch client made from the .proto alone, with grpcio-tools.

    python_client.py STUBS ADDRESS TASK

STUBS is the folder of the generated modules; TASK is one of the functions below whose
names end in `_task`. Each is what a user would write, with the answers checked.
"""

import queue
import sys
import threading

import grpc
from google.protobuf import duration_pb2
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from grpc_status import rpc_status

sys.path.insert(0, sys.argv[1])
from listwatch.v1 import listwatch_pb2 as pb  # noqa: E402
from listwatch.v1 import listwatch_pb2_grpc as rpc  # noqa: E402

PATIENCE = 30  # seconds; only a failure waits for it


def pod(name, value=b"", **labels):
    key = pb.Key(collection="pods", namespace="default", name=name)
    return pb.Resource(key=key, value=value, labels=labels)


def everything():
    return pb.Selector(collection="pods")


class Watch:
    """A watch whose responses are read by a thread, so that waiting can be given up."""

    def __init__(self, stub, **request):
        self.call = stub.Watch(pb.WatchRequest(selector=everything(), **request))
        self.responses = queue.Queue()
        self.token = ""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        try:
            for response in self.call:
                self.responses.put(response)
            self.responses.put(None)
        except grpc.RpcError as error:
            self.responses.put(error)

    def until(self, done):
        """Events up to the first bookmark that `done` accepts, and the kinds on the way."""
        events, kinds = [], []
        while True:
            response = self.responses.get(timeout=PATIENCE)
            assert isinstance(response, pb.WatchResponse), response
            events += [
                (pb.EventType.Name(e.type), e.resource.key.name, e.resource.revision)
                for e in response.events
            ]
            if response.HasField("bookmark"):
                self.token = response.bookmark.resume_token or self.token
                kinds.append(pb.BookmarkKind.Name(response.bookmark.kind))
                if done(response.bookmark):
                    return events, kinds

    def initial(self):
        return self.until(lambda b: b.kind == pb.BOOKMARK_KIND_INITIAL_STATE_END)

    def through(self, revision):
        return self.until(lambda b: b.revision >= revision)


def list_and_watch_task(channel):
    stub = rpc.ListWatchServiceStub(channel)
    for name in "abc":
        stub.Create(pb.CreateRequest(resource=pod(name, b"1", app=name)))

    # Page by page, all of one revision.
    request = pb.ListRequest(selector=everything(), page_size=2)
    listed, revisions = [], set()
    while True:
        page = stub.List(request)
        listed += page.resources
        revisions.add(page.revision)
        request.page_token = page.next_page_token
        if not page.next_page_token:
            break
        # Written between the pages: not part of this list.
        stub.Create(pb.CreateRequest(resource=pod("d", b"1")))
    assert [r.key.name for r in listed] == ["a", "b", "c"], listed
    assert revisions == {3}, revisions
    assert listed[0].value == b"1" and listed[0].labels["app"] == "a"

    # From the list's token: what was written since.
    after_list = Watch(stub, resume_token=page.resume_token)
    events, kinds = after_list.through(4)
    assert kinds[0] == "BOOKMARK_KIND_RESUMED", kinds
    assert events == [("EVENT_TYPE_ADDED", "d", 4)], events

    # The initial state, then live changes.
    watch = Watch(stub)
    events, kinds = watch.initial()
    assert kinds[0] == "BOOKMARK_KIND_INITIAL_STATE_BEGIN", kinds
    assert [(t, n) for t, n, _ in events] == [
        ("EVENT_TYPE_EXISTING", n) for n in "abcd"
    ], events
    stub.Update(pb.UpdateRequest(resource=pod("a", b"2")))
    stub.Delete(pb.DeleteRequest(key=pod("b").key))
    events, _ = watch.through(6)
    assert events == [
        ("EVENT_TYPE_MODIFIED", "a", 5),
        ("EVENT_TYPE_DELETED", "b", 6),
    ], events

    # Cut off; what was missed comes after the token.
    token = watch.token
    watch.call.cancel()
    stub.Update(pb.UpdateRequest(resource=pod("e", b"1"), allow_missing=True))
    again = Watch(stub, resume_token=token)
    events, kinds = again.through(7)
    assert kinds[0] == "BOOKMARK_KIND_RESUMED", kinds
    assert events == [("EVENT_TYPE_ADDED", "e", 7)], events

    # All at one revision.
    batch = pb.BatchRequest()
    batch.operations.add().create.resource.CopyFrom(pod("f"))
    batch.operations.add().delete.key.CopyFrom(pod("c").key)
    batch.operations.add().check.CopyFrom(pb.CheckRevision(key=pod("a").key, revision=5))
    answer = stub.Batch(batch)
    assert answer.revision == 8, answer
    events, _ = again.through(8)
    assert events == [
        ("EVENT_TYPE_ADDED", "f", 8),
        ("EVENT_TYPE_DELETED", "c", 8),
    ], events

    # A bookmark comes by itself when nothing happens.
    quiet = Watch(
        stub, now=True, bookmark_interval=duration_pb2.Duration(nanos=200_000_000)
    )
    kinds = []
    while kinds.count("BOOKMARK_KIND_PROGRESS") < 2:
        kinds += quiet.until(lambda b: True)[1]


def details_of(error):
    """The reason, its metadata, and the other details by type."""
    status = rpc_status.from_call(error)
    assert status is not None, "no google.rpc.Status"
    assert status.code == error.code().value[0] and status.message == error.details()
    found = {}
    for any_detail in status.details:
        for kind in (
            error_details_pb2.ErrorInfo,
            error_details_pb2.RetryInfo,
            error_details_pb2.BadRequest,
        ):
            detail = kind()
            if any_detail.Unpack(detail):
                found[kind.__name__] = detail
    assert len(found) == len(status.details), status
    assert found["ErrorInfo"].domain == "listwatch"
    return found["ErrorInfo"].reason, dict(found["ErrorInfo"].metadata), found


def failing(call, *arguments):
    try:
        answer = call(*arguments)
    except grpc.RpcError as error:
        return error
    raise AssertionError(f"it succeeded: {answer}")


def errors_task(channel):
    stub = rpc.ListWatchServiceStub(channel)
    first = stub.Create(pb.CreateRequest(resource=pod("a", b"1"))).resource
    second = stub.Update(pb.UpdateRequest(resource=pod("a", b"2"))).resource
    assert first.uid == second.uid

    error = failing(stub.Get, pb.GetRequest(key=pod("nobody").key))
    assert error.code() == grpc.StatusCode.NOT_FOUND
    reason, metadata, _ = details_of(error)
    assert reason == "OBJECT_NOT_FOUND", reason
    assert (metadata["name"], metadata["revision"]) == ("nobody", "2"), metadata

    stale = pb.UpdateRequest(resource=pod("a", b"3"), if_revision=first.revision)
    error = failing(stub.Update, stale)
    assert error.code() == grpc.StatusCode.ABORTED
    reason, metadata, _ = details_of(error)
    assert (reason, metadata["revision"]) == ("REVISION_MISMATCH", "2"), metadata

    error = failing(stub.Create, pb.CreateRequest(resource=pod("-bad-")))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    reason, metadata, found = details_of(error)
    assert (reason, metadata["field"]) == ("FIELD_INVALID", "resource.key.name")
    (violation,) = found["BadRequest"].field_violations
    assert violation.field == "resource.key.name" and violation.description

    error = failing(stub.Create, pb.CreateRequest(resource=pod("b", b"x" * 2_000_000)))
    reason, metadata, _ = details_of(error)
    assert (reason, metadata["limit"]) == ("TOO_LARGE", str(1536 * 1024)), metadata

    future = pb.Consistency(exact_revision=99)
    error = failing(stub.Get, pb.GetRequest(key=pod("a").key, consistency=future))
    assert error.code() == grpc.StatusCode.OUT_OF_RANGE
    reason, metadata, found = details_of(error)
    assert (reason, metadata["latest_revision"]) == ("REVISION_IN_FUTURE", "2")
    assert found["RetryInfo"].retry_delay.ToTimedelta().total_seconds() > 0

    # Compacted: an exact watch is refused with the reason, one that catches up is not.
    for number in range(3, 20):
        stub.Update(pb.UpdateRequest(resource=pod("a", b"%d" % number)))
    admin = rpc.AdminServiceStub(channel)
    assert admin.Compact(pb.CompactRequest(revision=15, wait=True)).compact_revision == 15
    exact = Watch(stub, after_revision=1, catch_up=pb.CATCH_UP_EXACT)
    error = exact.responses.get(timeout=PATIENCE)
    assert error.code() == grpc.StatusCode.OUT_OF_RANGE, error
    reason, metadata, _ = details_of(error)
    assert reason == "REVISION_COMPACTED", reason
    assert (metadata["compact_revision"], metadata["revision"]) == ("15", "19")
    net = Watch(stub, after_revision=1)
    events, kinds = net.until(lambda b: b.kind == pb.BOOKMARK_KIND_INITIAL_STATE_END)
    assert kinds[0] == "BOOKMARK_KIND_NET_BEGIN", kinds
    assert events == [("EVENT_TYPE_UPSERTED", "a", 19)], events


def health_and_reflection_task(channel):
    health = health_pb2_grpc.HealthStub(channel)
    for service in ("", "listwatch.v1.ListWatchService", "listwatch.v1.AdminService"):
        answer = health.Check(health_pb2.HealthCheckRequest(service=service))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING, service

    database = ProtoReflectionDescriptorDatabase(channel)
    services = set(database.get_services())
    wanted = {
        "listwatch.v1.ListWatchService",
        "listwatch.v1.AdminService",
        "grpc.health.v1.Health",
    }
    assert wanted <= services, services
    file = database.FindFileContainingSymbol("listwatch.v1.ListWatchService")
    assert file.name.endswith("listwatch.proto"), file.name
    (service,) = [s for s in file.service if s.name == "ListWatchService"]
    assert "WatchMany" in {m.name for m in service.method}


def admin_task(channel):
    stub, admin = rpc.ListWatchServiceStub(channel), rpc.AdminServiceStub(channel)
    for number in range(1200):
        name = f"n{number}"
        stub.Create(pb.CreateRequest(resource=pod(name, b"x" * (number % 50))))
    status = admin.GetStatus(pb.GetStatusRequest())
    assert (status.object_count, status.revision) == (1200, 1200), status
    assert status.limits.max_object_bytes == 1536 * 1024
    frames = list(admin.Export(pb.ExportRequest(), timeout=PATIENCE))
    assert frames[0].header.store_id == status.store_id
    assert frames[0].header.revision == 1200
    resources = [r for f in frames for r in f.objects.resources]
    assert frames[-1].footer.object_count == len(resources) == 1200


def main():
    address, task = sys.argv[2:]
    with grpc.insecure_channel(address) as channel:
        grpc.channel_ready_future(channel).result(timeout=PATIENCE)
        globals()[f"{task}_task"](channel)
    print(f"{task}: done")


if __name__ == "__main__":
    main()
