"""Opening a session over the first transport that starts, and saying so if it is not the first."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from quarterdeck.wire.errors import LinkError, QuarterdeckError, RpcError
from quarterdeck.wire.events import Event, Notice, SessionEnded, SessionOpened, SessionResumed

from .driver import Opening
from .enforcement import unheld
from .errors import AgentMissing, NotHeldError, OpenFailed, StartTimeout, Unsupported
from .link import Link, Started
from .links import SecondStart
from .session import DrivenSession

__all__ = ["begin"]


async def begin(
    session: DrivenSession,
    links: Iterable[Callable[[], Link]],
    *,
    is_known: bool = False,
    hint: Callable[[QuarterdeckError], str | None] | None = None,
) -> None:
    """Start the session over the first of ``links`` that starts.

    ``is_known``: our log has this session; it goes on. ``hint``: what to do about a failure, a
    line for the person; it may block. When none starts, the session is written
    down as opened and broken, and the failure that says most is raised.

    Raises:
        OpenFailed, Unsupported: why it did not start.
    """
    failures: list[tuple[str, QuarterdeckError]] = []
    for make in links:
        if isinstance(make, SecondStart):
            if not _left_at_start(failures[-1][1]):
                continue
            failures.pop()
        link = make()
        session.attach(link)
        try:
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
            # Nobody will have the session, so nobody else can end what has started.
            await asyncio.shield(asyncio.ensure_future(link.end()))
            raise
        return
    error = _most_telling(failures)
    if hint is not None and isinstance(error, OpenFailed):
        error.add_hint(await asyncio.to_thread(hint, error))
    first = _first(session, Started(), (), is_known=is_known)
    await session.fail(first, _never_ran(error))
    raise error


def _hold(session: DrivenSession, link: Link) -> list[Event]:
    """Make sure that the agent can be held to mode and rules; what is to be told if it cannot.

    Raises:
        NotHeldError: it cannot, and the person has not said to go on all the same.
    """
    opening, around = session.opening, session.around
    reasons = unheld(link.enforcement(opening), opening, session.gate, around)
    if not reasons:
        return []
    if around.on_unheld == "warn":
        title = f"{session.agent} over {link.transport} cannot be held to all that was asked for"
        return [Notice(title=title, severity="warning", description="; ".join(reasons))]
    raise NotHeldError(
        session.agent,
        link.transport,
        f"be held to {'; '.join(reasons)}",
        "Use another agent or transport, or another mode, or take the rule out; with the setting "
        'permissions.unheld = "warn" it starts all the same and what it does is told afterwards.',
    )


async def _start(session: DrivenSession, link: Link) -> Started:
    """Start one link, within its limit; one that fails is ended before this returns."""
    limit = session.opening.start_limit
    try:
        async with asyncio.timeout(limit):
            return await link.start(session)
    except BaseException as error:
        departure = await asyncio.shield(asyncio.ensure_future(link.end()))
        stderr = departure.stderr if departure is not None else ""
        match error:
            case TimeoutError():
                told = f"{session.agent} did not answer within {limit:g} s over {link.transport}"
                raise StartTimeout(told, stderr=stderr) from error
            case LinkError():
                raise OpenFailed(
                    f"{session.agent} left while it was starting over {link.transport}: {error}",
                    exit_code=departure.exit_code if departure else None,
                    signal=departure.signal if departure else None,
                    stderr=stderr,
                ) from error
            case RpcError():
                raise OpenFailed(f"{session.agent} refused: {error.told}", stderr=stderr) from error
            case _:
                raise


def _left_at_start(error: QuarterdeckError) -> bool:
    return isinstance(error, OpenFailed) and isinstance(error.__cause__, LinkError)


def _first(
    session: DrivenSession,
    started: Started,
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
        events.append(Notice(title=title, severity="warning", description=str(error)))
    return events


def _opened(session: DrivenSession, opening: Opening, started: Started) -> SessionOpened:
    return SessionOpened(
        agent=session.agent,
        cwd=opening.cwd,
        roots=opening.roots,
        title=opening.title,
        transport=session.transport or None,
        agent_session=session.agent_session,
        agent_version=started.agent_version,
        model=started.model or opening.model,
        mode=started.mode or opening.agent_mode,
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
        return OpenFailed("there is no way to reach this agent")
    errors = [error for _, error in failures]
    found = next((e for e in errors if not isinstance(e, AgentMissing | Unsupported)), errors[0])
    for transport, error in failures:
        if error is not found:
            with suppress(TypeError):
                found.add_note(f"over {transport}: {error}")
    return found
