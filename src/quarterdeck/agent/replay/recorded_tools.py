"""Tools that prepare their calls for real, on files as recorded, and give recorded results.

Nothing is read from or written to the disk, and no command is run. Tools that only speak with the
session (``plan``, ``ask_user``, ``spawn_agent`` …) run for real.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, NoReturn, cast

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from quarterdeck.models.model import ToolSpec
from quarterdeck.policy.call import McpTool
from quarterdeck.policy.modes import NO_SANDBOX, Containment, SandboxState
from quarterdeck.system.api import (
    DirectoryEntry,
    FileContent,
    FileIdentity,
    FileLines,
    FileStat,
    PathLike,
    Processes,
    Terminals,
)
from quarterdeck.system.errors import NoSuchPathError, OperatingSystemError
from quarterdeck.wire.conversation import TextPart
from quarterdeck.wire.decoders import convert
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import Event, QuestionAsked, ToolCallUpdated, TurnEnded
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.tool_calls import Diff, ToolKind

from ..limits import TurnStoppedError
from ..tool_calls import make_bare_title
from ..tools.tool import Arguments, LiveCall, PreparedCall, Tool, ToolError, ToolOutcome
from ..tools.toolbox import ForeignArguments, ForeignTool, LazyTool, Toolbox
from ..tools.workspace import SeenFiles, ToolWorkspace
from .conductor import Conductor, speaker
from .recorded_run import CallRecord

__all__ = [
    "RecordedServerTool",
    "RecordedServers",
    "RecordedSystem",
    "RecordedTool",
    "make_recorded_tools",
]

_TALKING = frozenset(("plan", "ask_user", "goal_done", "spawn_agent"))
"""Tools that touch nothing outside of the session: these run."""
_OF_DIRECTORIES = frozenset(("ls", "glob", "grep"))
_HOOK_NOTE = "[A hook changed the input of this call to "
_NOT_RECORDED = "the recording has no result of this call"


class RecordedFiles:
    """Files as one recorded call saw them; nothing can be changed."""

    is_disk = False

    def __init__(self, tool: str = "", call: CallRecord | None = None) -> None:
        self._texts: dict[str, str | None] = {}
        self._directories = tool in _OF_DIRECTORIES
        self._is_known = call is not None
        started = call.started if call is not None else None
        if started is None:
            return
        for one in started.content:
            if isinstance(one, Diff):
                self._texts.setdefault(one.path, one.old_text)
        for location in started.locations:
            if not self._directories:
                self._texts.setdefault(location.path, "")

    async def stat(self, path: PathLike, *, follow: bool = True) -> FileStat:
        """What the recording says of a path."""
        name = str(path)
        if name in self._texts:
            text = self._texts[name]
            if text is None:
                raise NoSuchPathError(name)
            return FileStat(path=name, kind="file", mode=0o644, identity=self.identity(name))
        return FileStat(path=name, kind="directory", mode=0o755, identity=self.identity(name))

    def identity(self, path: str) -> FileIdentity:
        """The same for the same recorded content."""
        size = len((self._texts.get(path) or "").encode("utf-8", "surrogatepass"))
        return FileIdentity(device=0, inode=0, size=size, modified_ns=0)

    async def read(
        self, path: PathLike, *, offset: int = 0, limit: int | None = None
    ) -> FileContent:
        """The recorded content."""
        text = self._texts.get(str(path))
        if text is None:
            raise NoSuchPathError(str(path))
        data = text.encode("utf-8", "surrogatepass")
        return FileContent(data=data, identity=self.identity(str(path)), at_end=True)

    async def read_lines(
        self,
        path: PathLike,
        *,
        line: int = 1,
        limit: int | None = None,
        max_bytes: int = 1_048_576,
    ) -> FileLines:
        """Not recorded."""
        self._refuse()

    async def write(
        self,
        path: PathLike,
        data: bytes,
        *,
        expected: FileIdentity | None = None,
        create: bool | None = None,
    ) -> FileIdentity:
        """Nothing is written."""
        self._refuse()

    async def list(self, path: PathLike = ".") -> tuple[DirectoryEntry, ...]:
        """Not recorded."""
        self._refuse()

    async def walk(
        self,
        path: PathLike = ".",
        *,
        limit: int = 100_000,
        prune: Callable[[DirectoryEntry], bool] | None = None,
    ) -> AsyncIterator[DirectoryEntry]:
        """Not recorded."""
        self._refuse()
        yield  # an iterator, as the others are

    async def make_directory(self, path: PathLike) -> None:
        """Nothing is made."""
        self._refuse()

    async def remove(self, path: PathLike) -> None:
        """Nothing is removed."""
        self._refuse()

    async def rename(self, source: PathLike, target: PathLike) -> None:
        """Nothing is moved."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise OperatingSystemError("a replay touches no files")


class _SeenRecorded(SeenFiles):
    """Every file counts as seen as it is: a call that was refused is refused by its record."""

    def __init__(self, files: RecordedFiles) -> None:
        super().__init__()
        self._files = files

    def get(self, real_path: str) -> FileIdentity | None:
        return self._files.identity(real_path)


class RecordedSystem:
    """A system without files, processes and terminals."""

    def __init__(self, roots: tuple[str, ...], sandbox: SandboxState = NO_SANDBOX) -> None:
        self.roots = roots
        self.files = RecordedFiles()
        self._sandbox = sandbox

    @property
    def processes(self) -> Processes:
        """None can be started."""
        raise OperatingSystemError("a replay starts no process")

    @property
    def terminals(self) -> Terminals:
        """None can be started."""
        raise OperatingSystemError("a replay starts no command")

    async def sandbox(self) -> SandboxState:
        """The sandbox of the recording."""
        return self._sandbox

    def terminals_for(self, containment: Containment) -> Terminals:
        """None can be started."""
        return self.terminals

    async def close(self) -> None:
        """Nothing runs."""


if TYPE_CHECKING:
    from ..session_system import SessionSystem

    _system: SessionSystem = RecordedSystem(())


class RecordedTool:
    """A tool whose calls end as they were recorded."""

    def __init__(
        self, conductor: Conductor, real: Tool | None, name: str = "", kind: ToolKind = "other"
    ) -> None:
        self._conductor = conductor
        self._real = real
        self.name = real.name if real is not None else name
        self.kind: ToolKind = real.kind if real is not None else kind
        self.arguments: type[Arguments] = real.arguments if real is not None else ForeignArguments
        self.for_children: bool = getattr(real, "for_children", True)

    @property
    def description(self) -> str:
        """The text that the model reads."""
        return self._real.description if self._real is not None else ""

    async def prepare(self, arguments: Any, workspace: ToolWorkspace) -> PreparedCall:
        """Prepare for real where that can be done, else as it was recorded.

        Raises:
            ToolError: it was refused then.
        """
        id_, call = self._find(arguments)
        if self.name in _TALKING and self._real is not None:
            return self._ordered(await self._real.prepare(arguments, workspace), id_, call)
        if call is not None and _was_refused(call):
            raise ToolError(call.ended.reason or "" if call.ended is not None else "")
        prepared = await self._prepared(arguments, workspace, call)
        if self._real is None and call is not None and call.asked is not None:
            facts = call.asked.raw_input
            prepared = replace(prepared, shows=facts if isinstance(facts, dict) else {})

        async def run(live: LiveCall) -> ToolOutcome:
            return await self._replay(live, call)

        return replace(prepared, run=run, timeout=None)

    def _find(self, arguments: Any) -> tuple[str, CallRecord | None]:
        """The recorded call with these arguments that has not begun in the replay."""
        conductor = self._conductor
        session = self._session()
        for item in conductor.recording.of_session.get(session, ()):
            if item.slot[0] != "tool call" or item.is_done:
                continue
            call = conductor.recording.call(session, item.slot[1])
            if call is not None and call.started is not None and self._is_same(call, arguments):
                return item.slot[1], call
        return "", None

    def _is_same(self, call: CallRecord, arguments: Any) -> bool:
        assert call.started is not None
        if call.started.name != self.name:
            return False
        given = (call.started.raw_input, call.changed_input)
        return any(self._decoded(raw) == arguments for raw in given if raw is not UNSET)

    def _decoded(self, raw: Any) -> Any:
        if self.arguments is ForeignArguments:
            is_object = isinstance(raw, dict)
            return ForeignArguments(values=cast("dict[str, Any]", raw)) if is_object else None
        try:
            return convert(raw, self.arguments, strict=False)
        except msgspec.ValidationError:
            return None

    def _session(self) -> SessionId:
        new = speaker.get()
        found = self._conductor.recorded_id(new) if new is not None else None
        return found or self._conductor.recording.root

    async def _prepared(
        self, arguments: Any, workspace: ToolWorkspace, call: CallRecord | None
    ) -> PreparedCall:
        files = RecordedFiles(self.name, call)
        system = RecordedSystem(workspace.system.roots)
        system.files = files
        view = replace(workspace, system=system, seen=_SeenRecorded(files))
        try:
            if self._real is not None:
                return await self._real.prepare(arguments, view)
        except QuarterdeckError:
            pass
        if self._real is None:
            return self._from_record(arguments, workspace, call)
        note = f"calls of {self.name} were prepared from the recording: files are not as then"
        self._conductor.notes[note] = None
        return self._from_record(arguments, workspace, call)

    def _from_record(
        self, arguments: Any, workspace: ToolWorkspace, call: CallRecord | None
    ) -> PreparedCall:
        started = call.started if call is not None else None
        if started is None:
            raise ToolError(_NOT_RECORDED)
        access = "write" if self.kind in ("edit", "delete", "move") else "read"
        paths = tuple(workspace.path(one.path, access, one.path) for one in started.locations)
        policy_call = workspace.call(
            self.name, self.kind, paths=paths, command=getattr(arguments, "command", None)
        )
        if self._real is None:
            server, _, tool = self.name.removeprefix("mcp__").partition("__")
            only_reads = self.kind == "read"
            policy_call = replace(
                policy_call, mcp=McpTool(server=server, tool=tool, only_reads=only_reads)
            )
        return PreparedCall(
            title=started.title,
            call=policy_call,
            run=_never,
            content=started.content,
            locations=started.locations,
        )

    def _ordered(self, prepared: PreparedCall, id_: str, call: CallRecord | None) -> PreparedCall:
        """A call that runs, and ends when it did in the recording."""
        session = self._session()

        async def run(live: LiveCall) -> ToolOutcome:
            outcome = await prepared.run(live)
            if call is not None and call.end_index >= 0:
                await self._conductor.before_release(session, call.end_index)
            return outcome

        return replace(prepared, run=run)

    async def _replay(self, live: LiveCall, call: CallRecord | None) -> ToolOutcome:
        conductor, session = self._conductor, self._session()
        found = conductor.recording.call(session, live.call) or call
        if found is None or found.ended is None:
            if conductor.recording.is_cut:
                await conductor.interrupt()
            raise ToolError(_NOT_RECORDED)
        if found.ended.status == "cancelled":
            await conductor.reach(found.end_index)
            await conductor.interrupt()
        await self._ask_again(live, session, found)
        for update in found.updates:
            if update.content is not UNSET and update.raw_input is UNSET:
                await live.emit(ToolCallUpdated(call=live.call, content=update.content))
        await conductor.before_release(session, found.end_index)
        return _outcome(found)

    async def _ask_again(self, live: LiveCall, session: SessionId, found: CallRecord) -> None:
        """Put the questions again that a tool of others asked while it ran."""
        for item in self._conductor.recording.of_session.get(session, ()):
            event = item.record.event
            if isinstance(event, QuestionAsked) and event.call == live.call and not item.is_done:
                await live.ask(event.text, event.form or {})


def _was_refused(call: CallRecord) -> bool:
    """Whether it could not even be prepared."""
    if call.ended is None or call.ended.status != "failed":
        return False
    return call.answered is None and call.asked is None and not call.updates and _is_bare(call)


def _is_bare(call: CallRecord) -> bool:
    started = call.started
    if started is None or started.content:
        return False
    name = started.name or ""
    return started.title in (name, make_bare_title(name, started.raw_input))


def _outcome(call: CallRecord) -> ToolOutcome:
    ended = call.ended
    assert ended is not None
    parts = ended.result.content if ended.result is not None else ()
    if call.changed_input is not UNSET:  # the note is added again
        parts = tuple(
            p for p in parts if not (isinstance(p, TextPart) and p.text.startswith(_HOOK_NOTE))
        )
    return ToolOutcome(
        result=parts,
        content=None if ended.content is UNSET else ended.content,
        locations=None if ended.locations is UNSET else ended.locations,
        raw_output=None if ended.raw_output is UNSET else ended.raw_output,
        is_error=ended.result.is_error if ended.result is not None else False,
    )


async def _never(live: LiveCall) -> ToolOutcome:
    await asyncio.sleep(0)
    raise ToolError(_NOT_RECORDED)


def make_recorded_tools(
    conductor: Conductor, tools: "tuple[Tool | LazyTool, ...]"
) -> tuple[Tool, ...]:
    """The same tools, with recorded results."""
    return tuple(
        RecordedTool(conductor, tool.make() if isinstance(tool, LazyTool) else tool)
        for tool in tools
    )


class RecordedServerTool(ForeignTool):
    """A tool of an MCP server that the recording calls; the server is not started."""

    def __init__(self, conductor: Conductor, name: str, kind: ToolKind) -> None:
        super().__init__(ToolSpec(name=name, description="", parameters={}), kind)
        self._recorded = RecordedTool(conductor, None, name, kind)

    async def prepare(self, arguments: Any, workspace: ToolWorkspace) -> PreparedCall:
        """Prepare a call as it was recorded."""
        return await self._recorded.prepare(arguments, workspace)


class RecordedServers:
    """The servers of the recording: their tools with recorded results.

    Also the moment before each model call, at which a replay can wait.
    """

    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor
        found: dict[str, ToolKind] = {}
        for call in conductor.recording.calls.values():
            if call.started is not None and (call.started.name or "").startswith("mcp__"):
                found[call.started.name or ""] = call.started.kind
        self._tools = [RecordedServerTool(conductor, name, kind) for name, kind in found.items()]

    def start(self) -> None:
        """Nothing is started."""

    async def settle(self, toolbox: Toolbox, emit: Callable[[Event], Awaitable[None]]) -> None:
        """Let the tools join, and wait for what had to be ready before this call.

        What a budget said before the call is said again; where it refused, the turn ends.
        """
        if self._tools:
            toolbox.bring(self._tools)
        conductor, root = self._conductor, self._conductor.recording.root
        await conductor.before_step(root)
        await conductor.add_context(root, emit)
        item = conductor.next_of(root)
        event = item.record.event if item is not None else None
        if isinstance(event, TurnEnded) and (event.reason or "").startswith("budget: "):
            raise TurnStoppedError(event.stop, event.reason or "")

    async def close(self) -> None:
        """Nothing runs."""


if TYPE_CHECKING:
    from ..ports import ToolServers

    _servers: ToolServers = RecordedServers(cast("Conductor", None))
