"""The server that a session talks with: one of its own, or one that runs already."""

import asyncio
import re
import secrets

from quarterdeck.net.http1 import HttpError
from quarterdeck.system.api import EndingDeadlines
from quarterdeck.system.errors import PathError
from quarterdeck.system.local import LocalSystem
from quarterdeck.system.process_guard import shared_guard
from quarterdeck.wire.errors import LinkBrokenError, LinkEndedError, LinkError

from ...agent_process import AgentProcess, AgentProcessStream, Launch
from ...driver import DriverSessionOptions
from ...errors import OpenFailedError, WrongProtocolError
from ...foreign_json import as_map, as_text
from ...link import AgentExit
from ..running_server import check_attached, password_of
from .client import OpencodeAnswerError, OpencodeClient, OpencodeStatusError

__all__ = ["OpencodeServer"]

_USER = "opencode"
_PASSWORD = "OPENCODE_SERVER_PASSWORD"
_USERNAME = "OPENCODE_SERVER_USERNAME"
_FIXED = ("arguments", "environment", "mcp_servers")
"""Options that a server which runs already cannot be told."""
_LISTENING = re.compile(rb"listening on (http://\S+)")
_LONGEST = 64 * 1024
"""Bytes of output in which the address must come."""
_ENDING = EndingDeadlines(ask=0.0, terminate=2.0)
"""It does not look at its standard input."""


class OpencodeServer:
    """A server, how it is asked, and how it ends.

    One of our own has a password that nobody else knows: it is made at the start, goes to the
    program by its environment and is never written down. It ends with the session.
    """

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._child: AgentProcess | None = None
        self._outlet: AgentProcessStream | None = None
        self._system: LocalSystem | None = None
        self.api: OpencodeClient

    @property
    def is_ours(self) -> bool:
        """Whether it was started for this session."""
        return not self._launch.url

    async def start(self, opening: DriverSessionOptions) -> str | None:
        """Start or find it; returns its version.

        Raises:
            OpenFailedError, UnsupportedError: it did not start, is not there, or lets us not in.
        """
        if self.is_ours:
            password = secrets.token_urlsafe(32)
            url = await self._run(opening, password)
        else:
            check_attached(self._launch, opening, _FIXED)
            url, password = self._launch.url, password_of(self._launch, opening)
        try:
            self.api = OpencodeClient(
                url, user=_USER, password=password, query={"directory": opening.options.cwd}
            )
            health = as_map(await self.api.get("/global/health"))
        except OpencodeStatusError as error:
            raise self._refused(error) from error
        except (HttpError, OpencodeAnswerError) as error:
            raise OpenFailedError(f"{self._launch.agent}: no server at {url!r}: {error}") from error
        if "version" not in health:
            raise WrongProtocolError(
                f"the server at {url!r} is not a server of {self._launch.agent}"
            )
        return as_text(health.get("version")) or None

    async def watch(self) -> LinkError:
        """Wait until a server of our own has left, and say how; for others wait for ever."""
        if self._outlet is None:
            return await asyncio.get_running_loop().create_future()
        try:
            while await self._outlet.receive():
                pass
        except LinkError as error:
            return await self._outlet.explain(error)
        return await self._outlet.explain(LinkEndedError(f"{self._launch.agent} exited"))

    async def end(self) -> AgentExit | None:
        """End a server of our own and all that it started; leave others alone."""
        try:
            return await self._child.end(_ENDING) if self._child is not None else None
        finally:
            if self._system is not None:
                await self._system.close()

    # One of our own

    async def _run(self, opening: DriverSessionOptions, password: str) -> str:
        environment = {**opening.options.variables, _PASSWORD: password, _USERNAME: _USER}
        self._system = LocalSystem(
            [opening.options.cwd, *opening.options.roots], guard=shared_guard()
        )
        told = opening.with_options(environment=environment)
        try:
            self._child = await AgentProcess.start(self._launch, told, self._system)
        except PathError as error:
            raise OpenFailedError(f"{self._launch.agent} could not be started: {error}") from error
        self._outlet = AgentProcessStream(self._launch.agent, self._child)
        return await self._address(self._outlet)

    async def _address(self, outlet: AgentProcessStream) -> str:
        """Where it listens, which it prints; before that it answers nothing."""
        printed = b""
        while data := await outlet.receive():
            printed = (printed + data)[-_LONGEST:]
            if (found := _LISTENING.search(printed)) and b"\n" in printed[found.start() :]:
                return found[1].decode("ascii", "replace")
        raise await outlet.explain(
            LinkBrokenError(f"{self._launch.agent} did not report where it listens")
        )

    # One that runs already

    def _refused(self, error: OpencodeStatusError) -> OpenFailedError:
        url = self._launch.url or "its own server"
        if error.status not in (401, 403):
            return WrongProtocolError(f"{self._launch.agent}: {url!r} answers with {error}")
        name = self._launch.password
        hint = f"the one in {name!r} is wrong" if name else "name its variable in `password`"
        return OpenFailedError(f"{self._launch.agent}: {url!r} requires a password; {hint}.")
