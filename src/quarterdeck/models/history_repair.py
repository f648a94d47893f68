"""A history made fit for a request; what is stored stays as it is.

Vendors refuse a whole request for one call without a result, one result without a call, one empty
text or two equal ids, and a session that was killed, cancelled, compacted or taken over from
another vendor has such things. ``repair_history`` is pure: the same history gives the same
messages, and a longer history gives them with more at the end, so that prompt caches keep hitting.
"""

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from quarterdeck.wire.conversation import (
    ImagePart,
    Message,
    OpaquePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
)

__all__ = ["MessageGroup", "ResultPairer", "alternate", "repair_history", "seal_signature"]

_NO_RESULT = "No result: the call was interrupted before it finished."
_LOST_CALL = "Result of a tool call that is no longer part of this conversation:"
_BAD_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_ID = 64


def seal_signature(owner: str, signature: str) -> str:
    """Mark a vendor's signature with the model that gave it; ``repair_history`` gives it back to
    that one.

    Text and tool calls carry a signature but no vendor, and a foreign signature is an error.
    """
    return f"{owner}|{signature}"


def repair_history(
    messages: Sequence[Message], *, owner: str, has_strict_ids: bool = False
) -> list[Message]:
    """Give messages that every vendor accepts.

    Afterwards: there is at least one message; roles alternate, beginning and ending with the
    user; no message and no text is empty; every call has a unique id and exactly one result in
    the next message, results first; thinking, opaque parts and signatures are ``owner``'s own,
    signatures without their seal. ``has_strict_ids``: ids hold only letters, digits, ``_``, ``-``.
    """
    groups = alternate(messages, owner)
    pairing = ResultPairer(has_strict_ids=has_strict_ids)
    return [pairing.take(group.message) for group in groups]


def _owned(message: Message, owner: str) -> Message:
    # Nearly all messages are fit as they are, and every request passes all of them here.
    for part in message.parts:
        if not _is_plain(part):
            return replace(message, parts=tuple(_own(message.parts, owner)))
    return message


def _is_plain(part: Part) -> bool:
    """Whether a part belongs to no vendor and is not empty."""
    if isinstance(part, TextPart):
        return part.signature is None and _has_words(part.text)
    if isinstance(part, ToolUsePart):
        return part.signature is None
    return isinstance(part, ToolResultPart | ImagePart)


def _has_words(text: str) -> bool:
    # Unlike ``strip`` this ends at the first character that is no space.
    return bool(text) and not text.isspace()


def _own(parts: Iterable[Part], owner: str) -> Iterable[Part]:
    for part in parts:
        match part:
            case ThinkingPart() | OpaquePart():
                if part.vendor == owner:
                    yield part
            case TextPart():
                signature = _unseal(part.signature, owner)
                if part.text.strip() or signature:
                    yield replace(part, signature=signature)
            case ToolUsePart():
                yield replace(part, signature=_unseal(part.signature, owner))
            case _:
                yield part


def _unseal(signature: str | None, owner: str) -> str | None:
    if signature is None or not signature.startswith(f"{owner}|"):
        return None
    return signature[len(owner) + 1 :]


class MessageGroup(Struct, frozen=True):
    """Neighbours of one role as one message, and the place of the first of them."""

    start: int | None
    """None: the message was added by the repair."""
    message: Message


def alternate(messages: Sequence[Message], owner: str) -> list[MessageGroup]:
    """Join neighbours of one role; begin and end with the user. What is not ``owner``'s goes."""
    joined: list[MessageGroup] = []
    for place, stored in enumerate(messages):
        message = _owned(stored, owner)
        if not message.parts:
            continue
        if joined and joined[-1].message.role == message.role:
            earlier = joined[-1]
            parts = earlier.message.parts + message.parts
            joined[-1] = MessageGroup(earlier.start, replace(message, parts=parts))
        else:
            joined.append(MessageGroup(place, message))
    if not joined or joined[0].message.role == "assistant":
        joined.insert(0, MessageGroup(None, _user_message("(The conversation continues.)")))
    if joined[-1].message.role == "assistant":
        joined.append(MessageGroup(None, _user_message("(Continue.)")))
    return joined


def _user_message(text: str) -> Message:
    return Message(role="user", parts=(TextPart(text=text),))


class _Calls:
    """Gives every call an id that no other call of the conversation has."""

    def __init__(self, has_strict_ids: bool) -> None:
        self._has_strict_ids = has_strict_ids
        self._taken: set[str] = set()

    def free(self, names: Iterable[str]) -> None:
        self._taken.difference_update(names)

    def rename(self, wanted: str) -> str:
        base = wanted
        if self._has_strict_ids:
            base = _BAD_IN_NAME.sub("_", wanted)[:_LONGEST_ID]
        base = base or "call"
        name, count = base, 1
        while name in self._taken:
            count += 1
            name = f"{base[: _LONGEST_ID - 8]}-{count}"
        self._taken.add(name)
        return name


class ResultPairer:
    """Gives every call exactly one result; takes messages of alternating roles in their order."""

    def __init__(self, *, has_strict_ids: bool) -> None:
        self._calls = _Calls(has_strict_ids)
        self.waiting: list[tuple[str, str]] = []
        """The calls of the message before, by their old and their new ids."""

    def take(self, message: Message) -> Message:
        """The message as it can be sent; the same object where nothing is to be repaired."""
        if message.role == "assistant":
            return self._asked(message)
        parts = _answered(message.parts, self.waiting)
        self.waiting = []
        return message if _are_same(parts, message.parts) else Message(role="user", parts=parts)

    def go_back(self, gone: Iterable[Message], last: Message, mended: Message) -> None:
        """Undo the repaired messages ``gone``; ``last`` is the one before them, ``mended`` its
        repaired form.
        """
        for message in gone:
            self._calls.free(use.id for use in _uses(message))
        pairs = zip(_uses(last), _uses(mended), strict=True)
        self.waiting = [(old.id, new.id) for old, new in pairs]

    def _asked(self, message: Message) -> Message:
        # A user message always follows, so every call written here is answered there.
        self.waiting = []
        parts: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolUsePart):
                part = self._renamed(part)
            if not isinstance(part, ToolResultPart):
                parts.append(part)
        if _are_same(parts, message.parts):
            return message
        return Message(role="assistant", parts=tuple(parts) or (TextPart(text="(No answer.)"),))

    def _renamed(self, part: ToolUsePart) -> ToolUsePart:
        new, name = self._calls.rename(part.id), _name(part.name)
        self.waiting.append((part.id, new))
        is_fit = new == part.id and name == part.name
        return part if is_fit else replace(part, id=new, name=name)


def _uses(message: Message) -> list[ToolUsePart]:
    parts = message.parts if message.role == "assistant" else ()
    return [part for part in parts if isinstance(part, ToolUsePart)]


def _are_same(one: Sequence[Part], other: Sequence[Part]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _answered(parts: Sequence[Part], waiting: Sequence[tuple[str, str]]) -> tuple[Part, ...]:
    results = [part for part in parts if isinstance(part, ToolResultPart)]
    paired: list[Part] = []
    for old, new in waiting:
        found = next((result for result in results if result.id == old), None)
        if found is None:
            text = (TextPart(text=_NO_RESULT),)
            paired.append(ToolResultPart(id=new, content=text, is_error=True))
            continue
        results.remove(found)
        is_fit = old == new and all(map(_is_plain, found.content)) and bool(found.content)
        paired.append(found if is_fit else replace(found, id=new, content=_content(found)))
    orphans = [part for result in results for part in _result_parts(result)]
    others = [part for part in parts if isinstance(part, TextPart | ImagePart)]
    # Opaque parts, thinking and calls are the model's: none of a user's message.
    return tuple(paired + orphans + others) or (TextPart(text="(no text)"),)


def _content(result: ToolResultPart) -> tuple[TextPart | ImagePart, ...]:
    kept = tuple(
        replace(part, signature=None) if isinstance(part, TextPart) else part
        for part in result.content
        if isinstance(part, ImagePart) or part.text.strip()
    )
    return kept or (TextPart(text="(No output.)"),)


def _result_parts(result: ToolResultPart) -> list[Part]:
    return [TextPart(text=_LOST_CALL), *_content(result)]


def _name(name: str) -> str:
    return _BAD_IN_NAME.sub("_", name)[:_LONGEST_ID] or "unknown"
