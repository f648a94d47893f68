"""One turn of Claude Code: a prompt, the messages that steer it, and its end."""

import asyncio
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from quarterdeck.wire.errors import LinkError
from quarterdeck.wire.usage import Cost

from ...foreign_json import as_list, as_text
from ...link import TurnOutcome

__all__ = ["ClaudeTurn"]

_READING = 2.0
"""Seconds after the end of its turn in which the program must begin with a message that it has."""


class ClaudeTurn:
    """A turn that we began.

    The program reads a further message before its next model call. One that comes after the last
    of them is answered in a turn of the program's own, which is part of ours: the turn ends when
    every message was read and answered.
    """

    def __init__(self) -> None:
        self.prompt = str(uuid.uuid4())
        """Our id of the prompt."""
        self.outcome: asyncio.Future[TurnOutcome] = asyncio.get_running_loop().create_future()
        self.entry = ""
        """The last entry of the conversation that was heard, by the program's id of it."""
        self._messages = {self.prompt}
        self._unread: set[str] = set()
        self._answered: TurnOutcome | None = None
        """How the part of it went that has an end already."""
        self._ending: asyncio.TimerHandle | None = None

    @property
    def takes_messages(self) -> bool:
        """Whether a further message becomes part of it."""
        return not self.outcome.done() and self._ending is None

    def add_message(self) -> str:
        """The id of a further message."""
        name = str(uuid.uuid4())
        self._messages.add(name)
        self._unread.add(name)
        return name

    def withdraw_messages(self) -> None:
        """The turn is interrupted, and the program drops what it has not read."""
        self._unread.clear()

    def hear(self, line: Mapping[str, Any]) -> None:
        """The program repeats a message when it reads it, and tells when it begins with it."""
        if line.get("type") in ("assistant", "user") and not line.get("parent_tool_use_id"):
            self.entry = as_text(line.get("uuid")) or self.entry
        if line.get("isReplay") is True:
            self._unread.discard(as_text(line.get("uuid")))
        elif line.get("type") == "command_lifecycle" and line.get("state") != "queued":
            self._unread.discard(as_text(line.get("command_uuid")))
        if self._ending is not None:
            self._ending.cancel()
            self._ending = self._end_later() if self._unread else None

    def end(self, line: Mapping[str, Any], outcome: TurnOutcome) -> bool:
        """A result of the program; False: it is of a turn that we did not begin."""
        named = [as_text(one) for one in as_list(line.get("user_message_uuids"))]
        if named and self._messages.isdisjoint(named):
            return False
        self._unread.difference_update(named)
        self._answered = _joined(self._answered, outcome)
        if self._unread and outcome.stop == "end_turn":
            self._ending = self._end_later()
        else:
            self.finish(self._answered)
        return True

    def finish(self, outcome: TurnOutcome) -> None:
        """It is over."""
        self.close()
        if not self.outcome.done():
            self.outcome.set_result(outcome)

    def fail(self, error: LinkError) -> None:
        """The program is gone."""
        self.close()
        if not self.outcome.done():
            self.outcome.set_exception(error)

    def close(self) -> None:
        """Wait for nothing more."""
        if self._ending is not None:
            self._ending.cancel()

    def _end_later(self) -> asyncio.TimerHandle:
        assert self._answered is not None
        loop = asyncio.get_running_loop()
        return loop.call_later(_READING, self.finish, self._answered)


def _joined(before: TurnOutcome | None, now: TurnOutcome) -> TurnOutcome:
    """Two parts of a turn as one."""
    if before is None:
        return now
    usages = [one.usage for one in (before, now) if one.usage is not None]
    costs = [one.cost for one in (before, now) if one.cost is not None]
    usage = usages[0] + usages[1] if len(usages) == 2 else next(iter(usages), None)
    cost = Cost(amount=sum(one.amount for one in costs), currency="USD") if costs else None
    return replace(now, usage=usage, cost=cost)
