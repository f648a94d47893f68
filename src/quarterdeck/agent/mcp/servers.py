"""The MCP servers of one session: found in settings, in the project's file and in what the
client gives; run side by side.
"""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import Struct, field, structs

from quarterdeck.config.schema import McpServerSettings, Settings
from quarterdeck.models.vendors import VENDORS
from quarterdeck.system.file_reader import read_regular_file
from quarterdeck.wire.decoders import convert, decode_json
from quarterdeck.wire.events import Event, NoticePosted
from quarterdeck.wire.tasks import cancel_tasks, start_task

from ..environment import SessionEnvironment
from ..tool_servers import MCP_FILE, ServerDefinition
from ..tools.toolbox import Toolbox
from .protocol import McpError
from .server import SessionServer
from .tool import ServerTool
from .tool_list import server_name

__all__ = ["FoundServers", "McpServers", "find_definitions", "session_servers"]

_CATCH_UP = 2.0
"""Seconds that a step waits for the list of a server that has announced a change."""


class McpServers:
    """All servers of a session. ``start`` once; ``close`` ends every one.

    A server that is slow, silent or dead costs the others nothing, and the session no more than
    ``wait`` seconds before its first model call.

    Args:
        servers: those of the session.
        wait: seconds from ``start`` that the first step waits for those still being started.
        wanted: the only tools to lend, with ``*`` for anything; None: all.
        denied: tools not to lend, in the same form.
    """

    def __init__(
        self,
        servers: tuple[SessionServer, ...],
        *,
        wait: float,
        wanted: tuple[str, ...] | None = None,
        denied: tuple[str, ...] = (),
    ) -> None:
        self.servers = tuple(sorted(servers, key=lambda server: server.name))
        self._wait = wait
        self._wanted = wanted
        self._denied = denied
        self._deadline: float | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._seen: tuple[int, ...] = ()
        self._late: set[str] = set()

    def start(self) -> None:
        """Begin to reach them, in the background."""
        self._deadline = asyncio.get_running_loop().time() + self._wait
        self._tasks = [
            start_task(server.keep(), name=f"MCP server {server.name}") for server in self.servers
        ]

    async def settle(self, toolbox: Toolbox, emit: Callable[[Event], Awaitable[None]]) -> None:
        """See ``ToolServers``."""
        await self._wait_for_start()
        if self._tasks:
            await asyncio.gather(*(server.caught_up(_CATCH_UP) for server in self.servers))
        seen = tuple(server.changes for server in self.servers)
        if seen != self._seen:
            self._seen = seen
            toolbox.bring(tool for tool in self._tools() if self._is_wanted(tool.name))
        for notice in self._notices():
            await emit(notice)

    async def close(self) -> None:
        """End them all at once; may be called again."""
        tasks, self._tasks = self._tasks, []
        await cancel_tasks(tasks)

    async def _wait_for_start(self) -> None:
        """Wait for those that are being started, but not beyond the deadline, and only once."""
        if self._deadline is None:
            return
        deadline, self._deadline = self._deadline, None
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                for server in self.servers:
                    await server.settled.wait()
        self._late = {server.name for server in self.servers if not server.settled.is_set()}

    def _tools(self) -> list[ServerTool]:
        return [
            ServerTool(lent, server) for server in self.servers for lent in server.listing.tools
        ]

    def _is_wanted(self, name: str) -> bool:
        if any(fnmatchcase(name, each) for each in self._denied):
            return False
        return self._wanted is None or any(fnmatchcase(name, each) for each in self._wanted)

    def _notices(self) -> list[NoticePosted]:
        """The notices that are due now, each once."""
        notices: list[NoticePosted] = []
        for server in self.servers:
            if server.name in self._late and server.state == "ready":
                self._late.discard(server.name)
                count = len(server.listing.tools)
                notices.append(
                    NoticePosted(title=f"MCP server {server.name!r} is connected: {count} tools")
                )
            notices += server.notices
            server.notices.clear()
        return notices


if TYPE_CHECKING:
    from ..ports import ToolServers

    _servers: ToolServers = McpServers((), wait=0)


_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_UNTRUSTED = "ignored until you trust this workspace with `quarterdeck config trust`"
_LARGEST_FILE = 1_000_000


class FoundServers(Struct, frozen=True, kw_only=True):
    """The servers that can be tried, by name, and what is wrong with others."""

    definitions: tuple[ServerDefinition, ...]
    problems: tuple[str, ...] = ()


class _Entry(Struct):
    """A server in the project's file, in the form that many programs share."""

    type: str | None = None
    command: str | None = None
    args: list[str] = field(default_factory=list[str])
    env: dict[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    timeout: Any = None
    disabled: bool = False


async def session_servers(
    session_environment: SessionEnvironment,
    environment: Mapping[str, str],
    roots: tuple[str, ...],
    *,
    given: tuple[ServerDefinition, ...] = (),
    wanted: tuple[str, ...] | None = None,
    denied: tuple[str, ...] = (),
) -> tuple[McpServers, tuple[NoticePosted, ...]]:
    """See ``native.find_servers``."""
    found = await asyncio.to_thread(find_definitions, session_environment, environment)
    byname = {each.name: each for each in found.definitions}
    for definition in given:
        name = server_name(definition.name)
        byname[name] = structs.replace(definition, name=name)
    servers = tuple(
        SessionServer(definition, roots=roots, environment=environment)
        for definition in byname.values()
    )
    notices = tuple(NoticePosted(title=problem, severity="warning") for problem in found.problems)
    return McpServers(
        servers, wait=session_environment.settings.tools.mcp.wait, wanted=wanted, denied=denied
    ), notices


def find_definitions(
    session_environment: SessionEnvironment, environment: Mapping[str, str]
) -> FoundServers:
    """The servers that the settings and the project's file name; ours win. Reads a file."""
    problems: list[str] = []
    byname: dict[str, ServerDefinition] = {}
    expand = _expander(session_environment.settings, environment)
    if session_environment.has_mcp_file:
        _read_file(session_environment, expand, byname, problems)
    for name, settings in session_environment.settings.mcp_servers.items():
        byname.pop(name, None)
        if not settings.enabled:
            continue
        try:
            byname[name] = _of_settings(name, settings, session_environment, expand)
        except McpError as error:
            problems.append(f"mcp_servers.{name}: {error}")
    ordered = tuple(byname[name] for name in sorted(byname))
    return FoundServers(definitions=ordered, problems=tuple(problems))


def _of_settings(
    name: str,
    given: McpServerSettings,
    session_environment: SessionEnvironment,
    expand: Callable[[str], str],
) -> ServerDefinition:
    if (given.command is None) == (given.url is None):
        raise McpError("set either its command or its url")
    source = session_environment.config.source(
        "mcp_servers", name, "url" if given.url else "command"
    )
    return ServerDefinition(
        name=name,
        command=() if given.command is None else (given.command, *given.args),
        env=_expanded(given.env, expand),
        cwd=_directory(given.cwd, session_environment),
        url=None if given.url is None else expand(given.url),
        headers=_expanded(given.headers, expand),
        timeout=given.timeout,
        start_timeout=given.start_timeout,
        trusted=given.trusted,
        tools=given.tools or None,
        without=given.without,
        source=source.place or source.layer,
    )


def _read_file(
    session_environment: SessionEnvironment,
    expand: Callable[[str], str],
    byname: dict[str, ServerDefinition],
    problems: list[str],
) -> None:
    path = Path(session_environment.project) / MCP_FILE
    if not session_environment.trusted:
        problems.append(f"{path}: {_UNTRUSTED}")
        return
    try:
        data = read_regular_file(path, _LARGEST_FILE)
        entries = decode_json(data, dict[str, Any]).get("mcpServers", {})
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        problems.append(f"{path} cannot be read: {error}")
        return
    if not isinstance(entries, dict):
        problems.append(f"{path}: 'mcpServers' is not a table")
        return
    for name, raw in sorted(cast("dict[str, Any]", entries).items()):
        try:
            entry = convert(raw, _Entry)
            if not entry.disabled:
                definition = _of_entry(
                    _free_name(name, byname), entry, session_environment, expand, str(path)
                )
                byname[definition.name] = definition
        except (msgspec.ValidationError, McpError) as error:
            problems.append(f"{path}: server {name[:64]!r}: {error}")


def _of_entry(
    name: str,
    entry: _Entry,
    session_environment: SessionEnvironment,
    expand: Callable[[str], str],
    source: str,
) -> ServerDefinition:
    if entry.type == "sse":
        raise McpError("the old transport 'sse' is not supported; use its address for 'http'")
    if (entry.command is None) == (entry.url is None):
        raise McpError("set either its command or its url")
    words = () if entry.command is None else (entry.command, *entry.args)
    return ServerDefinition(
        name=name,
        command=tuple(expand(word) for word in words),
        env=_expanded(entry.env, expand),
        cwd=_directory(entry.cwd, session_environment),
        url=None if entry.url is None else expand(entry.url),
        headers=_expanded(entry.headers, expand),
        source=source,
    )


def _free_name(name: str, taken: Mapping[str, Any]) -> str:
    plain, number = server_name(name), 1
    found = plain
    while found in taken:
        number += 1
        found = f"{plain}-{number}"
    return found


def _directory(cwd: str | None, session_environment: SessionEnvironment) -> str | None:
    if cwd is None:
        return None
    return os.path.normpath(Path(session_environment.project) / Path(cwd).expanduser())


def _expanded(values: Mapping[str, str], expand: Callable[[str], str]) -> dict[str, str]:
    return {name: expand(value) for name, value in values.items()}


def _expander(settings: Settings, environment: Mapping[str, str]) -> Callable[[str], str]:
    """Puts variables into texts. The key of a model's vendor is for that vendor alone."""
    keys = {name for vendor in VENDORS.values() for name in (*vendor.key_names, vendor.token_name)}
    keys |= {vendor.api_key_env for vendor in settings.vendors.values()}

    def variable(match: re.Match[str]) -> str:
        name, default = match.group(1), match.group(2)
        if name in keys:
            raise McpError(f"{name} holds a model's key, which is never passed to a server")
        value = environment.get(name) or default
        if value is None:
            raise McpError(
                f"the environment variable {name} is not set; set it, or remove the server"
            )
        return value

    return lambda text: _VARIABLE.sub(variable, text)
