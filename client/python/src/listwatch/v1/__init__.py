"""The messages of the API, generated from ``listwatch.proto``: requests, answers and enums."""

from listwatch.v1.listwatch_pb2 import *  # noqa: F403
