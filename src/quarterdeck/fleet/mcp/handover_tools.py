"""The tools of hand-overs: the transcript of the work that an agent continues, and a lead's own."""

from typing import Annotated, TypeAlias

from msgspec import Meta

from quarterdeck.agent.tools.tool import Arguments
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.redaction import mask_secrets

from ..api import HandoverOptions
from ..errors import AgentNotReadyError, NoSuchAgentError
from .agent_text import list_agent_facts
from .tool import FleetTool, FleetToolResult
from .tool_context import FleetToolContext
from .transcript import read_page

__all__ = ["HANDOVER_TOOLS", "LEAD_HANDOVER_TOOLS", "READ_TOOL"]

Words: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200_000)]
READ_TOOL = "read_earlier_transcript"
_PAGE = 6_000


class EarlierTranscriptArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``read_earlier_transcript``."""

    cursor: Annotated[
        str | None, Meta(description="From an earlier call; default: the end of the transcript.")
    ] = None
    characters: Annotated[
        int, Meta(ge=500, le=50_000, description="Approximate length of the page.")
    ] = _PAGE
    back: Annotated[
        int,
        Meta(
            ge=1, le=32, description="1: the agent before you; 2: the one before that, and so on."
        ),
    ] = 1


class HandOverArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``hand_over_agent``."""

    agent: Annotated[
        str, Meta(min_length=1, max_length=80, description="A name or id from list_agents.")
    ]
    to: Annotated[
        str,
        Meta(min_length=1, max_length=80, description="native, claude, codex, opencode, gemini …"),
    ]
    task: Annotated[
        Words | None, Meta(description="What the new agent is to do now; default: continue.")
    ] = None
    model: Annotated[
        str | None, Meta(description="A model, by the new agent's own name for it.")
    ] = None


async def _read_earlier(seat: FleetToolContext, a: EarlierTranscriptArguments) -> FleetToolResult:
    session = await _find_earlier(seat, a.back)
    page = await read_page(seat.fleet, session, a.cursor, a.characters)
    text = mask_secrets(page.text)
    ends: list[str] = []
    if page.earlier is not None:
        ends.append(f'earlier: cursor "{page.earlier}"')
    if page.has_more:
        ends.append(f'more: cursor "{page.later}"')
    words = f"{text or '(nothing here)'}\n\n[{'; '.join(ends) or 'that is all'}]"
    data = {"text": text, "earlier": page.earlier, "later": page.later, "has_more": page.has_more}
    return FleetToolResult(text=words, data=data)


async def _find_earlier(seat: FleetToolContext, back: int) -> SessionId:
    """The session that so many hand-overs lie after. Raises AgentNotReadyError."""
    session = seat.session
    for number in range(back):
        try:
            entry = await seat.bridge.current.find(session)
        except NoSuchAgentError:
            raise AgentNotReadyError("the transcript was deleted") from None
        if entry.spawn.continues is None:
            raise AgentNotReadyError(f"only {number} worked on this before you")
        session = entry.spawn.continues
    return session


async def _hand_over(seat: FleetToolContext, a: HandOverArguments) -> FleetToolResult:
    old = await seat.own(a.agent)
    with seat.bridge.notices.suppress_notices((old.session,)):
        request = HandoverOptions(to=a.to, prompt=a.task, model=a.model)
        info = await seat.fleet.hand_over(old.session, request)
        seat.bridge.notices.known(seat.bridge.current.get(old.session))
    words = f"{info.name} ({info.agent}) continues the work of {old.name}, which is closed."
    return FleetToolResult(
        text=f"{words} Call wait_for to get its result.", data=list_agent_facts(info)
    )


HANDOVER_TOOLS: tuple[FleetTool[FleetToolContext], ...] = (
    FleetTool(name=READ_TOOL, arguments=EarlierTranscriptArguments, run=_read_earlier),
)
LEAD_HANDOVER_TOOLS: tuple[FleetTool[FleetToolContext], ...] = (
    FleetTool(name="hand_over_agent", arguments=HandOverArguments, run=_hand_over),
)
