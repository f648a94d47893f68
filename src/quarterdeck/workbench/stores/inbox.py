"""What waits for a person."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quarterdeck.fleet.api import InboxItem
    from quarterdeck.fleet.permissions.api import RequestGroup
    from quarterdeck.wire.ids import RequestId, SessionId

__all__ = ["InboxStore", "draft_key"]


def draft_key(item: "InboxItem") -> str:
    """Where what is filled in for a question is kept."""
    return f"question-{item.request}"


class InboxStore:
    """Open requests, oldest first; those that were put off are there and no longer offered."""

    def __init__(self) -> None:
        self.items: Sequence[InboxItem] = ()
        self._groups: Sequence[RequestGroup] | None = None
        self._group_of: dict[RequestId, RequestGroup] = {}
        self._by_request: dict[RequestId, InboxItem] = {}
        self._later: set[RequestId] = set()
        self._watchers: list[Callable[[], None]] = []

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call a function after each change; returns what ends that."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def replace(self, items: Iterable["InboxItem"]) -> None:
        """Take what the fleet says is open; what was answered elsewhere is gone by that."""
        fresh = tuple(items)
        if fresh == self.items:
            return
        self.items = fresh
        self._groups = None
        self._by_request = {item.request: item for item in fresh}
        self._later &= self._by_request.keys()
        self._notify_watchers()

    @property
    def groups(self) -> "Sequence[RequestGroup]":
        """The same in groups that one answer may decide, the most urgent first."""
        if self._groups is None:
            from quarterdeck.fleet.permissions.request_groups import group_requests

            self._groups = group_requests(self.items)
            self._group_of = {
                member.request: group for group in self._groups for member in group.members
            }
        return self._groups

    def find_group(self, request: "RequestId") -> "RequestGroup | None":
        """The group of an open request."""
        return self._group_of.get(request) if self.groups else None

    def drop(self, *requests: "RequestId") -> None:
        """Forget those that have just been answered; the fleet will say the same."""
        gone = set(requests)
        self.replace(item for item in self.items if item.request not in gone)

    def put_off(self, request: "RequestId") -> None:
        """A person wants to decide later."""
        self._later.add(request)
        self._notify_watchers()

    def take_up(self, request: "RequestId") -> None:
        """A person wants to decide now what was put off."""
        if request in self._later:
            self._later.discard(request)
            self._notify_watchers()

    def is_offered(self, request: "RequestId") -> bool:
        """Whether a request is open and nobody put it off."""
        return request not in self._later and self.find(request) is not None

    def find(self, request: "RequestId") -> "InboxItem | None":
        """An open request."""
        return self._by_request.get(request)

    def offered(self, session: "SessionId | None") -> "InboxItem | None":
        """The oldest request of an agent that no one put off."""
        for item in self.items:
            if item.session == session and item.request not in self._later:
                return item
        return None

    def following(self, session: "SessionId | None") -> "InboxItem | None":
        """The one after an answer: the agent's own next, then the most urgent; none put off."""
        own = self.offered(session)
        return own or next((one for one in self._ordered if one.request not in self._later), None)

    def next(self, session: "SessionId | None" = None) -> "InboxItem | None":
        """The one to answer next: the agent's own first, then the most urgent of all."""
        mine = [item for item in self.items if item.session == session]
        return next(iter(mine), None) or next(iter(self._ordered), None)

    @property
    def _ordered(self) -> "Iterator[InboxItem]":
        """All in the order of their groups."""
        for group in self.groups:
            yield from (self._by_request[one] for one in group.requests)

    def place(self, request: "RequestId") -> int:
        """Where a request stands among all, from 1; 0: it is not open."""
        found = (at for at, one in enumerate(self._ordered, 1) if one.request == request)
        return next(found, 0)

    def _notify_watchers(self) -> None:
        for watcher in list(self._watchers):
            watcher()
