"""What waits for a person."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quarterdeck.fleet.api import InboxItem
    from quarterdeck.wire.ids import RequestId, SessionId

__all__ = ["InboxStore", "draft_key"]


def draft_key(item: "InboxItem") -> str:
    """Where what is filled in for a question is kept."""
    return f"question-{item.request}"


class InboxStore:
    """Open requests, oldest first; those that were put off are there and no longer offered."""

    def __init__(self) -> None:
        self.items: Sequence[InboxItem] = ()
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
        self._later &= {item.request for item in fresh}
        self._notify_watchers()

    def drop(self, request: "RequestId") -> None:
        """Forget one that has just been answered; the fleet will say the same."""
        self.replace(item for item in self.items if item.request != request)

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
        return next((item for item in self.items if item.request == request), None)

    def offered(self, session: "SessionId | None") -> "InboxItem | None":
        """The oldest request of an agent that no one put off."""
        for item in self.items:
            if item.session == session and item.request not in self._later:
                return item
        return None

    def following(self, session: "SessionId | None") -> "InboxItem | None":
        """The one after an answer: the agent's own next, then the oldest of all; none put off."""
        own = self.offered(session)
        return own or next((one for one in self.items if one.request not in self._later), None)

    def next(self, session: "SessionId | None" = None) -> "InboxItem | None":
        """The one to answer next: the agent's own first, then the oldest of all."""
        mine = [item for item in self.items if item.session == session]
        return next(iter([*mine, *self.items]), None)

    def _notify_watchers(self) -> None:
        for watcher in list(self._watchers):
            watcher()
