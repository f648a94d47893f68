"""Logging in to an agent that speaks ACP: the ways it offers, and taking one of them.

::

    for method in await quarterdeck.login_methods("gemini"):
        print(method.id, method.name)
    await quarterdeck.log_in("gemini", "oauth-personal")
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.errors import LinkError, RpcError
from quarterdeck.wire.tasks import run_to_end

from .agent_description import Agent, make_launch
from .agent_process import AgentProcess, AgentProcessStream
from .catalogue import find_agent
from .driver import DriverSessionOptions
from .errors import (
    LoginMethod,
    LoginNeededError,
    OpenFailedError,
    StartTimeoutError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from quarterdeck.config.places import Places
    from quarterdeck.wire.acp.connection import AcpConnection

    from .acp.handshake import AcpInitializeResponse
    from .agent_process import Launch

__all__ = ["RunLogin", "log_in", "login_methods"]

RunLogin = Callable[[LoginMethod], Awaitable[int]]
"""Runs the command of a way to log in on a terminal; returns its exit code."""

_PATIENCE = 900.0
"""Seconds that a person may take, in a browser or elsewhere."""


async def login_methods(
    agent: str,
    *,
    cwd: str | os.PathLike[str] = ".",
    environment: Mapping[str, str] | None = None,
    places: "Places | None" = None,
) -> tuple[LoginMethod, ...]:
    """The ways to log in that an agent offers; it is started for that, and ended.

    Raises:
        UnknownAgentError, BadAgentFileError: there is no such agent.
        UnsupportedError: it does not speak ACP; the message has the hint of its file.
        OpenFailedError: it did not start.
    """
    found = await asyncio.to_thread(find_agent, agent, places)
    async with _visit(found, cwd, environment or {}) as visit:
        return visit.methods


async def log_in(
    agent: str,
    method: str | None = None,
    *,
    cwd: str | os.PathLike[str] = ".",
    environment: Mapping[str, str] | None = None,
    places: "Places | None" = None,
    run: RunLogin | None = None,
) -> LoginMethod:
    """Log in to an agent and make sure that it opens a session then.

    ``method`` is the id of a way that it offers; None: its only one. ``run`` runs the command of
    a way that needs a terminal.

    Raises:
        UnknownAgentError, BadAgentFileError: there is no such agent.
        UnsupportedError: it does not speak ACP, offers no such way, or the way needs a terminal.
        LoginNeededError: several ways are offered and none was named; or it still wants a login.
        OpenFailedError: it did not start, or refused the login.
    """
    found = await asyncio.to_thread(find_agent, agent, places)
    own = environment or {}
    async with _visit(found, cwd, own) as visit:
        chosen = _choose(found, visit.methods, method)
        if chosen.kind != "terminal":
            _check_variables(found, chosen, {**os.environ, **own})
            await visit.authenticate(chosen)
            await visit.check()
            return chosen
    if run is None:
        words = " ".join(chosen.command or ())
        raise UnsupportedError(
            found.name, "acp", f"log in with {chosen.id!r} without a terminal", words
        )
    if code := await run(chosen):
        raise OpenFailedError(
            f"the login of {found.name} ended with exit code {code}", exit_code=code
        )
    async with _visit(found, cwd, own) as visit:
        await visit.check()
    return chosen


@dataclass(slots=True)
class _Visit:
    """An agent that was started and greeted."""

    launch: "Launch"
    connection: "AcpConnection"
    hello: "AcpInitializeResponse"
    cwd: str

    @property
    def methods(self) -> tuple[LoginMethod, ...]:
        from .acp.handshake import login_methods as ways

        return ways(self.launch, self.hello.auth_methods)

    async def authenticate(self, method: LoginMethod) -> None:
        request = acp.AuthenticateRequest(method_id=method.id)
        try:
            await self.connection.call(acp.AUTHENTICATE, request, timeout=_PATIENCE)
        except RpcError as error:
            text = f"{self.launch.agent} refused the login {method.id!r}: {error.description}"
            raise OpenFailedError(text) from error

    async def check(self) -> None:
        """Open a session, which an agent that wants a login refuses."""
        from .acp.handshake import AcpOpenMethod, open_session

        way = AcpOpenMethod(acp.SESSION_NEW.name)
        opened = await open_session(
            self.connection, self.launch, DriverSessionOptions.of(cwd=self.cwd), self.hello, way
        )
        can = self.hello.agent_capabilities.session_capabilities
        if can.close is not None and opened.session_id is not None:
            request = acp.CloseSessionRequest(session_id=opened.session_id)
            await self.connection.call(acp.SESSION_CLOSE, request)


@asynccontextmanager
async def _visit(
    agent: Agent, cwd: str | os.PathLike[str], environment: Mapping[str, str]
) -> AsyncGenerator[_Visit]:
    """Start an agent over ACP and greet it; leaving ends it and every process of it."""
    from quarterdeck.system.local import LocalSystem
    from quarterdeck.system.process_guard import shared_guard
    from quarterdeck.wire.acp.connection import AcpConnection, Router

    from .acp.handshake import TERMINAL_LOGIN, initialize_agent

    if "acp" not in agent.transports:
        raise UnsupportedError(agent.name, "any protocol", "log in from here", agent.login.hint)
    launch = make_launch(agent, "acp")
    where = await asyncio.to_thread(lambda: str(Path(cwd).absolute()))
    opening = DriverSessionOptions.of(cwd=where, environment=environment)
    system = LocalSystem([where], guard=shared_guard())
    child: AgentProcess | None = None
    try:
        child = await AgentProcess.start(launch, opening, system)
        outlet = AgentProcessStream(agent.name, child)
        connection = AcpConnection(
            outlet, Router("client"), answer_malformed=False, name=agent.name
        )
        able = acp.ClientCapabilities(
            auth=acp.AuthCapabilities(terminal=True), meta=dict(TERMINAL_LOGIN)
        )
        async with connection:
            try:
                async with asyncio.timeout(opening.start_limit):
                    hello = await initialize_agent(connection, launch, able)
                yield _Visit(launch, connection, hello, where)
            except TimeoutError as error:
                text = f"{agent.name} did not answer in time"
                raise StartTimeoutError(text, stderr=child.stderr()) from error
            except LinkError as error:
                broken = await outlet.explain(error)
                raise OpenFailedError(
                    f"{agent.name} exited: {broken}",
                    exit_code=getattr(broken, "exit_code", None),
                    signal=getattr(broken, "signal", None),
                    stderr=child.stderr(),
                ) from error
            except RpcError as error:
                text = f"{agent.name} refused: {error.description}"
                raise OpenFailedError(text, stderr=child.stderr()) from error
    finally:
        if child is not None:
            await run_to_end(child.end(), name="login: end")
        await system.close()


def _choose(agent: Agent, methods: tuple[LoginMethod, ...], wanted: str | None) -> LoginMethod:
    for method in methods:
        if wanted in (method.id, method.name):
            return method
    if wanted is None and len(methods) == 1:
        return methods[0]
    known = ", ".join(method.id for method in methods)
    if wanted is None and methods:
        raise LoginNeededError(
            f"{agent.name} offers several login methods, choose one: {known}.", methods
        )
    if not methods:
        raise UnsupportedError(
            agent.name, "acp", "log in: it offers no login method", agent.login.hint
        )
    raise UnsupportedError(agent.name, "acp", f"log in with {wanted!r}", f"It offers {known}.")


def _check_variables(agent: Agent, method: LoginMethod, environment: Mapping[str, str]) -> None:
    missing = [name for name in method.variables if not environment.get(name)]
    if missing:
        page = f" See {method.link}." if method.link else ""
        raise OpenFailedError(
            f"{agent.name}: set {' and '.join(missing)} first, then log in.{page}"
        )
