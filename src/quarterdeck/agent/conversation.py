"""The conversation with the model, as a fold over the session's events.

While a session runs, and when it is loaded again, the same function sees the same events: what
a resumed session sends is what the running one would have sent, byte for byte.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from quarterdeck.wire.conversation import (
    Message,
    Part,
    RequestDigest,
    TextPart,
    ToolResultPart,
    ToolUsePart,
)
from quarterdeck.wire.events import (
    CompactionChanged,
    ContextAdded,
    Event,
    MessagePinned,
    ModelCallFinished,
    ModelCallStarted,
    Prompted,
    ResultsCleared,
    ToolCallEnded,
)

from .content_parts import model_content, parts_of
from .context.memory import ConversationMemory, clear_results, cut_results, savings
from .context.token_estimate import TokenEstimator, weigh

__all__ = ["Conversation", "summarised"]

_SUMMARY = (
    "[The conversation up to here was summarised to make room. The model wrote the summary; "
    "everything after it is verbatim. Files can be read and commands can be run again.]"
)
_PINNED = "[The user pinned this: it applies to the rest of the conversation.]"


def summarised(summary: str, kept: tuple[Part, ...]) -> Message:
    """The message that replaces everything before a compaction."""
    return Message(role="user", parts=(TextPart(text=f"{_SUMMARY}\n\n{summary}"), *kept))


class Conversation:
    """What was sent to the model, and its replies.

    ``apply`` takes every event of the session in order and ignores those that are not sent to a
    model. The cost of one more event does not grow with the history.

    Messages are numbered from the beginning of the conversation, those that a summary replaced
    too: ``first`` is the number of the first that is still sent.
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.gauge = TokenEstimator()
        self.memory = ConversationMemory()
        self.first = 0
        self.cleared = 0
        """Results in messages below this number are sent as notes."""
        self.head: Message | None = None
        """What replaces the messages below ``first``."""
        self._head_size = 0
        self._messages: list[Message] = []
        self._sizes: list[int] = []
        self._savings: list[int] = []
        self._size = 0
        self.failures = 0
        """Compactions that failed since one was completed."""
        self.failed_at = 0
        """The size when the last one failed."""
        self.digest: RequestDigest | None = None
        """Of the last request, as far as the log has it."""
        self._awaited: tuple[str, ...] = ()
        self._results: dict[str, ToolResultPart] = {}
        self._notes: list[Message] = []
        """Messages to be sent as soon as no result is awaited."""
        self._ids: set[str] = set()
        for event in events:
            self.apply(event)

    def apply(self, event: Event) -> None:
        """Take one more event."""
        match event:
            case Prompted():
                self._prompted(event)
            case ModelCallStarted():
                self.digest = event.request or self.digest
                self._settle_if_complete()
                self.gauge.asked(self.size)
            case ModelCallFinished():
                self._finished(event)
            case ToolCallEnded(result=ToolResultPart() as result):
                self._results.setdefault(result.id, result)
            case ResultsCleared():
                self._clear(event)
            case CompactionChanged():
                self._compaction(event)
            case ContextAdded():
                self._context_added(event)
            case MessagePinned():
                self._pinned(event)
            case _:
                self.memory.apply(event, self.count)

    def messages(self) -> tuple[Message, ...]:
        """All messages so far; the results of one step stand together, in the calls' order."""
        self._settle_if_complete()
        head = () if self.head is None else (self.head,)
        return (*head, *self._messages, *self._results_message())

    @property
    def recent_messages(self) -> Sequence[Message]:
        """The messages from ``first`` on, without results of a step that is not complete."""
        self._settle_if_complete()
        return self._messages

    @property
    def sizes(self) -> Sequence[int]:
        """The approximate bytes of each of ``recent_messages``."""
        return self._sizes

    @property
    def savings(self) -> Sequence[int]:
        """The approximate bytes that clearing each of ``recent_messages`` would free."""
        return self._savings

    @property
    def size(self) -> int:
        """Bytes of all messages, about."""
        self._settle_if_complete()
        return self._head_size + self._size

    @property
    def head_size(self) -> int:
        """Bytes of the message that replaces the earlier ones."""
        return self._head_size

    @property
    def count(self) -> int:
        """How many messages there have been."""
        return self.first + len(self._messages)

    @property
    def unanswered(self) -> tuple[str, ...]:
        """The calls of the last reply that have no result yet, in order."""
        return tuple(id_ for id_ in self._awaited if id_ not in self._results)

    def with_own_ids(self, reply: Message) -> Message:
        """The reply, with another id for each call whose own is empty or was used before.

        Some servers number the calls of each reply from one; here a call is known by its id.
        """
        taken: set[str] = set()
        parts: list[Part] = []
        for part in reply.parts:
            if isinstance(part, ToolUsePart):
                part = replace(part, id=self._free(part.id or "call", taken))
                taken.add(part.id)
            parts.append(part)
        return replace(reply, parts=tuple(parts))

    def reserve(self, reply: Message) -> None:
        """Reserve the ids of the calls in this reply, which may not be sent any more."""
        self._ids.update(part.id for part in reply.parts if isinstance(part, ToolUsePart))

    def become(self, other: "Conversation") -> None:
        """Be what another conversation is, for everyone who knows this one."""
        self.__dict__.update(other.__dict__)

    def _free(self, wanted: str, taken: set[str]) -> str:
        id_, count = wanted, 1
        while id_ in taken or id_ in self._ids:
            count += 1
            id_ = f"{wanted}-{count}"
        return id_

    def _prompted(self, event: Prompted) -> None:
        if content := model_content(event):
            self._settle()
            self.memory.apply(event, self.count)
            self._add(Message(role="user", parts=parts_of(content)))

    def _finished(self, event: ModelCallFinished) -> None:
        if event.usage is not None:
            self.gauge.counted(event.model, event.usage.input)
        if event.reply is None:
            return
        self._settle()
        self.memory.apply(event, self.count)
        self._add(event.reply)
        uses = (part for part in event.reply.parts if isinstance(part, ToolUsePart))
        self._awaited = tuple(use.id for use in uses)
        self._ids.update(self._awaited)

    def _pinned(self, event: MessagePinned) -> None:
        self._settle_if_complete()
        self.memory.apply(event, self.count)
        if event.new:
            self._note((TextPart(text=_PINNED), *parts_of(event.content)))

    def _context_added(self, event: ContextAdded) -> None:
        self._settle_if_complete()
        self.memory.apply(event, self.count)
        self._note((TextPart(text=event.text),))

    def _note(self, parts: tuple[Part, ...]) -> None:
        self._notes.append(Message(role="user", parts=parts))
        if not self._awaited:
            self._tell_notes()

    def _compaction(self, event: CompactionChanged) -> None:
        self._settle_if_complete()
        if event.status == "failed":
            self.failures, self.failed_at = self.failures + 1, self.size
        elif event.status == "completed" and event.through is not None:
            self.failures = self.failed_at = 0
            self._compact(event.through, summarised(event.summary or "", event.kept))

    def _clear(self, event: ResultsCleared) -> None:
        self._settle_if_complete()
        until = min(event.through, self.count) - self.first
        for index in range(max(0, self.cleared - self.first), until):
            message = self._messages[index]
            if event.longest is not None:
                self._replace(index, cut_results(message, event.longest))
            elif self._savings[index]:
                self._replace(
                    index, clear_results(message, self._messages[index - 1] if index else None)
                )
        if event.longest is None:
            self.cleared = max(self.cleared, event.through)
        self.gauge.rewritten()

    def _replace(self, index: int, message: Message) -> None:
        size = weigh(message)
        self._size += size - self._sizes[index]
        self._messages[index] = message
        self._sizes[index], self._savings[index] = size, savings(message)

    def _compact(self, through: int, head: Message) -> None:
        gone = through - self.first
        if not 0 <= gone <= len(self._messages):
            return  # of another conversation: a wrong number never drops messages
        self._size -= sum(self._sizes[:gone])
        del self._messages[:gone], self._sizes[:gone], self._savings[:gone]
        self.first, self.head, self._head_size = through, head, weigh(head)
        self.gauge.rewritten()

    def _add(self, message: Message) -> None:
        if message.parts:
            self._messages.append(message)
            self._sizes.append(weigh(message))
            self._savings.append(savings(message))
            self._size += self._sizes[-1]

    def _settle_if_complete(self) -> None:
        if self._awaited and all(id_ in self._results for id_ in self._awaited):
            self._settle()

    def _settle(self) -> None:
        for message in self._results_message():
            self._add(message)
        self._awaited = ()
        self._results = {}
        self._tell_notes()

    def _tell_notes(self) -> None:
        for message in self._notes:
            self._add(message)
        self._notes.clear()

    def _results_message(self) -> tuple[Message, ...]:
        found = tuple(self._results[id_] for id_ in self._awaited if id_ in self._results)
        return (Message(role="user", parts=found),) if found else ()
