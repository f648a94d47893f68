"""What an ACP agent has said about its calls: merged for a request, with what disagrees.

A permission request may say less than the updates before it, so all of them count. Where they
contradict each other, nothing says which of them the agent goes by: the request then carries a
doubt (``UNSEEN``), by which it is asked about, and the person sees both.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from msgspec.structs import replace

from quarterdeck.policy.foreign_calls import UNSEEN
from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.content import TextContent
from quarterdeck.wire.permissions import PermissionOption
from quarterdeck.wire.tool_calls import (
    ContentItem,
    Diff,
    ToolCallContent,
    ToolCallLocation,
    ToolKind,
)

from ..permissions import core_command
from .extensions import speaks_of_more, streamed_input, tool_name

__all__ = ["KnownCalls", "call_details"]

_FINAL = ("completed", "failed")
_RANKS: dict[ToolKind, int] = {
    "think": 1,
    "read": 2,
    "search": 2,
    "fetch": 3,
    "edit": 4,
    "move": 4,
    "delete": 4,
    "execute": 5,
}
"""How much a call of a kind may do; one that is called less later is in doubt."""
_COMMANDS = ("command", "cmd")
_SHOWN = 200
"""Characters of a value in a doubt."""


def call_details(call: acp.ToolCall, name: str | None) -> acp.ToolCallDetails:
    """An announced call in the form of its updates."""
    return acp.ToolCallDetails(
        tool_call_id=call.tool_call_id,
        kind=call.kind,
        status=call.status,
        title=call.title,
        name=name,
        content=call.content or None,
        locations=call.locations or None,
        raw_input=call.raw_input,
    )


@dataclass(slots=True)
class _Account:
    """All that was said about one call."""

    details: acp.ToolCallDetails
    titles: list[str] = field(default_factory=list[str])
    doubts: dict[str, None] = field(default_factory=dict[str, None])

    def copy(self) -> "_Account":
        return _Account(self.details, list(self.titles), dict(self.doubts))


class KnownCalls:
    """The calls of one turn.

    Args:
        streams_input: the agent shows the arguments of a call as its text while they grow.
    """

    def __init__(self, *, streams_input: bool = False) -> None:
        self._streams_input = streams_input
        self._accounts: dict[str, _Account] = {}
        self._ended: set[str] = set()

    def clear(self) -> None:
        """A turn begins or ends: what was said before says nothing about its calls."""
        self._accounts.clear()
        self._ended.clear()

    def announce(self, call: acp.ToolCallDetails) -> None:
        """A call begins, perhaps under an id that one had which is over."""
        self._ended.discard(call.tool_call_id)
        self.update(call)

    def update(self, now: acp.ToolCallDetails) -> None:
        """More is said of a call; what comes after its end is not about it."""
        id_ = now.tool_call_id
        if id_ in self._ended:
            return
        if now.status in _FINAL:
            self._accounts.pop(id_, None)
            self._ended.add(id_)
            return
        self._accounts[id_] = self._merged(self._account(id_), now)

    def requested(
        self, now: acp.ToolCallDetails, options: Iterable[PermissionOption] = ()
    ) -> acp.ToolCallDetails:
        """The call of a permission request, with all that is known and all that is in doubt."""
        id_ = now.tool_call_id
        before = _Account(_nothing(id_)) if id_ in self._ended else self._account(id_)
        account = self._merged(before, now)
        doubts = [*account.doubts, *self._title_doubts(before, account, now)]
        if sum(option.kind == "allow_once" for option in options) > 1:
            doubts.append("the agent offers several ways to allow it once")
        details = account.details
        if not doubts:
            return details
        return replace(details, raw_input=_with_doubts(details.raw_input, doubts))

    def _account(self, id_: str) -> _Account:
        return self._accounts.get(id_) or _Account(_nothing(id_))

    def _merged(self, before: _Account, now: acp.ToolCallDetails) -> _Account:
        """The same with what is new: new values take precedence, and none is forgotten."""
        after, earlier = before.copy(), before.details
        name = now.name or tool_name(now.meta)
        if name and earlier.name and name != earlier.name:
            after.doubts[f"the agent named its tool {_shown(earlier.name)} before"] = None
        given = now.raw_input
        if not given and self._streams_input:
            given = streamed_input(now.content or ())
        if now.title and now.title not in after.titles:
            after.titles.append(now.title)
        after.details = acp.ToolCallDetails(
            tool_call_id=now.tool_call_id,
            kind=self._kind(after, earlier.kind, now.kind),
            status=now.status or earlier.status,
            title=now.title or earlier.title,
            name=name or earlier.name,
            content=now.content or earlier.content,
            locations=_locations(earlier, now),
            raw_input=_combined(after, earlier.raw_input, given),
        )
        return after

    def _kind(
        self, after: _Account, earlier: ToolKind | None, now: ToolKind | None
    ) -> ToolKind | None:
        """The kind that may do most; ``other`` carries no information."""
        if now in (None, "other") or earlier in (None, "other"):
            return earlier if now in (None, "other") and earlier else now
        if _RANKS.get(now, 0) >= _RANKS.get(earlier, 0):
            return now
        after.doubts[f"the agent reported it as {earlier!r} before, and now as {now!r}"] = None
        return earlier

    def _title_doubts(
        self, before: _Account, account: _Account, now: acp.ToolCallDetails
    ) -> Iterator[str]:
        """Where the words of a request are about something else than its command."""
        details = account.details
        command = _command(details.raw_input)
        if details.kind != "execute" or not command:
            return
        title = now.title or ""
        texts = [item.content.text for item in _texts(now.content or ())]
        if not _fields(details.raw_input).get("url"):
            asked = next(filter(speaks_of_more, (title, *texts)), None)
            if asked is not None:
                yield f"it asks for more than the command: {_shown(asked)}"
                return
        is_code = len(title) > 2 and title.startswith("`") and title.endswith("`")
        is_new = bool(before.titles) and title not in before.titles
        if title and (is_code or is_new) and not _is_about(title, command, details.name):
            yield f"its title is about something else: {_shown(title)}"
        if self._streams_input and not now.raw_input:
            for text in texts:
                _, separator, named = text.partition(": ")
                if separator and not _is_about(named, command, None):
                    yield f"its text is about something else: {_shown(text)}"


def _nothing(id_: str) -> acp.ToolCallDetails:
    return acp.ToolCallDetails(tool_call_id=id_)


def _locations(
    earlier: acp.ToolCallDetails, now: acp.ToolCallDetails
) -> tuple[ToolCallLocation, ...] | None:
    """Every place that was named; one that has grown since counts as it is now."""
    new = tuple(now.locations or ())
    named = {place.path for place in new}
    named |= {item.path for item in now.content or () if isinstance(item, Diff)}
    old = list(earlier.locations or ())
    if now.content:
        diffs = (item.path for item in earlier.content or () if isinstance(item, Diff))
        old += [ToolCallLocation(path=path) for path in diffs]
    kept = {
        place.path: place for place in old if not any(path.startswith(place.path) for path in named)
    }
    return (*new, *kept.values()) or None


def _combined(after: _Account, earlier: Any, now: Any) -> Any:
    """The arguments of both; a value that changed otherwise than by growing is in doubt."""
    if not now or not earlier:
        return now or earlier
    if not (isinstance(earlier, dict) and isinstance(now, dict)):
        if earlier != now:
            after.doubts[f"the agent gave other arguments before: {_shown(earlier)}"] = None
        return now
    before, given = cast("dict[str, Any]", earlier), cast("dict[str, Any]", now)
    for key, value in given.items():
        if key in before and not (
            _has_grown(before[key], value)
            or (key in _COMMANDS and _core(before[key]) == _core(value) != "")
        ):
            was = _shown(before[key])
            after.doubts[f"the agent gave another {key!r} before: {was}"] = None
    return {**before, **given}


def _has_grown(earlier: Any, now: Any) -> bool:
    """Whether a value is the same or what a part of it that was streamed has become."""
    if earlier == now or not earlier:
        return True
    if isinstance(earlier, str) and isinstance(now, str):
        return now.startswith(earlier)
    if isinstance(earlier, list) and isinstance(now, list):
        first = cast("list[Any]", earlier)
        return cast("list[Any]", now)[: len(first)] == first
    if isinstance(earlier, dict) and isinstance(now, dict):
        new = cast("dict[str, Any]", now)
        return all(
            key in new and _has_grown(value, new[key])
            for key, value in cast("dict[str, Any]", earlier).items()
        )
    return False


def _with_doubts(raw_input: Any, doubts: Iterable[str]) -> dict[str, Any]:
    fields = dict(_fields(raw_input))
    if raw_input and not fields:
        fields["input"] = raw_input
    return {**fields, UNSEEN: "; ".join(doubts)}


def _fields(raw_input: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", raw_input) if isinstance(raw_input, dict) else {}


def _command(raw_input: Any) -> str:
    fields = _fields(raw_input)
    return next((line for key in _COMMANDS if (line := _line(fields.get(key)))), "")


def _line(given: Any) -> str:
    if isinstance(given, list):
        return shlex.join(str(word) for word in cast("list[Any]", given))
    return given if isinstance(given, str) else ""


def _core(given: Any) -> str:
    """A command without the shell that runs it, which agents name in some messages only."""
    return core_command(_line(given), "")


def _is_about(title: str, command: str, name: str | None) -> bool:
    """Whether a title names the command, whole or in part, or only the tool."""
    words, line = " ".join(title.strip(" `…").split()), " ".join(command.split())
    return not words or words in line or line in words or words.lower() == (name or "").lower()


def _texts(content: Iterable[ToolCallContent]) -> Iterator[Any]:
    return (
        item
        for item in content
        if isinstance(item, ContentItem) and isinstance(item.content, TextContent)
    )


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")
