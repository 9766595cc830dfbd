"""A listwatchd of one case, written to past the relay through which the agent reaches it."""

import signal
import socket
import subprocess
import time

import grpc
from listwatch.v1 import listwatch_pb2 as pb
from listwatch.v1 import listwatch_pb2_grpc as rpc

import words
from relay import Relay

PATIENCE = 20  # seconds; only a failure waits for it


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Server:
    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder
        self.relay = Relay()
        self.port = free_port()
        self.relay.target = ("127.0.0.1", self.port)
        self.process = None
        self.log = folder / "server.log"
        self.data = "data"

    def start(self, flags=(), data=None):
        self.data = data or self.data
        command = [self.binary, "--listen", f"127.0.0.1:{self.port}"]
        command += ["--data-dir", str(self.folder / self.data), *map(str, flags)]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log
            )
        options = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.port}", options)
        self.objects = rpc.ListWatchServiceStub(self.channel)
        self.admin = rpc.AdminServiceStub(self.channel)
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return self.admin.GetStatus(pb.GetStatusRequest(), timeout=1)
            except grpc.RpcError as error:
                if self.process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"the server does not start: {error}") from error
                # A channel that failed once waits a second; a new one does not.
                self.channel.close()
                time.sleep(0.03)
                self.channel = grpc.insecure_channel(f"127.0.0.1:{self.port}", options)
                self.objects = rpc.ListWatchServiceStub(self.channel)
                self.admin = rpc.AdminServiceStub(self.channel)

    def tell(self, number):
        self.process.send_signal(number)

    def stop(self, number=signal.SIGTERM):
        self.channel.close()
        if self.process.poll() is None:
            self.tell(number)
        self.process.wait(timeout=PATIENCE)

    def write(self, name, value=b"", labels=None, if_revision=None):
        resource = pb.Resource(key=pb.Key(**words.key(name)), value=value, labels=labels or {})
        request = pb.UpdateRequest(resource=resource, allow_missing=True)
        return self.objects.Update(request, timeout=PATIENCE).resource.revision

    def write_together(self, names):
        operations = []
        for name in names:
            resource = pb.Resource(key=pb.Key(**words.key(name)))
            update = pb.UpdateRequest(resource=resource, allow_missing=True)
            operations.append(pb.BatchOperation(update=update))
        return self.objects.Batch(pb.BatchRequest(operations=operations), timeout=PATIENCE).revision

    def delete(self, name):
        request = pb.DeleteRequest(key=pb.Key(**words.key(name)))
        return self.objects.Delete(request, timeout=PATIENCE).resource.revision

    def compact(self):
        revision = self.status().revision
        request = pb.CompactRequest(revision=revision, wait=True)
        self.admin.Compact(request, timeout=PATIENCE)

    def status(self):
        return self.admin.GetStatus(pb.GetStatusRequest(), timeout=PATIENCE)

    def watches(self):
        return self.admin.ListWatches(pb.ListWatchesRequest(), timeout=PATIENCE).watches

    def contents(self, collection):
        """What a reflector of the collection must show."""
        request = pb.ListRequest(selector=pb.Selector(collection=collection))
        listed = self.objects.List(request, timeout=PATIENCE)
        return {f"{r.key.namespace}/{r.key.name}": r.revision for r in listed.resources}

    def close(self):
        self.relay.close()
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def last_log(self):
        return self.log.read_text(errors="replace").splitlines()[-8:] if self.log.exists() else []
