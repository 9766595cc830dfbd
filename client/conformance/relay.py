"""A TCP relay in front of every server: the address stays, the connection can be broken."""

import socket
import struct
import threading
import time

BUFFER_BYTES = 256 * 1024
RESET = struct.pack("ii", 1, 0)


def reset(connection):
    """Ends a connection as a crashed machine's does: by a reset."""
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    connection.close()


class Relay:
    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.target = None
        self.up = True
        self.connections = set()
        self.passed_at = time.monotonic()
        self.lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        """Breaks every connection; new ones are let through."""
        with self.lock:
            broken, self.connections = self.connections, set()
        for connection in broken:
            reset(connection)

    def when_idle(self, seconds=0.2):
        """Waits until what was sent has passed, and for so long nothing more has."""
        self.passed_at = time.monotonic()
        while (left := self.passed_at + seconds - time.monotonic()) > 0:
            time.sleep(left)

    def down(self):
        """Breaks every connection, and each new one."""
        self.up = False
        self.cut()

    def close(self):
        self.down()
        self.listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client):
        if not self.up or self.target is None:
            return reset(client)
        try:
            server = socket.create_connection(self.target, timeout=5)
        except OSError:
            return reset(client)
        for end in (client, server):
            end.settimeout(None)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # What the relay holds is not what a client holds.
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        with self.lock:
            self.connections |= {client, server}
        threading.Thread(target=self._pump, args=(client, server), daemon=True).start()
        self._pump(server, client)

    def _pump(self, source, sink):
        try:
            while True:
                data = source.recv(65536)
                if not data:
                    break
                sink.sendall(data)
                self.passed_at = time.monotonic()
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            with self.lock:
                known = source in self.connections or sink in self.connections
                self.connections -= {source, sink}
            if known:
                reset(source)
                reset(sink)
