"""Opens a session with an agent by its name, over the first transport that starts.

If that is not the first transport of the list, the session reports it. If none starts, the error
gives the reason and, where it helps, a hint how to log in.
"""

import asyncio
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from quarterdeck.config.places import Places
from quarterdeck.config.workspace import find_workspace
from quarterdeck.policy.foreign_calls import CallContext
from quarterdeck.policy.gate import Gate
from quarterdeck.wire.errors import LinkError, QuarterdeckError, RpcError
from quarterdeck.wire.events import Event, NoticePosted, SessionEnded, SessionOpened, SessionResumed
from quarterdeck.wire.ids import SessionId, new_session_id
from quarterdeck.wire.session_options import find_unsupported
from quarterdeck.wire.tasks import run_to_end

from .agent_description import Agent
from .catalogue import find_agent
from .driver import DriverSessionOptions, EventSink
from .enforcement import explain_unenforceable, is_reading_guarded
from .errors import (
    AgentMissingError,
    LoginNeededError,
    OpenFailedError,
    StartTimeoutError,
    UnenforceableError,
    UnsupportedError,
)
from .link import ROUTED_OPTIONS, AgentLink, StartedAgent
from .session import LinkSession
from .transports import RepeatedStart, make_links

if TYPE_CHECKING:
    from quarterdeck.terminal.headless_terminal import HeadlessTerminal

__all__ = ["login_hint", "open_session", "start_session"]

_ABOUT_LOGIN = re.compile(
    r"""(?xi)
    \blog(?:ged)?[ _-]?in\b | \bsign(?:ed)?[ _-]?in\b | \blogin\b | \bauth(?:enticat|oriz|\b)
    | \bunauthori[sz]ed\b | \b40[13]\b | \bapi[ _-]?key | \bcredential | \baccess[ _-]token
    | _API_KEY\b
    """
)


def login_hint(agent: Agent, environment: Mapping[str, str], error: QuarterdeckError) -> str | None:
    """How to log in, where that is the likely cause of a failed start; None where it is not.

    Blocks on files: whether they are there, never what they hold.
    """
    if not isinstance(error, OpenFailedError) or isinstance(error, AgentMissingError):
        return None
    if not isinstance(error, LoginNeededError) and not _ABOUT_LOGIN.search(str(error)):
        from .probe import login_state

        if login_state(agent.login, environment) != "no":
            return None
    ways = [agent.login.hint] if agent.login.hint else []
    if isinstance(error, LoginNeededError) and error.methods:
        ways.append(f"run `quarterdeck login {agent.name}`")
    if not ways:
        return None
    return f"If it is not logged in: {', or '.join(ways)}."


async def start_session(
    session: LinkSession,
    links: Iterable[Callable[[], AgentLink]],
    *,
    is_known: bool = False,
    hint: Callable[[QuarterdeckError], str | None] | None = None,
) -> None:
    """Start the session over the first of ``links`` that starts.

    ``is_known``: our log has this session; it goes on. ``hint``: what to do about a failure, a
    line for the person; it may block. When none starts, the session is written
    down as opened and broken, and the failure that says most is raised.

    Raises:
        OpenFailedError, UnsupportedError: why it did not start.
    """
    failures: list[tuple[str, QuarterdeckError]] = []
    for make in links:
        if isinstance(make, RepeatedStart):
            if not _left_at_start(failures[-1][1]):
                continue
            failures.pop()
        link = make()
        session.attach(link)
        try:
            _check_options(session, link)
            loose = _hold(session, link)
            started = await _start(session, link)
        except QuarterdeckError as error:
            failures.append((link.transport, error))
            continue
        session.agent_session = started.agent_session or session.agent_session
        try:
            first = _first(session, started, failures, is_known=is_known)
            await session.announce([*first, *loose])
        except BaseException:
            # The caller gets no session, so only we can end what has started.
            await run_to_end(link.end(), name="session: end")
            raise
        return
    error = _most_telling(failures)
    if hint is not None and isinstance(error, OpenFailedError):
        error.add_hint(await asyncio.to_thread(hint, error))
    first = _first(session, StartedAgent(), (), is_known=is_known)
    await session.fail(first, _never_ran(error))
    raise error


_INSTEAD = {
    "tools": "Deny the others by rules.",
    "denied_tools": "Deny them by rules.",
}


def _check_options(session: LinkSession, link: AgentLink) -> None:
    """Make sure that every option that is set can be honoured.

    Raises:
        UnsupportedError: one cannot; the message names all of them.
    """
    if session.opening.options.fork and session.opening.options.resume is None:
        raise UnsupportedError(
            session.agent,
            link.transport,
            "accept the option 'fork' without 'resume'",
            "Name the session to fork.",
        )
    supported = ROUTED_OPTIONS | link.supported_options
    if refused := find_unsupported(session.opening.options, supported):
        names = ", ".join(map(repr, refused))
        what = f"accept the option{'s' * (len(refused) > 1)} {names}"
        instead = " ".join(_INSTEAD[name] for name in refused if name in _INSTEAD)
        raise UnsupportedError(session.agent, link.transport, what, instead)


def _hold(session: LinkSession, link: AgentLink) -> list[Event]:
    """Make sure that the agent can be held to mode and rules; the notices to emit if it cannot.

    Raises:
        UnenforceableError: it cannot, and ``on_unheld`` is not ``warn``.
    """
    opening, around = session.opening, session.around
    reasons = explain_unenforceable(link.enforcement(opening), opening, session.gate, around)
    if not reasons:
        return []
    if around.on_unheld == "warn":
        title = (
            f"{session.agent} over {link.transport} cannot enforce all rules and modes that were "
            "set"
        )
        return [NoticePosted(title=title, severity="warning", description="; ".join(reasons))]
    raise UnenforceableError(
        session.agent,
        link.transport,
        f"enforce {'; '.join(reasons)}",
        "Use another agent, transport or mode, or remove the rule. With the setting "
        'permissions.unheld = "warn" it starts anyway and violations are reported afterwards.',
    )


async def _start(session: LinkSession, link: AgentLink) -> StartedAgent:
    """Start one link, within its limit; one that fails is ended before this returns."""
    limit = session.opening.start_limit
    try:
        async with asyncio.timeout(limit):
            return await link.start(session)
    except BaseException as error:
        departure = await run_to_end(link.end(), name="session: end")
        stderr = departure.stderr if departure is not None else ""
        match error:
            case TimeoutError():
                text = f"{session.agent} did not answer within {limit:g} s over {link.transport}"
                raise StartTimeoutError(text, stderr=stderr) from error
            case LinkError():
                raise OpenFailedError(
                    f"{session.agent} exited while starting over {link.transport}: {error}",
                    exit_code=departure.exit_code if departure else None,
                    signal=departure.signal if departure else None,
                    stderr=stderr,
                ) from error
            case RpcError():
                raise OpenFailedError(
                    f"{session.agent} refused: {error.description}", stderr=stderr
                ) from error
            case _:
                raise


def _left_at_start(error: QuarterdeckError) -> bool:
    return isinstance(error, OpenFailedError) and isinstance(error.__cause__, LinkError)


def _first(
    session: LinkSession,
    started: StartedAgent,
    failures: Sequence[tuple[str, QuarterdeckError]],
    *,
    is_known: bool,
) -> list[Event]:
    opening = session.opening
    events: list[Event] = []
    if is_known:
        events.append(
            SessionResumed(
                transport=session.transport or None,
                agent_session=session.agent_session,
                agent_version=started.agent_version,
            )
        )
    else:
        events.append(_opened(session, opening, started))
    for transport, error in failures:
        title = f"{session.agent} is used over {session.transport}: {transport} did not start"
        events.append(NoticePosted(title=title, severity="warning", description=str(error)))
    return events


def _opened(
    session: LinkSession, opening: DriverSessionOptions, started: StartedAgent
) -> SessionOpened:
    return SessionOpened(
        agent=session.agent,
        cwd=opening.options.cwd,
        roots=opening.options.roots,
        title=opening.title,
        transport=session.transport or None,
        agent_session=session.agent_session,
        agent_version=started.agent_version,
        model=started.model or opening.options.model,
        mode=started.mode or opening.options.agent_mode,
        parent_session=opening.parent_session,
    )


def _never_ran(error: QuarterdeckError) -> SessionEnded:
    return SessionEnded(
        how="broken",
        reason=str(error),
        exit_code=getattr(error, "exit_code", None),
        signal=getattr(error, "signal", None),
        stderr=getattr(error, "stderr", "") or None,
    )


def _most_telling(failures: Sequence[tuple[str, QuarterdeckError]]) -> QuarterdeckError:
    """The failure to raise: of one that was installed if any, with the others as notes."""
    if not failures:
        return OpenFailedError("this agent has no usable transport")
    errors = [error for _, error in failures]
    found = next(
        (e for e in errors if not isinstance(e, AgentMissingError | UnsupportedError)), errors[0]
    )
    for transport, error in failures:
        if error is not found:
            with suppress(TypeError):
                found.add_note(f"over {transport}: {error}")
    return found


async def open_session(
    agent: str | Agent,
    opening: DriverSessionOptions,
    sink: EventSink,
    *,
    gate: Gate | None = None,
    session_id: SessionId | None = None,
    is_known: bool = False,
    transport: str | None = None,
    around: CallContext | None = None,
    places: Places | None = None,
    on_terminal: "Callable[[HeadlessTerminal], None] | None" = None,
) -> LinkSession:
    """Open a session over the first transport of the agent that starts; ``close`` it.

    Over another transport than the first, the session says so in a ``Notice`` with the reason.
    ``transport`` allows one alone. ``gate``: by default one with the opening's mode and no rules.
    ``is_known``: our log has this session; it goes on. ``places``: where the user's own agents are.
    ``on_terminal``: called with the agent's terminal, if it runs in one, as soon as it does.

    Raises:
        UnknownAgentError, BadAgentFileError: and no event was written.
        UnsupportedError: no transport can do what the opening asks for, or the agent has none;
            ``UnenforceableError`` when it could not keep to the mode or a rule.
        OpenFailedError: none started; ``AgentMissingError`` when its program is not there.
    """
    if isinstance(agent, str):
        agent = await asyncio.to_thread(find_agent, agent, places)
    if opening.login is not None and transport not in (None, "acp"):
        raise UnsupportedError(agent.name, transport or "", "log in with a method of the protocol")
    gate = gate or Gate(mode=opening.mode)
    id_ = session_id or new_session_id()
    around = around or await asyncio.to_thread(_surroundings, agent.name, opening, id_)
    links = make_links(
        agent,
        transport if opening.login is None else "acp",
        guards_reading=is_reading_guarded(gate, around),
    )
    session = LinkSession(id_, agent.name, opening, sink, gate, around, on_terminal)
    environment = {**os.environ, **opening.options.variables}
    await start_session(
        session, links, is_known=is_known, hint=partial(login_hint, agent, environment)
    )
    return session


def _surroundings(agent: str, opening: DriverSessionOptions, session: SessionId) -> CallContext:
    home = {**os.environ, **opening.options.variables}.get("HOME", "")
    return CallContext(
        cwd=opening.options.cwd,
        roots=(opening.options.cwd, *opening.options.roots),
        home=home,
        project=str(find_workspace(Path(opening.options.cwd)).project),
        session=session,
        agent=agent,
    )
