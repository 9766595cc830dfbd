"""How a client reaches its server."""

from __future__ import annotations

from importlib import metadata
from typing import Dict, List, Sequence, Tuple, Union

DEFAULT_ADDRESS = "127.0.0.1:7450"
"""Where ``listwatchd`` listens unless told otherwise."""
DEFAULT_REQUEST_TIMEOUT = 30.0
"""How many seconds a unary call may take in all, retries included."""
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""Largest response that is accepted. A watch response can hold a whole batch of large objects,
far above gRPC's usual 4 MiB."""
STREAM_WINDOW_BYTES = 512 * 1024
"""What a stream may send before it is read."""

ChannelOptions = Sequence[Tuple[str, Union[int, str]]]
"""gRPC's channel arguments, by name."""


def target_of(address: str) -> str:
    """The gRPC target of ``host:port``, ``http://host:port`` or any target with a scheme."""
    return address[len("http://") :].rstrip("/") if address.startswith("http://") else address


def channel_options(more: ChannelOptions = ()) -> List[Tuple[str, Union[int, str]]]:
    """The options of every channel of this package; those of ``more`` go before."""
    options: Dict[str, Union[int, str]] = {
        "grpc.primary_user_agent": f"listwatch-python/{_version()}",
        "grpc.max_receive_message_length": MAX_MESSAGE_BYTES,
        "grpc.max_send_message_length": MAX_MESSAGE_BYTES,
        # The windows do not grow with the bandwidth: a consumer that pauses is to reach the server
        # soon, not after megabytes.
        "grpc.http2.bdp_probe": 0,
        "grpc.http2.lookahead_bytes": STREAM_WINDOW_BYTES,
        # Retries are decided here, by what the API says of each error.
        "grpc.enable_retries": 0,
        # Backoff too: a channel that itself waits up to two minutes would hold it up.
        "grpc.initial_reconnect_backoff_ms": 100,
        "grpc.min_reconnect_backoff_ms": 10_000,
        "grpc.max_reconnect_backoff_ms": 1_000,
        # Notices a connection that is dead while calls are open.
        "grpc.keepalive_time_ms": 30_000,
        "grpc.keepalive_timeout_ms": 20_000,
        # Clients of one process do not share connections: each can be closed for itself.
        "grpc.use_local_subchannel_pool": 1,
    }
    options.update(more)
    return list(options.items())


def _version() -> str:
    try:
        return metadata.version("listwatch")
    except metadata.PackageNotFoundError:
        # Run from a checkout that is not installed.
        return "unknown"
