"""``wait_for``: until children have results, or need something that must be told first."""

import asyncio
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from quarterdeck.agent.tools.tool import Arguments
from quarterdeck.wire.ids import SessionId

from ..roster import Request
from .mail import collect
from .notices import is_done, is_notice
from .seat import Seat
from .telling import facts, line
from .tool import Answered, failed
from .transcript import last_words

__all__ = ["WaitForArguments", "wait_for"]

Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=3600)]
_USUAL = 600.0
_LAST_WORDS = 4_000


class WaitForArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``wait_for``."""

    agents: Annotated[
        tuple[str, ...], Meta(max_length=64, description="Names or ids; default: all of yours.")
    ] = ()
    until: Annotated[
        Literal["any", "all"], Meta(description="Return when one of them is done, or all are.")
    ] = "all"
    timeout: Annotated[
        Seconds | None, Meta(description="Seconds; default: as long as possible.")
    ] = None


async def wait_for(seat: Seat, a: WaitForArguments) -> Answered:
    """Wait; returns early when a child asks this agent, or newly needs a person.

    A child that waits for this agent's answer always ends the waiting, so that two agents never
    wait for each other.
    """
    ids = await _chosen(seat, a.agents)
    if not ids:
        return failed("You have no agents to wait for; start some with spawn_agent.")
    current, enough = seat.bridge.current, any if a.until == "any" else all

    def is_over() -> bool:
        entries = [current.get(id_) for id_ in ids]
        return (
            enough(is_done(one) for one in entries)
            or bool(_questions(seat, ids))
            or bool(_news(seat, ids))
        )

    with seat.bridge.notices.awaited(ids):
        try:
            async with asyncio.timeout(seat.seconds(a.timeout, _USUAL)):
                await current.until(is_over)
        except TimeoutError:
            pass  # where they stand by now is the answer
        return await _report(seat, ids)


async def _chosen(seat: Seat, names: tuple[str, ...]) -> list[SessionId]:
    if names:
        found = [(await seat.own(name)).session for name in names]
        return list(dict.fromkeys(found))
    return [info.session for info in await seat.fleet.agents(parent=seat.session)]


def _questions(seat: Seat, ids: list[SessionId]) -> list[Request]:
    return [one for one in seat.bridge.asking.open_to(seat.session) if one.session in ids]


def _news(seat: Seat, ids: list[SessionId]) -> list[str]:
    """What these need a person for and this agent has not been told yet."""
    found: list[str] = []
    for id_ in ids:
        standing = seat.bridge.current.get(id_).standing
        found += (standing.permissions | standing.questions) - seat.told
    return found


async def _report(seat: Seat, ids: list[SessionId]) -> Answered:
    seat.told.update(_news(seat, ids))
    asks = {one.session: one for one in _questions(seat, ids)}
    letters = await collect(seat, ids)
    blocks: list[str] = []
    data: list[dict[str, object]] = []
    for id_ in ids:
        info = await seat.fleet.agent(id_)
        told, known = line(info, asks.get(id_)), facts(info)
        if is_done(seat.bridge.current.get(id_)):
            words = await last_words(seat.fleet, id_, _LAST_WORDS)
            told += f"\n{words}" if words else ""
            known["last_words"] = words
            seat.bridge.notices.known(seat.bridge.current.get(id_))
        if (request := asks.get(id_)) is not None:
            known["question"] = request.request
        blocks.append(told)
        data.append(known)
    # A question's letter says what its line says already, and so does a notice.
    questions = tuple(f'request="{one.request}"' for one in asks.values())
    notes = [one.words for one in letters if not any(q in one.words for q in questions)]
    notes = [words for words in notes if not is_notice(words)]
    blocks += notes
    blocks += [_next(seat, ids, asked=bool(asks))]
    return Answered(
        text="\n\n".join(filter(None, blocks)), data={"agents": data, "messages": notes}
    )


def _next(seat: Seat, ids: list[SessionId], *, asked: bool) -> str:
    """What to do now."""
    if asked:
        return "Answer with the tool answer, then call wait_for again."
    entries = [seat.bridge.current.get(id_) for id_ in ids]
    if all(is_done(one) for one in entries):
        return ""
    if any(one.standing.needs_person for one in entries):
        return "A person was told; you cannot permit it yourself. Go on, or call wait_for again."
    return "Not all are done; call wait_for again when you need the others."
