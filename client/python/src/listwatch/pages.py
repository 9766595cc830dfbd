"""Lists, page by page, for threads."""

from __future__ import annotations

from typing import Callable, Iterator, List, Optional

from listwatch import v1
from listwatch.errors import Expired
from listwatch.listing import MAX_RESTARTS, Listing, PageCursor

ReadPage = Callable[[v1.ListRequest], v1.ListResponse]


class Pages(Iterator[v1.ListResponse]):
    """The pages of one snapshot, read as they are asked for. Made by :meth:`Client.list`.

    Of a page that fails with anything but :class:`~listwatch.errors.Expired`, the iteration can
    be gone on with: it asks for the same page again.
    """

    def __init__(self, read: ReadPage, request: v1.ListRequest) -> None:
        self._read = read
        self._request = request
        self._cursor = PageCursor(request)

    def __iter__(self) -> Pages:
        return self

    def __next__(self) -> v1.ListResponse:
        """The next page.

        Raises:
            Expired: The list's revision was compacted since the last page. Going on at another
                revision would mix two states: start over, or use :meth:`collect`.
        """
        if self._cursor.finished:
            raise StopIteration
        return self._cursor.take(self._read(self._cursor.request))

    def resources(self) -> Iterator[v1.Resource]:
        """The objects of the pages that are left, one by one."""
        for page in self:
            yield from page.resources

    def collect(self) -> Listing:
        """All the objects, from the first page on.

        Starts over, up to three times, when the list expires between two pages.

        Raises:
            Expired: It expired once more, or its exact revision is gone.
        """
        for _ in range(MAX_RESTARTS):
            try:
                return self._collect_once()
            except Expired:
                if self._request.HasField("consistency"):
                    # A request for one exact revision stays expired.
                    raise
        return self._collect_once()

    def _collect_once(self) -> Listing:
        resources: List[v1.Resource] = []
        last: Optional[v1.ListResponse] = None
        for last in Pages(self._read, self._request):
            resources.extend(last.resources)
        assert last is not None, "a list has at least one page"
        return Listing(resources, last.revision, last.resume_token)
