"""What a wire writes of a conversation, kept from one request to the next.

A request of a long conversation begins as the one before it. Repairing, writing and encoding all of
it again would take longer with every step; here only what is new is written.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from quarterdeck.wire.conversation import Message

from .history_repair import MessageGroup, ResultPairer, alternate
from .model import ModelProfile
from .reply import encode

__all__ = ["EncodedHistory", "Write"]

Write: TypeAlias = Callable[[Message, Message | None, ModelProfile], Iterable[Any]]
"""Writes a message in a vendor's form; the second is the one before it, whose calls it answers."""

_LOOSE = 4
"""The newest messages are given as values: vendors' cache marks are put on them."""


class _Taken(Struct, frozen=True):
    """A message that was taken in."""

    start: int
    """The place of its first stored message."""
    group: Message
    mended: Message
    item: int
    """The place of the first item that was written of it."""


class EncodedHistory:
    """The written messages of one conversation.

    The same messages give the same bytes, whatever was asked before: what is kept is used only
    as far as a request begins with the very messages that it was made of.
    """

    def __init__(self) -> None:
        self.first: Message | None = None
        """The first message of the last request, repaired."""
        self._rules: tuple[Write, ModelProfile, bool] | None = None
        self._pairing = ResultPairer(has_strict_ids=False)
        self._stored: tuple[Message, ...] = ()
        """What was taken in; ends before a message of the user."""
        self._taken: list[_Taken] = []
        self._items: list[Any] = []
        self._encoded = 0
        """How many of those taken in are encoded."""

    def written(
        self,
        messages: tuple[Message, ...],
        write: Write,
        profile: ModelProfile,
        *,
        has_strict_ids: bool = False,
    ) -> list[Any]:
        """All messages as ``write`` gives them, after ``repair``; the older ones as encoded JSON.

        What ``write`` gave is kept: do not change it.
        """
        rules = (write, profile, has_strict_ids)
        if self._rules != rules:
            self._rules = rules
            self._forget(has_strict_ids)
        self._go_back(messages, has_strict_ids)
        groups = alternate(messages[len(self._stored) :], profile.owner)
        if self._stored and groups[0].start is None:  # not the user goes on, but the model
            self._forget(has_strict_ids)
            groups = alternate(messages, profile.owner)
        for group in groups[:-1]:
            self._take(group, write, profile)
        waiting = list(self._pairing.waiting)
        end = self._pairing.take(groups[-1].message)
        self._pairing.waiting = waiting
        self.first = self._taken[0].mended if self._taken else end
        found = [*self._items, *write(end, self._last, profile)]
        if groups[-1].start is None or groups[0].start is None:
            self._rules = None  # a message that we added has no place: begin anew
        else:
            self._stored = messages[: len(self._stored) + groups[-1].start]
            self._encode()
        return found

    @property
    def _last(self) -> Message | None:
        return self._taken[-1].mended if self._taken else None

    def _forget(self, has_strict_ids: bool) -> None:
        self._stored = ()
        self._taken.clear()
        self._items.clear()
        self._encoded = 0
        self._pairing = ResultPairer(has_strict_ids=has_strict_ids)

    def _go_back(self, messages: tuple[Message, ...], has_strict_ids: bool) -> None:
        """Let go what is no longer the beginning."""
        if messages[: len(self._stored)] == self._stored:
            return
        pairs = enumerate(zip(self._stored, messages, strict=False))
        differs = next((place for place, (one, two) in pairs if one is not two), len(messages))
        keep = bisect_right(self._taken, differs, key=lambda taken: taken.start) - 1
        while keep > 0 and self._taken[keep].group.role != "user":
            keep -= 1
        if keep <= 0:
            self._forget(has_strict_ids)
            return
        gone, before = self._taken[keep:], self._taken[keep - 1]
        self._pairing.go_back((taken.mended for taken in gone), before.group, before.mended)
        self._stored = self._stored[: gone[0].start]
        del self._taken[keep:], self._items[gone[0].item :]
        self._encoded = min(self._encoded, keep)

    def _take(self, group: MessageGroup, write: Write, profile: ModelProfile) -> None:
        message = self._pairing.take(group.message)
        items = write(message, self._last, profile)
        start = len(self._stored) + (group.start or 0)
        self._taken.append(_Taken(start, group.message, message, len(self._items)))
        self._items.extend(items)

    def _encode(self) -> None:
        """Encode what no cache mark will be put on any more."""
        until = len(self._taken) - _LOOSE
        if until <= self._encoded:
            return
        items = slice(self._taken[self._encoded].item, self._taken[until].item)
        self._items[items] = [msgspec.Raw(encode(item)) for item in self._items[items]]
        self._encoded = until
