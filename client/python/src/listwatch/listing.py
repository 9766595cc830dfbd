"""A list that is longer than a page: what both clients know of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import List

from listwatch import v1
from listwatch.errors import ProtocolBreach

MAX_RESTARTS = 3
"""How often a whole list starts over when it expires between two pages. One that expires again and
again is slower than the server's retention, and no number of attempts changes that."""


@dataclass(frozen=True)
class Listing:
    """A whole list."""

    resources: List[v1.Resource]
    """Ordered by (namespace, name)."""
    revision: int
    """The one revision that all of them show."""
    resume_token: str
    """Starts a watch of the same selector right after this list."""


@dataclass
class PageCursor:
    """Which page is next."""

    request: v1.ListRequest
    finished: bool = field(default=False, init=False)

    def take(self, page: v1.ListResponse) -> v1.ListResponse:
        """Goes on behind a page.

        Raises:
            ProtocolBreach: It would go on for ever.
        """
        token = page.next_page_token
        if token and token == self.request.page_token:
            raise ProtocolBreach("a page's token leads to the same page")
        request = v1.ListRequest()
        request.CopyFrom(self.request)
        request.page_token = token
        self.request = request
        self.finished = not token
        return page
