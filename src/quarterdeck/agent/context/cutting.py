"""Where a conversation may be cut, and where it is best cut. Pure functions over its messages.

A cut is a number: the messages below it go, those from it on stay. It never stands between a
call and its result.
"""

from collections.abc import Sequence

from quarterdeck.wire.conversation import Message, ToolResultPart, ToolUsePart

from ..conversation import Conversation

__all__ = ["cut_before_tail", "is_cut", "savings_below"]


def is_cut(messages: Sequence[Message], index: int) -> bool:
    """Whether no call below the index has its result, or is still without one, from there on."""
    if index < len(messages) and _has(messages[index], ToolResultPart):
        return False
    return index == 0 or index > len(messages) or not _has(messages[index - 1], ToolUsePart)


def _has(message: Message, kind: type[ToolResultPart] | type[ToolUsePart]) -> bool:
    return any(isinstance(part, kind) for part in message.parts)


def cut_before_tail(conversation: Conversation, turns: int, most: int) -> int:
    """The number of the first message of the tail that stays whole.

    The tail is the newest turns, as many of ``turns`` as fit into ``most`` bytes; where not even
    the newest does, its newest steps. The last step always stays.
    """
    messages, sizes, first = conversation.told, conversation.sizes, conversation.first
    if not messages:
        return first
    starts = _turn_starts(conversation, turns)
    last = step = _last_step(messages)
    turn: int | None = None
    total = sum(sizes[last:])
    for place in range(last, -1, -1):  # from the end: what is old costs nothing
        total += sizes[place] if place < last else 0
        if total > most:
            break
        if is_cut(messages, place):
            step = place
            turn = place if place in starts else turn
        if place == min(starts, default=0):
            break
    return first + (step if turn is None else turn)


def _turn_starts(conversation: Conversation, turns: int) -> set[int]:
    """The places, among those that are told, of the newest prompts that started a turn."""
    starts: set[int] = set()
    for said in reversed(conversation.memory.prompts):
        if said.at < conversation.first or len(starts) == turns:
            break
        if said.starts_turn:
            starts.add(said.at - conversation.first)
    return starts


def _last_step(messages: Sequence[Message]) -> int:
    """The last place where a cut leaves at least one message."""
    index = len(messages) - 1
    while index > 0 and not is_cut(messages, index):
        index -= 1
    return index


def savings_below(conversation: Conversation, cut: int) -> int:
    """Bytes that clearing the results below a cut would free, about."""
    begin = max(0, conversation.cleared - conversation.first)
    return sum(conversation.savings[begin : cut - conversation.first])
