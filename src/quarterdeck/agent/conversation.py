"""The conversation with the model, as a fold over the session's events.

While a session runs, and when it is loaded again, the same function sees the same events: what
a resumed session sends is what the running one would have sent, byte for byte.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from quarterdeck.wire.conversation import Message, Part, ToolResultPart, ToolUsePart
from quarterdeck.wire.events import Event, ModelCallFinished, Prompted, ToolCallEnded

from .parts import parts_of

__all__ = ["Conversation"]


class Conversation:
    """What the model has been told and has said.

    ``apply`` takes every event of the session in order and ignores those that a model does not
    hear of. The cost of one more event does not grow with the history.
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._messages: list[Message] = []
        self._awaited: tuple[str, ...] = ()
        self._results: dict[str, ToolResultPart] = {}
        self._ids: set[str] = set()
        for event in events:
            self.apply(event)

    def apply(self, event: Event) -> None:
        """Take one more event."""
        match event:
            case Prompted():
                self._settle()
                self._add(Message(role="user", parts=parts_of(event.content)))
            case ModelCallFinished(reply=Message() as reply):
                self._settle()
                self._add(reply)
                uses = (part for part in reply.parts if isinstance(part, ToolUsePart))
                self._awaited = tuple(use.id for use in uses)
                self._ids.update(self._awaited)
            case ToolCallEnded(result=ToolResultPart() as result):
                self._results.setdefault(result.id, result)
            case _:
                pass

    def messages(self) -> tuple[Message, ...]:
        """All messages so far; the results of one step stand together, in the calls' order."""
        self._settle_if_complete()
        return (*self._messages, *self._results_message())

    @property
    def unanswered(self) -> tuple[str, ...]:
        """The calls of the last reply that have no result yet, in order."""
        return tuple(id_ for id_ in self._awaited if id_ not in self._results)

    def with_own_ids(self, reply: Message) -> Message:
        """The reply, with another id for each call whose own is empty or was used before.

        Some servers number the calls of each reply from one; here a call is known by its id.
        """
        taken = set(self._ids)
        parts: list[Part] = []
        for part in reply.parts:
            if isinstance(part, ToolUsePart):
                part = replace(part, id=_free(part.id or "call", taken))
                taken.add(part.id)
            parts.append(part)
        return replace(reply, parts=tuple(parts))

    def _add(self, message: Message) -> None:
        if message.parts:
            self._messages.append(message)

    def _settle_if_complete(self) -> None:
        if self._awaited and all(id_ in self._results for id_ in self._awaited):
            self._settle()

    def _settle(self) -> None:
        self._messages.extend(self._results_message())
        self._awaited = ()
        self._results = {}

    def _results_message(self) -> tuple[Message, ...]:
        found = tuple(self._results[id_] for id_ in self._awaited if id_ in self._results)
        return (Message(role="user", parts=found),) if found else ()


def _free(wanted: str, taken: set[str]) -> str:
    id_, count = wanted, 1
    while id_ in taken:
        count += 1
        id_ = f"{wanted}-{count}"
    return id_
