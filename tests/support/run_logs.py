"""Logs of single sessions, as ``quarterdeck run`` and editors leave them behind."""

from pathlib import Path

from quarterdeck.agent.session_store import SessionStore
from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    Event,
    MessageChunk,
    Prompted,
    SessionEnded,
    SessionOpened,
    SessionResumed,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.ids import SessionId, TurnId, new_message_id, new_session_id, new_turn_id

__all__ = ["add_turn", "own_log", "write_run"]


def own_log(state: Path, session: str) -> Path:
    """Where the log of a session is."""
    return state / "sessions" / f"{session}.db"


async def write_run(
    state: Path,
    *answers: str,
    cwd: str = "/",
    agent: str = "claude",
    title: str | None = None,
    agent_session: str | None = "theirs",
    age: int = 0,
    is_ended: bool = True,
    id_: SessionId | None = None,
) -> SessionId:
    """Write the log of a session with a turn for each answer; ``age`` in seconds."""
    id_ = id_ or new_session_id()
    time = read_wall_clock() - age * 1_000_000
    opened = SessionOpened(agent=agent, cwd=cwd, title=title, agent_session=agent_session)
    events: list[tuple[TurnId | None, Event]] = [(None, opened)]
    for answer in answers:
        events += _turn(answer)
    if is_ended:
        events.append((None, SessionEnded(how="closed")))
    async with SessionStore(state / "sessions").create(id_) as journal:
        for turn, event in events:
            await journal.append(id_, event, turn=turn, time=time)
    return id_


async def add_turn(state: Path, session: SessionId, answer: str) -> None:
    """Go on with a session that has ended."""
    async with await SessionStore(state / "sessions").open(session) as journal:
        for turn, event in [
            (None, SessionResumed()),
            *_turn(answer),
            (None, SessionEnded(how="closed")),
        ]:
            await journal.append(session, event, turn=turn)


def _turn(answer: str) -> list[tuple[TurnId | None, Event]]:
    turn = new_turn_id()
    return [
        (turn, TurnStarted()),
        (turn, Prompted(content=(text(f"about {answer}"),), message=new_message_id())),
        (turn, MessageChunk(content=text(answer))),
        (turn, TurnEnded(stop="end_turn")),
    ]
