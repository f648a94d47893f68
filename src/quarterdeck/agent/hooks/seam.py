"""What the session and the loop know of hooks."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from quarterdeck.policy.call import Call
from quarterdeck.wire.content import TextContent, text
from quarterdeck.wire.events import ContextAdded, Event, Notice, Prompted
from quarterdeck.wire.ids import new_message_id

if TYPE_CHECKING:
    from ..assembly import Ground
    from ..conversation import Conversation
    from ..turn import Turn

__all__ = [
    "NO_HOOKS",
    "Emit",
    "Hooks",
    "Point",
    "Verdict",
    "admit",
    "find_hooks",
    "go_on",
    "session_started",
    "tell_context",
]

Point: TypeAlias = Literal[
    "session_start",
    "session_end",
    "prompt",
    "before_tool",
    "after_tool",
    "before_compaction",
    "after_compaction",
    "turn_end",
    "notification",
]
"""When hooks are run."""
Emit: TypeAlias = Callable[[Event], Awaitable[None]]


class Verdict(Struct, frozen=True, kw_only=True):
    """What the hooks of one point came to, all together."""

    refused: str | None = None
    """Why it must not be; None: nobody says so."""
    by: str = ""
    """The hook whose word that is, or whose wish ``wish`` is."""
    wish: Literal["allow", "ask"] | None = None
    """Whether a person need not, or must, be asked."""
    reason: str = ""
    """Why that is wished."""
    input: dict[str, Any] | None = None
    """What a tool is to be called with instead."""
    context: tuple[str, ...] = ()
    """What the model is to be told besides."""
    again: str | None = None
    """What the model is to be told so that it goes on, at the end of a turn."""


_NOTHING = Verdict()


class Hooks(Protocol):
    """The hooks of one session."""

    most_continued: int
    """How often hooks may go on with one turn."""

    def has(self, point: Point) -> bool:
        """Whether there is any hook for a point."""
        ...

    async def run(
        self, point: Point, facts: Mapping[str, Any], emit: Emit, call: Call | None = None
    ) -> Verdict:
        """Run the hooks of a point, one after the other, in the order of their declaration.

        What goes wrong with one is told as a notice and otherwise ignored; each has its own time.
        ``call``: what hooks for some tools only are held against. Cancelling ends what runs.
        """
        ...

    def saw(self, event: Event, emit: Emit) -> None:
        """Take note of an event: somebody may have to be notified, in the background."""
        ...

    async def close(self) -> None:
        """End what runs in the background; may be called again."""
        ...


class _NoHooks:
    """No hook at all."""

    most_continued = 0

    def has(self, point: Point) -> bool:
        return False

    async def run(
        self, point: Point, facts: Mapping[str, Any], emit: Emit, call: Call | None = None
    ) -> Verdict:
        return _NOTHING

    def saw(self, event: Event, emit: Emit) -> None:
        pass

    async def close(self) -> None:
        pass


NO_HOOKS: Hooks = _NoHooks()


def find_hooks(ground: "Ground", environment: Mapping[str, str], session: str) -> Hooks:
    """The hooks of a session, as the configuration has them.

    Raises:
        HookError: one is declared wrongly; the message names it.
    """
    if not ground.settings.hooks.any:
        return NO_HOOKS
    from .finding import session_hooks

    return session_hooks(ground, environment, session)


async def admit(hooks: Hooks, emit: Emit, prompted: Prompted) -> Prompted | str:
    """A prompt as the model is to be told it; a text: why it must not be told at all."""
    if not hooks.has("prompt"):
        return prompted
    told = prompted.content if prompted.told is None else prompted.told
    words = [block.text for block in told if isinstance(block, TextContent)]
    typed = [block.text for block in prompted.content if isinstance(block, TextContent)]
    facts = {
        "prompt": "\n".join(words),
        "typed": "\n".join(typed),
        "origin": prompted.origin,
        "steers": prompted.steers,
    }
    verdict = await hooks.run("prompt", facts, emit)
    if verdict.refused is not None:
        return f"hook {verdict.by} refused the prompt: {verdict.refused}"
    if not verdict.context:
        return prompted
    return replace(prompted, told=(*told, *map(text, verdict.context)))


async def session_started(
    hooks: Hooks, conversation: "Conversation", emit: Emit, *, resumed: bool
) -> None:
    """Run the hooks of a session's begin, and tell the model what they say."""
    verdict = await hooks.run("session_start", {"resumed": resumed}, emit)
    await tell_context(verdict, "session_start", conversation, emit)


async def go_on(turn: "Turn", continued: int) -> Prompted | None:
    """What hooks have the model hear at the end of a turn, so that it goes on; None: it ends."""
    hooks = turn.hooks
    if not hooks.has("turn_end"):
        return None
    facts = {"stop": "end_turn", "continued": continued, "answer": _answer(turn.conversation)}
    verdict = await hooks.run("turn_end", facts, turn.emit)
    said = verdict.again or verdict.refused
    if said is None:
        return None
    if continued >= hooks.most_continued:
        title = f"Hook {verdict.by} would go on with the turn again, which is enough"
        most = f"hooks.continue_at_most is {hooks.most_continued}; it said: {said}"
        await turn.emit(Notice(title=title, severity="warning", description=most))
        return None
    return Prompted(content=(text(said),), message=new_message_id(), origin="hook", steers=True)


def _answer(conversation: "Conversation") -> str:
    last = conversation.memory.last
    return "\n".join(block.text for block in last if isinstance(block, TextContent))


async def tell_context(
    verdict: Verdict, point: Point, conversation: "Conversation", emit: Emit
) -> None:
    """Tell the model what hooks say that are not about a prompt or a call; twice is once."""
    for index, words in enumerate(verdict.context, 1):
        source = f"hook {point} {index}"
        said = f"[A hook says, at {point}:]\n\n{words}"
        if conversation.memory.added.get(source) != said:
            await emit(ContextAdded(source=source, text=said))
