"""The tools of an agent that leads: start others, watch them, wait for them, answer them."""

import asyncio
from contextlib import suppress
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from quarterdeck.agent.tools.tool import Arguments
from quarterdeck.policy.modes import MODES
from quarterdeck.wire.budgets import BudgetLimit, parse_limit
from quarterdeck.wire.content import text
from quarterdeck.wire.ids import RequestId, SessionId
from quarterdeck.wire.session_options import SessionLimits, SessionOptions
from quarterdeck.wire.worktrees import WorktreeOptions

from ..api import AgentInfo, SpawnOptions
from ..errors import InvalidOptionsError, NotAChildError
from ..permissions.delegation import check_agent_limits, narrow_options
from ..projections import OpenRequest
from .agent_text import describe_agent, list_agent_facts
from .tool import FleetTool, FleetToolResult, failed_result
from .tool_context import FleetToolContext, collect_messages, deliver_message, is_done, is_notice
from .transcript import last_words, read_page

__all__ = ["LEAD_TOOLS", "WaitForArguments", "wait_for"]

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
        Seconds | None, Meta(description="Timeout in seconds; default: the maximum.")
    ] = None


async def wait_for(seat: FleetToolContext, a: WaitForArguments) -> FleetToolResult:
    """Wait; returns early when a child asks this agent, or newly needs a person.

    A child that waits for this agent's answer always ends the waiting, so that two agents never
    wait for each other.
    """
    ids = await _chosen(seat, a.agents)
    if not ids:
        return failed_result("You have no agents to wait for; start some with spawn_agent.")
    current, enough = seat.bridge.current, any if a.until == "any" else all

    def is_over() -> bool:
        entries = [current.get(id_) for id_ in ids]
        return (
            enough(is_done(one) for one in entries)
            or bool(_questions(seat, ids))
            or bool(_news(seat, ids))
        )

    with seat.bridge.notices.suppress_notices(ids):
        try:
            async with asyncio.timeout(seat.seconds(a.timeout, _USUAL)):
                await current.until(is_over)
        except TimeoutError:
            pass  # where they stand by now is the answer
        return await _report(seat, ids)


async def _chosen(seat: FleetToolContext, names: tuple[str, ...]) -> list[SessionId]:
    if names:
        found = [(await seat.own(name)).session for name in names]
        return list(dict.fromkeys(found))
    return [info.session for info in await seat.fleet.agents(parent=seat.session)]


def _questions(seat: FleetToolContext, ids: list[SessionId]) -> list[OpenRequest]:
    return [one for one in seat.bridge.asking.open_to(seat.session) if one.session in ids]


def _news(seat: FleetToolContext, ids: list[SessionId]) -> list[str]:
    """What these need a person for and this agent has not been sent yet."""
    found: list[str] = []
    for id_ in ids:
        status = seat.bridge.current.get(id_).status
        found += (status.permissions | status.questions) - seat.reported
    return found


async def _report(seat: FleetToolContext, ids: list[SessionId]) -> FleetToolResult:
    seat.reported.update(_news(seat, ids))
    asks = {one.session: one for one in _questions(seat, ids)}
    letters = await collect_messages(seat, ids)
    blocks: list[str] = []
    data: list[dict[str, object]] = []
    for id_ in ids:
        info = await seat.fleet.agent(id_)
        block, known = describe_agent(info, asks.get(id_)), list_agent_facts(info)
        if is_done(seat.bridge.current.get(id_)):
            words = await last_words(seat.fleet, id_, _LAST_WORDS)
            block += f"\n{words}" if words else ""
            known["last_words"] = words
            seat.bridge.notices.known(seat.bridge.current.get(id_))
        if (request := asks.get(id_)) is not None:
            known["question"] = request.request
        blocks.append(block)
        data.append(known)
    # A question's letter says what its line says already, and so does a notice.
    questions = tuple(f'request="{one.request}"' for one in asks.values())
    notes = [one.words for one in letters if not any(q in one.words for q in questions)]
    notes = [words for words in notes if not is_notice(words)]
    blocks += notes
    blocks += [_next(seat, ids, asked=bool(asks))]
    return FleetToolResult(
        text="\n\n".join(filter(None, blocks)), data={"agents": data, "messages": notes}
    )


def _next(seat: FleetToolContext, ids: list[SessionId], *, asked: bool) -> str:
    """What to do now."""
    if asked:
        return "Answer with the tool answer, then call wait_for again."
    entries = [seat.bridge.current.get(id_) for id_ in ids]
    if all(is_done(one) for one in entries):
        return ""
    if any(one.status.needs_person for one in entries):
        return (
            "A person has been notified; you cannot grant it yourself. Continue, or call wait_for "
            "again."
        )
    return "Not all are done; call wait_for again when you need the others."


Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=80)]
Agent: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=80, description="A name or id from list_agents.")
]
Words: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200_000)]
_Positive: TypeAlias = Annotated[float, Meta(gt=0)]
_Count: TypeAlias = Annotated[int, Meta(ge=1)]
_PAGE = 6_000
_NOTIFIED = "you are prompted when it is done, or call wait_for."
_NOT_NOTIFIED = (
    "call wait_for to get its result, after you have started everything that can run in parallel."
)
_COMING = 5.0
"""Seconds within which a question is open whose prompt is there already."""


class SpawnArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``spawn_agent``."""

    task: Annotated[
        Words,
        Meta(description=("Everything that it needs to know: it has not seen your conversation.")),
    ]
    name: Annotated[
        Name | None,
        Meta(description="Its name: letters, digits, '-', '_', '.'; at most 40."),
    ] = None
    agent: Annotated[
        str | None,
        Meta(
            description=(
                "Which agent: native, claude, codex, opencode, gemini …; default: the same as you."
            )
        ),
    ] = None
    cwd: Annotated[
        str | None,
        Meta(description="An absolute path inside your directory; default: your directory."),
    ] = None
    worktree: Annotated[
        bool | None,
        Meta(
            description=(
                "Whether it works in a git worktree and on a branch of its own, so that agents do "
                "not overwrite each other; default: what the project's settings say."
            )
        ),
    ] = None
    base: Annotated[
        str | None,
        Meta(description="With worktree: the branch or commit to start from; default: HEAD."),
    ] = None
    model: Annotated[
        str | None,
        Meta(
            description=("A model, by the agent's own name for it; default: the agent's default.")
        ),
    ] = None
    mode: Annotated[
        str | None,
        Meta(description=f"No wider than your own, which is the default: {', '.join(MODES)}."),
    ] = None
    instructions: Annotated[
        str | None, Meta(description="Added to its system prompt; not every agent supports this.")
    ] = None
    allow: Annotated[
        tuple[str, ...], Meta(description="Allow rules of yours that also apply to it.")
    ] = ()
    deny: Annotated[
        tuple[str, ...], Meta(description="Rules for what it must not do, e.g. 'bash(git push)'.")
    ] = ()
    roots: Annotated[
        tuple[str, ...], Meta(description="Further directories inside yours, absolute.")
    ] = ()
    transport: Annotated[
        str | None, Meta(description="acp, pipe, daemon or pty; default: the first that starts.")
    ] = None
    effort: Annotated[
        str | None,
        Meta(description="How much it thinks: off, low, medium or high; native only."),
    ] = None
    agent_mode: Annotated[
        str | None,
        Meta(description="A mode of the agent's own; only the one that you were started in."),
    ] = None
    tools: Annotated[tuple[str, ...] | None, Meta(description="Only these tools; native only.")] = (
        None
    )
    denied_tools: Annotated[
        tuple[str, ...], Meta(description="None of these tools; native only.")
    ] = ()
    budget: Annotated[
        tuple[str, ...],
        Meta(
            description=(
                "What it may use with all that it starts, such as 5usd, 200ktok or 30min; your own "
                "budget counts as well."
            )
        ),
    ] = ()
    max_cost: Annotated[
        _Positive | None, Meta(description="Ends a turn at this cost in USD; native only.")
    ] = None
    max_tokens: Annotated[
        _Count | None, Meta(description="Ends a turn at this many tokens; native only.")
    ] = None
    max_calls: Annotated[
        _Count | None, Meta(description="Ends a turn after these model calls; native only.")
    ] = None
    max_seconds: Annotated[_Positive | None, Meta(description="Ends a turn after this time.")] = (
        None
    )
    lead: Annotated[bool, Meta(description="Whether it may start agents of its own.")] = False
    notify: Annotated[
        bool,
        Meta(description="Prompt you whenever it is done, unless you wait for it by wait_for."),
    ] = False


class ListArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``list_agents``."""

    archived: Annotated[bool, Meta(description="Also archived ones.")] = False


class ReadTranscriptArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``read_transcript``."""

    agent: Agent
    cursor: Annotated[
        str | None, Meta(description="From an earlier call; default: the end of the transcript.")
    ] = None
    characters: Annotated[
        int, Meta(ge=500, le=50_000, description="Approximate length of the page.")
    ] = _PAGE


class SendArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``send_to_agent``."""

    agent: Agent
    message: Words
    steer: Annotated[
        bool, Meta(description="Give it to the running turn instead of queueing it.")
    ] = False


class AgentArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of a tool that takes an agent alone."""

    agent: Agent


class InterruptArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``interrupt_agent``."""

    agent: Agent
    drop_queue: Annotated[bool, Meta(description="Also drop the messages queued for it.")] = False


class KillArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``kill_agent``."""

    agent: Agent
    reason: Annotated[str | None, Meta(description="For the log.")] = None


class AnswerArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``answer``."""

    request: Annotated[str, Meta(min_length=1, max_length=80, description="The question's id.")]
    answer: Words
    decline: Annotated[bool, Meta(description="You cannot answer; say why in the answer.")] = False


def _read_budget(texts: tuple[str, ...]) -> tuple[BudgetLimit, ...]:
    try:
        return tuple(map(parse_limit, texts))
    except ValueError as error:
        raise InvalidOptionsError(f"budget: {error}") from None


async def _spawn(seat: FleetToolContext, a: SpawnArguments) -> FleetToolResult:
    me = seat.entry
    options = SpawnOptions(
        options=_child_options(me.spawn.options, me.model, a),
        name=a.name,
        prompt=a.task,
        parent=seat.session,
        lead=a.lead,
        budget=_read_budget(a.budget),
    )
    options = await asyncio.to_thread(narrow_options, options, me.spawn, me.mode)
    async with seat.bridge.starting:
        check_agent_limits(await seat.fleet.agents(archived=True), seat.session, seat.bridge.reach)
        info = await seat.fleet.spawn(options)
    if a.notify:
        seat.bridge.notices.watch(seat, info.session)
    how = _NOTIFIED if a.notify else _NOT_NOTIFIED
    words = f"Started {info.name} ({info.agent}, mode {info.mode}). It is running; {how}"
    return FleetToolResult(text=words, data=list_agent_facts(info))


def _child_options(own: SessionOptions, model: str | None, a: SpawnArguments) -> SessionOptions:
    """What is asked for; the rest as the asking agent has it, where it means the same."""
    agent = a.agent or own.agent
    limits = SessionLimits(
        model_calls=a.max_calls, tokens=a.max_tokens, cost=a.max_cost, seconds=a.max_seconds
    )
    return SessionOptions(
        agent=agent,
        cwd=a.cwd or own.cwd,
        roots=a.roots or (own.roots if a.cwd is None and agent == own.agent else ()),
        worktree=_child_worktree(a),
        transport=a.transport,
        model=a.model or _same_model(own.agent, model, a.agent),
        effort=a.effort,
        mode=a.mode,
        agent_mode=a.agent_mode,
        allow=a.allow,
        deny=a.deny,
        tools=a.tools,
        denied_tools=a.denied_tools,
        system_prompt=a.instructions,
        limits=limits,
    )


def _child_worktree(a: SpawnArguments) -> WorktreeOptions | None:
    if a.worktree is None and a.base is None:
        return None
    if a.worktree is False and a.base is not None:
        raise InvalidOptionsError("an agent without a worktree has no base; omit one of the two")
    return WorktreeOptions(base=a.base, is_off=a.worktree is False)


def _same_model(own: str, model: str | None, wanted: str | None) -> str | None:
    """A child of our own kind uses the same model: others would not know its name."""
    return model if wanted in (None, own) and own == "native" else None


async def _list(seat: FleetToolContext, a: ListArguments) -> FleetToolResult:
    mine = await seat.fleet.agents(archived=a.archived, parent=seat.session)
    asks = {one.session: one for one in seat.bridge.asking.open_to(seat.session)}
    lines = [describe_agent(info, asks.get(info.session)) for info in mine]
    words = "\n".join(lines) if lines else "You have started no agents."
    return FleetToolResult(text=words, data={"agents": [list_agent_facts(info) for info in mine]})


async def _read(seat: FleetToolContext, a: ReadTranscriptArguments) -> FleetToolResult:
    info = await seat.own(a.agent)
    page = await read_page(seat.fleet, info.session, a.cursor, a.characters)
    ends = [f"state: {info.state}"]
    if page.earlier is not None:
        ends.append(f'earlier: cursor "{page.earlier}"')
    ends.append(f'{"more" if page.has_more else "what comes next"}: cursor "{page.later}"')
    words = f"{page.text or '(nothing here)'}\n\n[{'; '.join(ends)}]"
    data = {
        "text": page.text,
        "earlier": page.earlier,
        "later": page.later,
        "has_more": page.has_more,
    }
    return FleetToolResult(text=words, data=data)


async def _send(seat: FleetToolContext, a: SendArguments) -> FleetToolResult:
    info = await seat.own(a.agent)
    content = (text(a.message),)
    if a.steer:
        sent = await seat.fleet.steer(info.session, content, origin="agent", sender=seat.session)
        if sent.steered:
            return FleetToolResult(text=f"{info.name} gets this at its next step.")
    else:
        await seat.fleet.send(info.session, content, origin="agent", sender=seat.session)
    asked = [q for q in seat.bridge.asking.open_to(seat.session) if q.session == info.session]
    if asked:
        hint = f"It is waiting for your answer to {asked[0].request}: call answer first."
        return FleetToolResult(text=f"{info.name} gets this when its turn ends. {hint}")
    if not info.is_live and info.state != "starting":
        return FleetToolResult(text=f"{info.name} had ended; it is resumed and gets this.")
    when = "now" if info.state in ("idle", "interrupted", "failed") else "when its turn ends"
    return FleetToolResult(text=f"{info.name} gets this {when}.")


async def _interrupt(seat: FleetToolContext, a: InterruptArguments) -> FleetToolResult:
    info = await seat.own(a.agent)
    with seat.bridge.notices.suppress_notices((info.session,)):
        await seat.fleet.interrupt(info.session, keep_queue=not a.drop_queue)
        return await _now(seat, info)


async def _kill(seat: FleetToolContext, a: KillArguments) -> FleetToolResult:
    info = await seat.own(a.agent)
    reason = a.reason or "ended by the agent that started it"
    with seat.bridge.notices.suppress_notices((info.session,)):
        await seat.fleet.kill(info.session, reason=reason)
        return await _now(seat, info)


async def _archive(seat: FleetToolContext, a: AgentArguments) -> FleetToolResult:
    info = await seat.own(a.agent)
    with seat.bridge.notices.suppress_notices((info.session,)):
        await seat.fleet.archive(info.session)
        return await _now(seat, info)


async def _now(seat: FleetToolContext, before: AgentInfo) -> FleetToolResult:
    info = await seat.fleet.agent(before.session)
    seat.bridge.notices.known(seat.bridge.current.get(before.session))
    return FleetToolResult(text=describe_agent(info, None), data=list_agent_facts(info))


async def _answer(seat: FleetToolContext, a: AnswerArguments) -> FleetToolResult:
    request = RequestId(a.request)
    asking = seat.bridge.asking
    if request in seat.bridge.coming:
        await _opened(seat, request)
    if not any(one.request == request for one in asking.open_to(seat.session)):
        return await _answer_late(seat, request, a.answer)
    action, content = "decline" if a.decline else "accept", {"answer": a.answer}
    if not await seat.fleet.reply(request, action, by=seat.session, content=content):
        return await _answer_late(seat, request, a.answer)
    return FleetToolResult(text="Answered; it continues.")


async def _opened(seat: FleetToolContext, request: RequestId) -> None:
    """Wait for a question whose prompt was here before it was open."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_COMING):
            await seat.bridge.current.until(lambda: seat.bridge.asking.is_open(request))


async def _answer_late(seat: FleetToolContext, request: RequestId, words: str) -> FleetToolResult:
    """An answer to a question that is closed is not lost: it becomes a message."""
    child = seat.bridge.late.get(request)
    if child is None:
        return failed_result(
            f"No question {request!r} is waiting for you; list_agents shows open questions."
        )
    try:
        info = await seat.own(child)
    except NotAChildError:
        return failed_result(
            f"No question {request!r} is waiting for you; list_agents shows open questions."
        )
    await deliver_message(seat, child, "answer", words, request=request)
    return FleetToolResult(
        text=(f"{info.name} is no longer waiting for this; it gets it as a message.")
    )


LEAD_TOOLS: tuple[FleetTool[FleetToolContext], ...] = (
    FleetTool(name="spawn_agent", arguments=SpawnArguments, run=_spawn),
    FleetTool(name="list_agents", arguments=ListArguments, run=_list),
    FleetTool(name="wait_for", arguments=WaitForArguments, run=wait_for),
    FleetTool(name="read_transcript", arguments=ReadTranscriptArguments, run=_read),
    FleetTool(name="send_to_agent", arguments=SendArguments, run=_send),
    FleetTool(name="answer", arguments=AnswerArguments, run=_answer),
    FleetTool(name="interrupt_agent", arguments=InterruptArguments, run=_interrupt),
    FleetTool(name="kill_agent", arguments=KillArguments, run=_kill),
    FleetTool(name="archive_agent", arguments=AgentArguments, run=_archive),
)
"""In the order in which models see them. A tool for diffs or merges is one more row."""
