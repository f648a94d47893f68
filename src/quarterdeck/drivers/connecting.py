"""Opening a session with an agent by its name: its file, its links, its gate, what surrounds it."""

import asyncio
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from quarterdeck.config.places import Places
from quarterdeck.config.workspace import find_workspace
from quarterdeck.policy.foreign import Surroundings
from quarterdeck.policy.gate import Gate
from quarterdeck.wire.ids import SessionId, new_session_id

from .catalogue import find_agent
from .description import Agent
from .driver import Opening, Sink
from .enforcement import is_reading_guarded
from .errors import Unsupported
from .hints import login_hint
from .links import links_of
from .opening import begin
from .session import DrivenSession

if TYPE_CHECKING:
    from collections.abc import Callable

    from .pty.terminal import Terminal

__all__ = ["open_session"]


async def open_session(
    agent: str | Agent,
    opening: Opening,
    sink: Sink,
    *,
    gate: Gate | None = None,
    session_id: SessionId | None = None,
    is_known: bool = False,
    transport: str | None = None,
    around: Surroundings | None = None,
    places: Places | None = None,
    on_terminal: "Callable[[Terminal], None] | None" = None,
) -> DrivenSession:
    """Open a session over the first transport of the agent that starts; ``close`` it.

    Over another transport than the first, the session says so in a ``Notice`` with the reason.
    ``transport`` allows one alone. ``gate``: by default one with the opening's mode and no rules.
    ``is_known``: our log has this session; it goes on. ``places``: where the user's own agents are.
    ``on_terminal``: told where the agent runs, if it does in a terminal, as soon as it does.

    Raises:
        UnknownAgent, BadAgentFile: and no event was written.
        Unsupported: no transport can do what the opening asks for, or the agent has none;
            ``NotHeldError`` when it could not keep to the mode or a rule.
        OpenFailed: none started; ``AgentMissing`` when its program is not there.
    """
    if isinstance(agent, str):
        agent = await asyncio.to_thread(find_agent, agent, places)
    if opening.login is not None and transport not in (None, "acp"):
        raise Unsupported(agent.name, transport or "", "log in by a method of the protocol")
    gate = gate or Gate(mode=opening.mode)
    id_ = session_id or new_session_id()
    around = around or await asyncio.to_thread(_surroundings, agent.name, opening, id_)
    links = links_of(
        agent,
        transport if opening.login is None else "acp",
        guards_reading=is_reading_guarded(gate, around),
    )
    session = DrivenSession(id_, agent.name, opening, sink, gate, around, on_terminal)
    environment = {**os.environ, **opening.environment}
    await begin(session, links, is_known=is_known, hint=partial(login_hint, agent, environment))
    return session


def _surroundings(agent: str, opening: Opening, session: SessionId) -> Surroundings:
    home = {**os.environ, **opening.environment}.get("HOME", "")
    return Surroundings(
        cwd=opening.cwd,
        roots=(opening.cwd, *opening.roots),
        home=home,
        project=str(find_workspace(Path(opening.cwd)).root),
        session=session,
        agent=agent,
    )
