"""The recorded permission requests of a fleet, and rules that are tried on them."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from quarterdeck.config.workspace import find_workspace
from quarterdeck.journal import Journal
from quarterdeck.policy.grammar import parse_rule

from ..log_pages import read_pages
from .api import BackTest, RuleSuggestion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .back_test import RecordedJudge
    from .request_history import RequestHistory

__all__ = ["BackTestService"]


class BackTestService:
    """Tries rules on the requests in a fleet's log; it is read once, then only what is new."""

    def __init__(self, journal: Journal, home: str) -> None:
        self._journal = journal
        self._home = home
        self._history: RequestHistory | None = None
        self._position = 0
        self._judges: dict[int, RecordedJudge] = {}
        self._projects: dict[str, str] = {}
        self._reading = asyncio.Lock()

    def forget(self) -> None:
        """Begin anew: sessions were deleted from the log."""
        self._history, self._position, self._judges = None, 0, {}

    async def back_test(
        self,
        rules: tuple[str, ...],
        *,
        since: int | None = None,
        project: str | None = None,
        limit: int = 100,
    ) -> BackTest:
        """Decide about every recorded request by these rules; see ``FleetRequests``."""
        from .back_test import try_rules  # the whole policy, which most hosts need later

        for text in rules:
            parse_rule(text)
        history = await self._read()

        def work() -> BackTest:
            unread = sum(since is None or time >= since for time in history.unread)
            judges = self._select(history, project)
            return try_rules(rules, judges, since=since, limit=limit, unread=unread)

        return await asyncio.to_thread(work)

    async def suggest_rules(
        self, *, since: int | None = None, project: str | None = None, limit: int = 20
    ) -> list[RuleSuggestion]:
        """The narrowest rules for what people always approved; see ``FleetRequests``."""
        from .back_test import suggest_from

        history = await self._read()
        return await asyncio.to_thread(
            lambda: suggest_from(list(self._select(history, project)), since=since, limit=limit)
        )

    async def _read(self) -> "RequestHistory":
        from .request_history import REQUEST_EVENTS, RequestHistory

        async with self._reading:
            if self._history is None:
                self._history = RequestHistory()
            history = self._history
            position = await read_pages(self._journal, REQUEST_EVENTS, history.add, self._position)
            if history is self._history:
                self._position = position
            return history

    def _select(self, history: "RequestHistory", project: str | None) -> "Iterator[RecordedJudge]":
        from .back_test import RecordedJudge

        for kind in list(history.kinds.values()):
            if not kind.decisions:
                continue
            own = kind.repository or self._find_project(kind.cwd)
            if project is None or own == project:
                judge = self._judges.get(id(kind))
                if judge is None:
                    judge = self._judges[id(kind)] = RecordedJudge(kind, self._home, own)
                yield judge

    def _find_project(self, cwd: str) -> str:
        if cwd not in self._projects:
            try:
                self._projects[cwd] = str(find_workspace(Path(cwd)).project)
            except OSError:
                self._projects[cwd] = cwd
        return self._projects[cwd]
