"""``attach``: one agent in a plain terminal: see it work, talk to it, answer its requests."""

import asyncio
import os
import signal
import stat
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import click

from quarterdeck.fleet.notifications import make_notification
from quarterdeck.wire.content import text
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import (
    PermissionAnswered,
    PermissionAsked,
    QuestionAnswered,
    QuestionAsked,
    SessionEnded,
)
from quarterdeck.wire.tasks import BackgroundTasks, race_tasks

from ..command_io import as_json_option, with_fleet
from ..output import escape_controls
from .exit_codes import rest_code
from .inbox import (
    SeenRequests,
    answer_item,
    choose_option,
    list_form_fields,
    parse_field_value,
)
from .logs import TranscriptPrinter, write_flushed

if TYPE_CHECKING:
    from quarterdeck.fleet.api import AgentInfo, InboxItem
    from quarterdeck.fleet.client import HostClient
    from quarterdeck.fleet.permissions.api import RequestGroup
    from quarterdeck.wire.record import Record

__all__ = [
    "AgentConsole",
    "LineInput",
    "attach",
    "follow_agent",
    "handle_interrupts",
    "run_agent_console",
]

_CHUNK = 65_536


class LineInput:
    """Standard input as lines. Reading is left to the loop, so that leaving needs no thread."""

    def __init__(self, fd: int = 0) -> None:
        self._fd = fd
        self._rest = b""
        # As long as the input, which a person typed or a file holds: no limit is needed.
        self._lines: deque[str | None] = deque()
        self._came = asyncio.Event()

    @contextmanager
    def listening(self) -> Generator["LineInput"]:
        """Listen for lines; the terminal stays as it is."""
        loop = asyncio.get_running_loop()
        if stat.S_ISREG(os.fstat(self._fd).st_mode):  # a file is always ready, and cannot be polled
            while self._take():
                pass
            yield self
            return
        try:
            loop.add_reader(self._fd, self._ready)
        except OSError:  # such as /dev/null, which some systems cannot poll
            self._put(None)
            yield self
            return
        try:
            yield self
        finally:
            loop.remove_reader(self._fd)

    async def lines(self) -> AsyncGenerator[str]:
        """Each line without its end, until the end of the input."""
        while True:
            while not self._lines:
                self._came.clear()
                await self._came.wait()
            line = self._lines.popleft()
            if line is None:
                return
            yield line

    def _ready(self) -> None:
        if not self._take():
            asyncio.get_running_loop().remove_reader(self._fd)

    def _take(self) -> bool:
        try:
            data = os.read(self._fd, _CHUNK)
        except OSError:
            data = b""
        *whole, self._rest = (self._rest + data).split(b"\n")
        if not data and self._rest:
            whole, self._rest = [self._rest], b""
        for line in whole:
            self._put(line.decode("utf-8", "replace").rstrip("\r"))
        if not data:
            self._put(None)
        return bool(data)

    def _put(self, line: str | None) -> None:
        self._lines.append(line)
        self._came.set()


_HELP = (
    "Type a line to send it. Answer an open request with its number, or y, s, p, n, always.\n"
    "/deny TEXT denies with a reason, /say TEXT sends a line while a request is open,\n/all y "
    "answers the same requests of other agents too, /group lists them,\n/interrupt "
    "ends the turn, /detach detaches. Ctrl-C interrupts; twice detaches."
)
_AGAIN_SECONDS = 2.0
_PATIENCE = 60.0


class AgentConsole:
    """What a person sees of one agent and says to it.

    Args:
        fleet: where it is.
        info: the agent.
        transcript: where its records are shown.
        answer_only: lines answer requests and are never sent as prompts.
        ring: called when the agent needs a person, is done or has failed.
        seen: what the person has read of the requests of all agents.
    """

    def __init__(
        self,
        fleet: "HostClient",
        info: "AgentInfo",
        transcript: TranscriptPrinter,
        *,
        answer_only: bool = False,
        ring: Callable[[], None] | None = None,
        seen: SeenRequests | None = None,
    ) -> None:
        self._fleet = fleet
        self._seen = seen or SeenRequests(fleet)
        self._info = info
        self._ring = ring
        self._session = info.session
        self._transcript = transcript
        self._answer_only = answer_only
        self._open: list[InboxItem] = []
        self._given: dict[str, Any] = {}
        self._shown = info.last_seq
        self._was_shown = asyncio.Event()
        self._leave = asyncio.Event()
        self._last_interrupt: float | None = None

    async def show_open(self) -> None:
        """Show what the agent asks for already."""
        items, groups = await self._seen.read_groups()
        for item in items.values():
            if item.session == self._session:
                self._ask(item, groups)

    async def show(self, record: "Record") -> None:
        """Take one record of the agent."""
        self._transcript.record(record)
        match record.event:
            case PermissionAsked(request=request) | QuestionAsked(request=request, to=None):
                await self._look_for(request)
            case PermissionAnswered(request=request) | QuestionAnswered(request=request):
                self._open = [item for item in self._open if item.request != request]
                self._given.clear()
            case SessionEnded():
                self.leave()
            case _:
                pass
        if self._ring is not None and make_notification(record, self._info) is not None:
            self._ring()
        self._shown = record.seq
        self._was_shown.set()

    async def settle(self) -> None:
        """Wait until the agent is at rest, or needs a person, and all of that is shown."""
        await self._fleet.wait([self._session])
        last = (await self._fleet.agent(self._session)).last_seq
        while self._shown < last:
            self._was_shown.clear()
            await self._was_shown.wait()

    async def take_line(self, line: str) -> None:
        """Do what a line says; an error is shown, and nothing ends."""
        try:
            await self._do(line.strip())
        except (QuarterdeckError, ValueError) as error:
            self._transcript.line(f"! {escape_controls(str(error))}")

    def leave(self) -> None:
        """There is nothing more to do here."""
        self._leave.set()

    async def interrupt(self, now: float) -> None:
        """Ctrl-C: end the turn; again within two seconds: leave. ``now`` in seconds."""
        if self._last_interrupt is not None and now - self._last_interrupt < _AGAIN_SECONDS:
            self._leave.set()
            return
        self._last_interrupt = now
        self._transcript.line(
            "= interrupted; press Ctrl-C again to detach, the agent keeps running"
        )
        try:
            await self._fleet.interrupt(self._session)
        except QuarterdeckError as error:
            self._transcript.line(f"! {escape_controls(str(error))}")

    async def left(self) -> None:
        """Wait until the person wants to leave, or the agent has ended."""
        await self._leave.wait()

    async def _do(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        match word:
            case "":
                return
            case "/help":
                self._transcript.line(_HELP)
            case "/detach":
                self.leave()
            case "/interrupt":
                await self._fleet.interrupt(self._session)
            case "/say":
                await self._send(rest)
            case "/group":
                await self._list_group()
            case "/all":
                await self._answer_all(rest.strip())
            case "/deny" if self._open:
                await answer_item(self._fleet, self._open[0], "deny", rest or None)
            case _ if self._open:
                await self._answer(self._open[0], line)
            case _:
                await self._send(line)

    async def _send(self, line: str) -> None:
        if self._answer_only:
            self._transcript.line("! no request is open; omit --answer-only to send lines")
        elif line:
            await self._fleet.send(self._session, (text(line),))

    async def _answer(self, item: "InboxItem", line: str) -> None:
        if (
            item.question is not None
            and len(list_form_fields(item.question)) > 1
            and line[0] != "{"
        ):
            await self._fill_in(item, line)
            return
        if item.permission is not None:
            choose_option(item.permission.options, line)
        if not await answer_item(self._fleet, item, line):
            self._transcript.line("= already answered elsewhere")

    async def _fill_in(self, item: "InboxItem", line: str) -> None:
        """One field of a form after the other."""
        assert item.question is not None
        fields = list_form_fields(item.question)
        missing = [name for name in fields if name not in self._given]
        self._given[missing[0]] = parse_field_value(fields[missing[0]], line)
        if len(missing) > 1:
            self._transcript.line(f"? {escape_controls(missing[1])}")
            return
        content, self._given = self._given, {}
        await self._fleet.reply(item.request, "accept", by="cli", content=content)

    async def _look_for(self, request: str) -> None:
        known = {item.request for item in self._open}
        items, groups = await self._seen.read_groups()
        for item in items.values():
            if item.request == request and request not in known:
                self._ask(item, groups)

    def _ask(self, item: "InboxItem", groups: "Sequence[RequestGroup]") -> None:
        self._open.append(item)
        group = next((one for one in groups if item.request in one.requests), None)
        for line in self._seen.list_request(item, group):
            self._transcript.line(f"  {line}")

    async def _list_group(self) -> None:
        items, groups = await self._seen.read_groups()
        wanted = {item.request for item in self._open[:1]}
        for group in groups:
            if wanted.intersection(group.requests):
                for line in self._seen.list_group(group, items):
                    self._transcript.line(f"  {line}")

    async def _answer_all(self, word: str) -> None:
        if not self._open:
            self._transcript.line("! no request is open")
            return
        if not word:
            raise ValueError("/all needs an answer, such as /all y")
        for line in await self._seen.answer_all(self._open[0].request, word):
            self._transcript.line(line)


async def run_agent_console(
    fleet: "HostClient",
    attached: AgentConsole,
    after: int,
    session: str,
    keyboard: "LineInput",
    *,
    is_terminal: bool,
) -> None:
    """Follow and read until the person leaves or the agent has ended."""

    async def follow() -> None:
        records = fleet.follow(after, agent=session, patience=_PATIENCE)
        async with aclosing(records):
            async for record in records:
                await attached.show(record)

    async def read() -> None:
        # A person sees what happens before the next line; a script cannot, so its lines wait.
        async for line in keyboard.lines():
            if not is_terminal:
                await attached.settle()
            await attached.take_line(line)
        if not is_terminal:
            await attached.settle()
        attached.leave()

    with keyboard.listening():
        async with handle_interrupts(attached.interrupt):
            await race_tasks(attached.left(), follow(), read())


@asynccontextmanager
async def handle_interrupts(
    act: Callable[[float], Coroutine[Any, Any, None]],
) -> AsyncGenerator[None]:
    """Call a function at each Ctrl-C, with the time in seconds, until the end of the block."""
    loop = asyncio.get_running_loop()
    acting = BackgroundTasks()

    def interrupted() -> None:
        acting.start(act(loop.time()), name="interrupt")

    loop.add_signal_handler(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        await acting.close()


@click.command(epilog="Exit codes: 0 detached or idle, 4 it needs you, 5 it failed or was killed.")
@click.argument("agent")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(0),
    default=50,
    show_default=True,
    help="Number of earlier records to show.",
)
@click.option("--answer-only", is_flag=True, help="Show and answer requests; send no prompts.")
@as_json_option
def attach(agent: str, limit: int, answer_only: bool, as_json: bool) -> None:
    """Follow AGENT in this terminal; type to send prompts.

    Requests are shown and answered here. Ctrl-C interrupts the agent, Ctrl-C twice detaches; the
    agent keeps running. From a pipe or a file, every line is sent, and the command ends when the
    agent is idle. With --json each record is one line.
    """
    raise SystemExit(
        with_fleet(lambda fleet: follow_agent(fleet, agent, limit, answer_only, as_json))
    )


async def follow_agent(
    fleet: "HostClient",
    agent: str,
    limit: int = 50,
    answer_only: bool = False,
    as_json: bool = False,
) -> int:
    """Follow an agent in this terminal until the person leaves; returns the exit code."""
    from .agent_control import read_last_records
    from .logs import RecordPrinter, TranscriptPrinter

    info = await fleet.adopt_session(agent)
    is_terminal = sys.stdin.isatty()
    kind = RecordPrinter if as_json else TranscriptPrinter
    transcript = kind(write_flushed, only_requests=answer_only)
    ring = _ring if is_terminal and await asyncio.to_thread(_wants_bell) else None
    attached = AgentConsole(fleet, info, transcript, answer_only=answer_only, ring=ring)
    if is_terminal:
        transcript.line(
            f"= {escape_controls(info.name)} ({info.agent}, {info.state}); /help shows commands"
        )
    # Read before the list of what is open: what is asked in between comes as a record.
    last = info.last_seq
    if not answer_only:
        for record in await read_last_records(fleet, info, limit):
            transcript.record(record)
    await attached.show_open()
    await run_agent_console(
        fleet, attached, last, info.session, LineInput(), is_terminal=is_terminal
    )
    transcript.end_line()
    return 0 if is_terminal else rest_code([await fleet.agent(info.session)])


def _ring() -> None:
    write_flushed("\a")


def _wants_bell() -> bool:
    from quarterdeck.config.loader import load_config
    from quarterdeck.config.places import Places

    return load_config(Places.find()).settings.notifications.bell
