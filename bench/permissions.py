"""What it costs to try a rule on recorded permission requests: the first time, when the log is
read, and again, as the permission dialog does. Reading the same records alone is the measure.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

from quarterdeck.fleet.log_pages import read_pages
from quarterdeck.fleet.permissions.recorded_requests import BackTestService
from quarterdeck.fleet.permissions.request_history import REQUEST_EVENTS
from quarterdeck.journal import Journal
from quarterdeck.policy.modes import DEFAULT_MODE
from quarterdeck.wire.events import PermissionAnswered, PermissionAsked, SessionSpawned
from quarterdeck.wire.ids import RequestId, SessionId, ToolCallId
from quarterdeck.wire.permissions import Decider, PermissionOption, Selected
from quarterdeck.wire.session_options import SessionOptions

from .size import Size
from .table import Row, Table

T = TypeVar("T")
_AGENTS = 50
_OPTIONS = (
    PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
    PermissionOption(option_id="no", name="Deny", kind="reject_once"),
)
_PERSON = Decider(kind="person", name="ada")
_COMMANDS = (
    "pytest -q tests/test_{n}.py",
    "npm run build -- --only {n}",
    "git commit -m 'step {n}'",
    "cargo test case_{n} && git add -A",
    "make part-{n} 2>&1 | tail -20",
    "curl https://example.com/{n}",
)
_RULES = ("allow bash(pytest:*)", "deny bash(git push)")
GOAL = 60.0
"""Seconds for all requests, the first time."""


def run(size: Size) -> Iterator[Table]:
    """Measure."""
    requests, variants = size.choose((100_000, 500), (100_000, 500), (60, 3))
    with tempfile.TemporaryDirectory() as folder:
        yield asyncio.run(_measure(Path(folder) / "journal.db", requests, variants))


async def _measure(path: Path, requests: int, variants: int) -> Table:
    async with Journal.open(path) as journal:
        await _fill(journal, requests, variants)
        service = BackTestService(journal, "/home/dev")
        reading, _ = await _time(lambda: read_pages(journal, REQUEST_EVENTS, lambda _: None))
        first, found = await _time(lambda: service.back_test(_RULES))
        again, _ = await _time(lambda: service.back_test(_RULES))
        other, _ = await _time(lambda: service.back_test(("allow bash(npm run build:*)",)))
    assert found.requests == requests and found.allowed
    each = f"{first / requests * 1e6:.0f} µs a request"
    return Table(
        f"Rules tried on {requests:,} recorded requests, {variants * len(_COMMANDS):,} different",
        [
            Row("their records read, nothing else", f"{reading:6.2f} s"),
            Row("the first time", f"{first:6.2f} s, {each}", f"{first / reading:.1f}×",
                f"≤ {GOAL:.0f} s", first <= GOAL),
            Row("again", f"{again:6.2f} s", f"{again / reading:.1f}×"),
            Row("another rule", f"{other:6.2f} s", f"{other / reading:.1f}×"),
        ],
    )  # fmt: skip


async def _fill(journal: Journal, requests: int, variants: int) -> None:
    for number in range(_AGENTS):
        options = SessionOptions(agent="claude", cwd=f"/nowhere/app{number % 5}", mode=DEFAULT_MODE)
        spawned = SessionSpawned(name=f"agent-{number}", options=options)
        await journal.append(SessionId(f"ses_{number}"), spawned)
    for number in range(requests):
        session = SessionId(f"ses_{number % _AGENTS}")
        text = _COMMANDS[number % len(_COMMANDS)].format(n=number // len(_COMMANDS) % variants)
        request, call = RequestId(f"req_{number}"), ToolCallId(f"call_{number}")
        asked = PermissionAsked(
            request=request, call=call, title=text, options=_OPTIONS, kind="execute", name="Bash",
            raw_input={"command": text},
        )  # fmt: skip
        outcome = Selected(option_id="no" if "curl" in text else "yes")
        await journal.append(session, asked)
        last = await journal.append(
            session, PermissionAnswered(request=request, call=call, outcome=outcome, by=_PERSON)
        )
        if number % 2_000 == 0:
            await journal.durable(last.seq)  # what waits to be written is bounded
    await journal.durable(journal.last)


async def _time(work: Callable[[], Awaitable[T]]) -> tuple[float, T]:
    began = time.perf_counter()
    found = await work()
    return time.perf_counter() - began, found
