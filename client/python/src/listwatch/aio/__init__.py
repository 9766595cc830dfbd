"""The client for asyncio: the same as in :mod:`listwatch`, to be awaited.

Events, errors, options and messages are those of :mod:`listwatch`.
"""

from listwatch.aio.client import Client
from listwatch.aio.pages import Pages
from listwatch.aio.reflector import Reflector, Subscription
from listwatch.aio.watcher import Watcher

__all__ = ["Client", "Pages", "Reflector", "Subscription", "Watcher"]
