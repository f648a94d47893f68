"""The tools of an agent that leads: start others, look after them, answer them."""

import asyncio
from contextlib import suppress
from typing import Annotated, TypeAlias

from msgspec import Meta

from quarterdeck.agent.tools.tool import Arguments
from quarterdeck.policy.modes import MODES
from quarterdeck.wire.content import text
from quarterdeck.wire.ids import RequestId

from ..errors import NotYours
from ..port import AgentInfo, Spawn
from ..scope import check_room, narrowed
from .mail import deliver
from .seat import Seat
from .telling import facts, line
from .tool import Answered, FleetTool, failed
from .transcript import read_page
from .waiting import WaitForArguments, wait_for

__all__ = ["LEAD_TOOLS"]

Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=80)]
Agent: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=80, description="A name or id from list_agents.")
]
Words: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200_000)]
_PAGE = 6_000
_NOTIFIED = "you are prompted when it is done, or call wait_for."
_NOT_NOTIFIED = (
    "call wait_for to get its result, after you have started everything that can run beside it."
)
_COMING = 5.0
"""Seconds within which a question is open whose prompt is there already."""


class SpawnArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``spawn_agent``."""

    task: Annotated[
        Words, Meta(description="All that it needs to know: it has not seen your conversation.")
    ]
    name: Annotated[
        Name | None,
        Meta(description="What you will call it: letters, digits, '-', '_', '.'; 40 at most."),
    ] = None
    agent: Annotated[
        str | None,
        Meta(description="Whose make: native, claude, codex, opencode, gemini …; default: yours."),
    ] = None
    cwd: Annotated[
        str | None,
        Meta(description="An absolute directory below your own; default: your own."),
    ] = None
    model: Annotated[
        str | None, Meta(description="A model by the agent's own name of it; default: its usual.")
    ] = None
    mode: Annotated[
        str | None,
        Meta(description=f"No wider than your own, which is the default: {', '.join(MODES)}."),
    ] = None
    instructions: Annotated[
        str | None, Meta(description="Added to its system prompt; not every make takes this.")
    ] = None
    allow: Annotated[
        tuple[str, ...], Meta(description="Allow rules of your own that shall hold for it too.")
    ] = ()
    deny: Annotated[
        tuple[str, ...], Meta(description="Rules for what it must not do, e.g. 'bash(git push)'.")
    ] = ()
    lead: Annotated[bool, Meta(description="Whether it may start agents of its own.")] = False
    notify: Annotated[
        bool,
        Meta(description="Prompt you whenever it is done, unless you wait for it by wait_for."),
    ] = False


class ListArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``list_agents``."""

    archived: Annotated[bool, Meta(description="Also those that are put away.")] = False


class ReadArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``read_transcript``."""

    agent: Agent
    cursor: Annotated[
        str | None, Meta(description="From an earlier call; default: the end of the transcript.")
    ] = None
    characters: Annotated[
        int, Meta(ge=500, le=50_000, description="About how long the page may be.")
    ] = _PAGE


class SendArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``send_to_agent``."""

    agent: Agent
    message: Words


class AgentArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of a tool that takes an agent alone."""

    agent: Agent


class InterruptArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``interrupt_agent``."""

    agent: Agent
    drop_queue: Annotated[bool, Meta(description="Also drop the messages that wait for it.")] = (
        False
    )


class KillArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``kill_agent``."""

    agent: Agent
    reason: Annotated[str | None, Meta(description="For the log.")] = None


class AnswerArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``answer``."""

    request: Annotated[str, Meta(min_length=1, max_length=80, description="The question's id.")]
    answer: Words
    decline: Annotated[bool, Meta(description="You cannot answer; say why in the answer.")] = False


async def _spawn(seat: Seat, a: SpawnArguments) -> Answered:
    me = seat.entry
    wish = Spawn(
        agent=a.agent or me.wish.agent,
        cwd=a.cwd or me.wish.cwd,
        roots=me.wish.roots
        if a.cwd is None and (a.agent or me.wish.agent) == me.wish.agent
        else (),
        name=a.name,
        prompt=a.task,
        model=a.model or _same_model(me.wish.agent, me.model, a.agent),
        mode=a.mode,
        system_prompt=a.instructions,
        allow=a.allow,
        deny=a.deny,
        parent=seat.session,
        lead=a.lead,
    )
    wish = await asyncio.to_thread(narrowed, wish, me.wish, me.mode)
    async with seat.bridge.starting:
        check_room(await seat.fleet.agents(archived=True), seat.session, seat.bridge.reach)
        info = await seat.fleet.spawn(wish)
    if a.notify:
        seat.bridge.notices.watch(seat, info.session)
    how = _NOTIFIED if a.notify else _NOT_NOTIFIED
    told = f"Started {info.name} ({info.agent}, mode {info.mode}). It works on its own now; {how}"
    return Answered(text=told, data=facts(info))


def _same_model(own: str, model: str | None, wanted: str | None) -> str | None:
    """A child of our own kind uses the same model: others would not know its name."""
    return model if wanted in (None, own) and own == "native" else None


async def _list(seat: Seat, a: ListArguments) -> Answered:
    mine = await seat.fleet.agents(archived=a.archived, parent=seat.session)
    asks = {one.session: one for one in seat.bridge.asking.open_to(seat.session)}
    lines = [line(info, asks.get(info.session)) for info in mine]
    told = "\n".join(lines) if lines else "You have started no agents."
    return Answered(text=told, data={"agents": [facts(info) for info in mine]})


async def _read(seat: Seat, a: ReadArguments) -> Answered:
    info = await seat.own(a.agent)
    page = await read_page(seat.fleet, info.session, a.cursor, a.characters)
    ends = [f"state: {info.state}"]
    if page.earlier is not None:
        ends.append(f'earlier: cursor "{page.earlier}"')
    ends.append(f'{"more" if page.has_more else "what comes next"}: cursor "{page.later}"')
    told = f"{page.text or '(nothing here)'}\n\n[{'; '.join(ends)}]"
    data = {
        "text": page.text,
        "earlier": page.earlier,
        "later": page.later,
        "has_more": page.has_more,
    }
    return Answered(text=told, data=data)


async def _send(seat: Seat, a: SendArguments) -> Answered:
    info = await seat.own(a.agent)
    await seat.fleet.send(info.session, (text(a.message),), origin="agent", sender=seat.session)
    asked = [q for q in seat.bridge.asking.open_to(seat.session) if q.session == info.session]
    if asked:
        hint = f"It waits for your answer to {asked[0].request} first: call answer."
        return Answered(text=f"{info.name} gets this when its turn is over. {hint}")
    when = "now" if info.state in ("idle", "interrupted", "failed") else "when its turn is over"
    return Answered(text=f"{info.name} gets this {when}.")


async def _interrupt(seat: Seat, a: InterruptArguments) -> Answered:
    info = await seat.own(a.agent)
    with seat.bridge.notices.awaited((info.session,)):
        await seat.fleet.interrupt(info.session, keep_queue=not a.drop_queue)
        return await _now(seat, info)


async def _kill(seat: Seat, a: KillArguments) -> Answered:
    info = await seat.own(a.agent)
    reason = a.reason or "ended by the agent that started it"
    with seat.bridge.notices.awaited((info.session,)):
        await seat.fleet.kill(info.session, reason=reason)
        return await _now(seat, info)


async def _archive(seat: Seat, a: AgentArguments) -> Answered:
    info = await seat.own(a.agent)
    with seat.bridge.notices.awaited((info.session,)):
        await seat.fleet.archive(info.session)
        return await _now(seat, info)


async def _now(seat: Seat, before: AgentInfo) -> Answered:
    info = await seat.fleet.agent(before.session)
    seat.bridge.notices.known(seat.bridge.current.get(before.session))
    return Answered(text=line(info, None), data=facts(info))


async def _answer(seat: Seat, a: AnswerArguments) -> Answered:
    request = RequestId(a.request)
    asking = seat.bridge.asking
    if request in seat.bridge.coming:
        await _opened(seat, request)
    if not any(one.request == request for one in asking.open_to(seat.session)):
        return await _answer_late(seat, request, a.answer)
    action, content = "decline" if a.decline else "accept", {"answer": a.answer}
    if not await seat.fleet.reply(request, action, by=seat.session, content=content):
        return await _answer_late(seat, request, a.answer)
    return Answered(text="Answered; it goes on.")


async def _opened(seat: Seat, request: RequestId) -> None:
    """Wait for a question whose prompt was here before it was open."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_COMING):
            await seat.bridge.current.until(lambda: seat.bridge.asking.is_open(request))


async def _answer_late(seat: Seat, request: RequestId, words: str) -> Answered:
    """An answer to a question that is closed is not lost: it becomes a message."""
    child = seat.bridge.late.get(request)
    if child is None:
        return failed(f"No question {request!r} waits for you; list_agents shows those that do.")
    try:
        info = await seat.own(child)
    except NotYours:
        return failed(f"No question {request!r} waits for you; list_agents shows those that do.")
    await deliver(seat, child, "answer", words, request=request)
    return Answered(text=f"{info.name} waits no longer for this; it gets it as a message.")


LEAD_TOOLS: tuple[FleetTool[Seat], ...] = (
    FleetTool(name="spawn_agent", arguments=SpawnArguments, run=_spawn),
    FleetTool(name="list_agents", arguments=ListArguments, run=_list),
    FleetTool(name="wait_for", arguments=WaitForArguments, run=wait_for),
    FleetTool(name="read_transcript", arguments=ReadArguments, run=_read),
    FleetTool(name="send_to_agent", arguments=SendArguments, run=_send),
    FleetTool(name="answer", arguments=AnswerArguments, run=_answer),
    FleetTool(name="interrupt_agent", arguments=InterruptArguments, run=_interrupt),
    FleetTool(name="kill_agent", arguments=KillArguments, run=_kill),
    FleetTool(name="archive_agent", arguments=AgentArguments, run=_archive),
)
"""In the order in which models see them. A tool for diffs or merges is one more row."""
