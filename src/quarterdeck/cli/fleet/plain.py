"""``quarterdeck --plain``: all agents in lines, for screen readers and terminals that cannot draw.

No cursor movement, no colours, nothing that changes after it was written. Lines are written as
things happen and read from standard input; it is the same fleet as that of the workbench.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import click

from quarterdeck.fleet.notifications import NOTIFIED_EVENTS, make_notification
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import (
    CommandStarted,
    PermissionAsked,
    TerminalExited,
    TerminalOutput,
)
from quarterdeck.wire.tasks import race_tasks

from ..output import escape_controls, escape_to_line
from .attach import AgentConsole, LineInput, handle_interrupts
from .exit_codes import OK, rest_code
from .inbox import SeenRequests, answer_item, find_item
from .logs import TranscriptPrinter, write_flushed

if TYPE_CHECKING:
    from quarterdeck.fleet.client import HostClient
    from quarterdeck.wire.record import Record

__all__ = ["PlainConsole", "PlainPrinter", "run_plain"]

_PATIENCE = 60.0
_EARLIER = 30
"""Records that are shown when an agent is followed."""
_AGAIN_SECONDS = 2.0
_HELP = """\
/agents             list the agents
/follow NAME        follow an agent, by its name or its number in the list
/unfollow           follow none
/inbox              list what needs you
/answer NAME WORD   answer the request of an agent: y, s, p, n, or a number
/all NAME WORD      answer it, and the same requests of other agents
/new PROMPT         start our own agent here; /new AGENT: PROMPT starts another
/send NAME TEXT     send a prompt to an agent
/say TEXT           send a prompt to the followed agent while its request is open
/deny TEXT          deny its request with a reason
/interrupt          end its turn
/quit               quit; agents keep running
!COMMAND            run a command of yours in its directory
Other lines go to the followed agent: as an answer while a request is open (y allow once, s allow in
this session, p allow in this project, n deny, or a number), else as a prompt. Ctrl-C interrupts it,
twice quits."""


class PlainPrinter(TranscriptPrinter):
    """Writes whole lines only, so that each is read once; also the commands of the person."""

    def __init__(self, write: Callable[[str], Any]) -> None:
        super().__init__(self._collect)
        self._out = write
        self._rest = ""
        self._commands: dict[str, str] = {}
        """The line that is not ended, of each command that runs."""

    def _collect(self, text: str) -> None:
        *lines, self._rest = (self._rest + text).split("\n")
        if lines:
            self._out("".join(f"{line}\n" for line in lines))

    @property
    def has_commands(self) -> bool:
        """Whether a command of the person runs."""
        return bool(self._commands)

    def record(self, record: "Record") -> None:
        """Write one record, or nothing if it is none for people."""
        match record.event:
            case CommandStarted(terminal=terminal, command=command):
                self._commands[terminal] = ""
                self.line(f"$ {escape_to_line(command)}")
            case TerminalOutput(terminal=terminal, data=data) if terminal in self._commands:
                *lines, self._commands[terminal] = (self._commands[terminal] + data).split("\n")
                for line in lines:
                    self.line(f"| {escape_controls(line)}")
            case TerminalExited(terminal=terminal, exit_code=code) if terminal in self._commands:
                if rest := self._commands.pop(terminal):
                    self.line(f"| {escape_controls(rest)}")
                self.line("= stopped" if code is None else f"= exit {code}")
            case _:
                super().record(record)


class PlainConsole:
    """What a person sees of the fleet and says to it.

    Args:
        fleet: where the agents are.
        printer: writes lines.
        cwd: where new agents work.
    """

    def __init__(self, fleet: "HostClient", printer: PlainPrinter, cwd: str) -> None:
        self._fleet = fleet
        self._printer = printer
        self._cwd = cwd
        self._requests = SeenRequests(fleet)
        self._listed: list[str] = []
        """The sessions in the order in which they were listed last."""
        self._followed: AgentConsole | None = None
        self._session: str | None = None
        self._after = 0
        """The last record of it that was written when it was first followed."""
        self._seen = 0
        self._came = asyncio.Event()
        self._leave = asyncio.Event()
        self._last_interrupt: float | None = None

    # What happens

    async def begin(self) -> int:
        """Say what there is; returns the record to go on after."""
        status = await self._fleet.status()
        self._seen = status.last_seq
        self._printer.line("= Quarterdeck, plain mode; /help lists commands")
        await self._list_agents()
        await self._list_inbox(is_quiet=True)
        return self._seen

    async def show(self, record: "Record") -> None:
        """Take one record of any agent."""
        if record.session == self._session and self._followed is not None:
            if record.seq > self._after:
                await self._followed.show(record)
        else:
            await self._announce(record)
        self._seen = record.seq
        self._came.set()

    async def _announce(self, record: "Record") -> None:
        """Say of another agent only what a person has to know."""
        if not isinstance(record.event, NOTIFIED_EVENTS):
            return
        try:
            info = await self._fleet.agent(record.session)
        except QuarterdeckError:  # it is deleted by now
            return
        if (note := make_notification(record, info)) is not None:
            words = f": {escape_to_line(note.text)}" if note.text else ""
            self._printer.line(f"* {escape_to_line(note.title)}{words}")
        if isinstance(record.event, PermissionAsked):
            await self._announce_group(record.event.request, info.name)

    async def _announce_group(self, request: str, name: str) -> None:
        """Say that others ask for the same."""
        from quarterdeck.fleet.permissions.request_groups import describe_group

        _, groups = await self._requests.read_groups()
        for group in groups:
            if len(group.members) > 1 and request in group.requests:
                words = f"* {escape_to_line(describe_group(group))}; /inbox shows them"
                self._printer.line(f"{words}, /all {escape_to_line(name)} y allows all")

    async def settle(self) -> None:
        """Wait until the followed agent is at rest and all of that is written."""
        if self._session is None:
            return
        await self._fleet.wait([self._session])
        last = (await self._fleet.agent(self._session)).last_seq
        while self._seen < last or self._printer.has_commands:
            self._came.clear()
            await self._came.wait()

    # What the person says

    async def take_line(self, line: str) -> None:
        """Do what a line says; an error is written, and nothing ends."""
        line = line.strip()
        word, _, rest = line.partition(" ")
        commands: dict[str, Callable[[str], Awaitable[None]]] = {
            "/agents": self._list_agents,
            "/list": self._list_agents,
            "/follow": self._follow,
            "/unfollow": self._unfollow,
            "/inbox": self._list_inbox,
            "/answer": self._answer,
            "/all": self._answer_all,
            "/new": self._new,
            "/send": self._send,
            "/help": self._help,
            "/quit": self._quit,
            "/detach": self._unfollow,
        }
        try:
            if word in commands:
                await commands[word](rest.strip())
            elif line.startswith("!") and self._session is not None:
                await self._fleet.run_command(self._session, line[1:])
            elif self._followed is not None:
                await self._followed.take_line(line)
            elif line:
                self._printer.line("! no agent is followed; /follow NAME follows one, /help")
        except (QuarterdeckError, ValueError) as error:
            self._printer.line(f"! {escape_controls(str(error))}")

    async def interrupt(self, now: float) -> None:
        """Ctrl-C: end the turn of the followed agent; again within two seconds: leave."""
        is_again = self._last_interrupt is not None and now - self._last_interrupt < _AGAIN_SECONDS
        self._last_interrupt = now
        if is_again or self._session is None:
            self._leave.set()
            return
        self._printer.line("= interrupted; Ctrl-C again quits, agents keep running")
        try:
            await self._fleet.interrupt(self._session)
        except QuarterdeckError as error:
            self._printer.line(f"! {escape_controls(str(error))}")

    @property
    def is_left(self) -> bool:
        """Whether the person wants to leave."""
        return self._leave.is_set()

    async def left(self) -> None:
        """Wait until the person wants to leave."""
        await self._leave.wait()

    async def find_exit_code(self) -> int:
        """How the followed agent stands."""
        if self._session is None:
            return OK
        return rest_code([await self._fleet.agent(self._session)])

    async def _help(self, _: str) -> None:
        self._printer.line(_HELP)

    async def _quit(self, _: str) -> None:
        self._leave.set()

    def leave(self) -> None:
        """There is nothing more to read."""
        self._leave.set()

    async def _list_agents(self, _: str = "") -> None:
        agents = await self._fleet.agents()
        self._listed = [one.session for one in agents]
        if not agents:
            self._printer.line("= no agents; /new PROMPT starts one")
        for number, one in enumerate(agents, 1):
            state = "needs you" if one.needs_person else one.state
            title = f": {escape_to_line(one.title)}" if one.title else ""
            self._printer.line(f"{number}. {escape_to_line(one.name)}, {one.agent}, {state}{title}")

    async def _list_inbox(self, _: str = "", *, is_quiet: bool = False) -> None:
        items, groups = await self._requests.read_groups()
        if not items and not is_quiet:
            self._printer.line("= nothing needs you")
        for group in groups:
            first = items[group.first]
            shown = escape_to_line(first.name)
            if len(group.members) > 1:
                names = "these agents need" if group.agents > 1 else f"{shown} needs"
                self._printer.line(f"? {names} you; /all {shown} y allows all")
                lines = self._requests.list_group(group, items)
            else:
                self._printer.line(f"? {shown} needs you")
                lines = self._requests.list_request(first, group)
            for line in lines:
                self._printer.line(f"  {line}")

    async def _follow(self, name: str) -> None:
        from .agent_control import read_last_records

        if name.isdecimal() and 1 <= int(name) <= len(self._listed):
            name = self._listed[int(name) - 1]
        info = await self._fleet.agent(name)
        self._session, self._after = info.session, info.last_seq
        self._printer.line(f"= following {escape_to_line(info.name)} ({info.agent}, {info.state})")
        for record in await read_last_records(self._fleet, info, _EARLIER):
            self._printer.record(record)
        self._printer.end_line()
        self._followed = AgentConsole(self._fleet, info, self._printer, seen=self._requests)
        await self._followed.show_open()

    async def _unfollow(self, _: str) -> None:
        if self._followed is not None:
            self._printer.line("= following no agent")
        self._followed = self._session = None

    async def _answer(self, words: str) -> None:
        name, _, word = words.partition(" ")
        if not word.strip():
            raise ValueError("/answer needs an agent and an answer, such as /answer docs y")
        item = await find_item(self._fleet, name)
        if not await answer_item(self._fleet, item, word.strip()):
            self._printer.line("= already answered elsewhere")

    async def _answer_all(self, words: str) -> None:
        name, _, word = words.partition(" ")
        if not word.strip():
            if self._followed is None or not name:
                raise ValueError("/all needs an agent and an answer, such as /all docs y")
            await self._followed.take_line(f"/all {name}")
            return
        item = await find_item(self._fleet, name)
        for line in await self._requests.answer_all(item.request, word.strip()):
            self._printer.line(line)

    async def _send(self, words: str) -> None:
        from quarterdeck.wire.content import text

        name, _, prompt = words.partition(" ")
        if not prompt.strip():
            raise ValueError("/send needs an agent and a text")
        await self._fleet.send(name, (text(prompt.strip()),))

    async def _new(self, words: str) -> None:
        from quarterdeck.fleet.api import SpawnOptions

        agent, colon, prompt = words.partition(": ")
        if not colon or " " in agent:
            agent, prompt = "native", words
        if not prompt.strip():
            raise ValueError("/new needs a prompt, such as /new claude: fix the parser")
        info = await self._fleet.spawn(
            SpawnOptions.of(agent=agent, cwd=self._cwd, prompt=prompt.strip())
        )
        await self._follow(info.session)


async def _run(fleet: "HostClient", cwd: str) -> int:
    is_terminal = sys.stdin.isatty()
    printer = PlainPrinter(write_flushed)
    console = PlainConsole(fleet, printer, cwd)
    keyboard = LineInput()

    async def follow(after: int) -> None:
        async with aclosing(fleet.follow(after, patience=_PATIENCE)) as records:
            async for record in records:
                await console.show(record)

    async def read() -> None:
        # A person hears what happens before the next line; a script cannot, so its lines wait.
        async for line in keyboard.lines():
            await console.take_line(line)
            if console.is_left:
                return
            if not is_terminal:
                await console.settle()
        console.leave()

    after = await console.begin()
    with keyboard.listening():
        async with handle_interrupts(console.interrupt):
            await race_tasks(console.left(), follow(after), read())
    printer.end_line()
    return OK if is_terminal else await console.find_exit_code()


def run_plain() -> None:
    """Show all agents in lines until the person leaves. Exits with the code of ``attach``."""
    from ..command_io import resolve_directory, with_fleet

    os.environ.setdefault("NO_COLOR", "1")
    cwd = resolve_directory(None)
    code = with_fleet(lambda fleet: _run(fleet, cwd))
    if code:
        raise click.exceptions.Exit(code)
