"""What agents ask for: shown literally and whole, and answered in a word."""

from collections.abc import Iterator, Sequence
from difflib import unified_diff
from typing import TYPE_CHECKING, Any, cast

import msgspec

from quarterdeck.wire.errors import QuarterdeckError

from .text import literal, one_line

if TYPE_CHECKING:
    from quarterdeck.fleet.client import HostClient
    from quarterdeck.fleet.port import InboxItem
    from quarterdeck.wire.events import PermissionAsked, QuestionAsked
    from quarterdeck.wire.permissions import PermissionOption
    from quarterdeck.wire.toolcalls import ToolCallContent

__all__ = [
    "UnclearAnswer",
    "answer_item",
    "choose",
    "describe",
    "fields_of",
    "find_item",
    "read_value",
]

_WORDS = {
    "allow": ("allow_once",),
    "yes": ("allow_once",),
    "y": ("allow_once",),
    "always": ("allow_always",),
    "deny": ("reject_once", "reject_always"),
    "no": ("reject_once", "reject_always"),
    "n": ("reject_once", "reject_always"),
}
_SHOWN = 60
"""Lines of what an agent shows with a request."""
_DECLINE = frozenset({"deny", "no", "n", "decline"})


class UnclearAnswer(QuarterdeckError):
    """What was said answers nothing that was asked; the message says what would."""


def describe(item: "InboxItem") -> Iterator[str]:
    """A request as lines: what is asked, with every argument, and what can be answered."""
    if item.permission is not None:
        yield from _permission(item.permission)
    elif item.question is not None:
        yield from _question(item.question)


def choose(options: "Sequence[PermissionOption]", word: str) -> str:
    """The id of the option that a word means: allow, deny, always, a number, an id, a kind.

    Raises:
        UnclearAnswer: it means none of them.
    """
    if word.isdecimal() and 1 <= int(word) <= len(options):
        return options[int(word) - 1].option_id
    for option in options:
        if word == option.option_id:
            return option.option_id
    from quarterdeck.wire.permissions import option_of_kind

    for kind in (word, *_WORDS.get(word.lower(), ())):
        if (found := option_of_kind(options, kind)) is not None:
            return found
    offered = ", ".join(f"{number} {one_line(o.name)}" for number, o in enumerate(options, 1))
    raise UnclearAnswer(f"{word!r} is no answer here; there are: {offered}")


def fields_of(question: "QuestionAsked") -> dict[str, dict[str, Any]]:
    """The properties that a question's form asks for, by name; empty if it has no form."""
    found: Any = (question.form or {}).get("properties")
    if not isinstance(found, dict):
        return {}
    fields = cast("dict[str, Any]", found)
    return {name: kind for name, kind in fields.items() if isinstance(kind, dict)}


def read_value(field: dict[str, Any], word: str) -> Any:
    """What a person typed, as the form wants it.

    Raises:
        UnclearAnswer: it does not fit.
    """
    choices = field.get("enum")
    if isinstance(choices, list):
        return _one_of(cast("list[Any]", choices), word)
    kind = field.get("type")
    try:
        match kind:
            case "boolean":
                return {"yes": True, "y": True, "true": True, "no": False, "n": False}[word.lower()]
            case "integer":
                return int(word)
            case "number":
                return float(word)
            case _:
                return word
    except (KeyError, ValueError):
        raise UnclearAnswer(f"{word!r} is no {kind}") from None


async def find_item(fleet: "HostClient", wanted: str) -> "InboxItem":
    """The open request of that id, or the only one of the agent of that name or id.

    Raises:
        UnclearAnswer: the agent has none, or several.
        NoSuchAgent, NoSuchRequest: there is no such thing.
    """
    from quarterdeck.fleet.errors import NoSuchRequest

    items = await fleet.inbox()
    for item in items:
        if item.request == wanted:
            return item
    if wanted.startswith("req_"):
        raise NoSuchRequest(wanted)
    info = await fleet.agent(wanted)
    mine = [item for item in items if item.session == info.session]
    if len(mine) == 1:
        return mine[0]
    if not mine:
        raise UnclearAnswer(f"{wanted!r} asks for nothing at the moment")
    ids = ", ".join(item.request for item in mine)
    raise UnclearAnswer(f"{wanted!r} asks for {len(mine)} things; say which: {ids}")


async def answer_item(
    fleet: "HostClient", item: "InboxItem", word: str, feedback: str | None = None
) -> bool:
    """Answer a request in a word; False if somebody else has.

    A question takes ``deny``, ``cancel``, the value of its only field, or a JSON object.
    """
    if item.permission is not None:
        choice = choose(item.permission.options, word)
        return await fleet.answer(item.request, choice, by="cli", feedback=feedback)
    assert item.question is not None
    if word == "cancel":
        return await fleet.reply(item.request, "cancel", by="cli")
    if word.lower() in _DECLINE and not _is_yes_or_no(item.question):
        return await fleet.reply(item.request, "decline", by="cli")
    content = _content(item.question, word)
    return await fleet.reply(item.request, "accept", by="cli", content=content)


def _content(question: "QuestionAsked", word: str) -> dict[str, Any] | None:
    fields = fields_of(question)
    if not fields:
        return None
    if len(fields) == 1 and not word.startswith("{"):
        ((name, field),) = fields.items()
        return {name: read_value(field, word)}
    try:
        return msgspec.json.decode(word.encode(), type=dict[str, Any])
    except msgspec.DecodeError:
        names = ", ".join(fields)
        raise UnclearAnswer(f"answer with a JSON object that has {names}") from None


def _is_yes_or_no(question: "QuestionAsked") -> bool:
    fields = fields_of(question)
    return len(fields) == 1 and next(iter(fields.values())).get("type") == "boolean"


def _one_of(choices: list[Any], word: str) -> Any:
    for choice in choices:
        if word == str(choice):
            return choice
    if word.isdecimal() and 1 <= int(word) <= len(choices):
        return choices[int(word) - 1]
    raise UnclearAnswer(f"{word!r} is none of: {', '.join(map(str, choices))}")


def _permission(asked: "PermissionAsked") -> Iterator[str]:
    yield f"{one_line(asked.name or asked.kind)}: {literal(asked.title)}"
    if asked.raw_input is not None:
        yield from _json(asked.raw_input)
    for location in asked.locations:
        yield f"  at {one_line(location.path)}"
    for item in asked.content:
        yield from _content_lines(item)
    if asked.reason:
        yield f"  ({one_line(asked.reason)})"
    for number, option in enumerate(asked.options, 1):
        yield f"  [{number}] {one_line(option.name)} ({one_line(option.kind)})"


def _content_lines(item: "ToolCallContent") -> Iterator[str]:
    """What an agent shows with its request: some put the command or the change only there."""
    from quarterdeck.wire.content import TextContent
    from quarterdeck.wire.toolcalls import ContentItem, Diff

    match item:
        case ContentItem(content=TextContent(text=text)):
            lines = text.splitlines()
        case Diff(path=path, old_text=old, new_text=new):
            yield f"  changes {one_line(path)}:"
            lines = list(unified_diff((old or "").splitlines(), new.splitlines(), n=2, lineterm=""))
            lines = lines[2:]
        case _:
            return
    for line in lines[:_SHOWN]:
        yield f"  | {literal(line)}"
    if len(lines) > _SHOWN:
        yield f"  | … {len(lines) - _SHOWN} more lines; `quarterdeck inbox --json` has all"


def _question(asked: "QuestionAsked") -> Iterator[str]:
    yield literal(asked.text)
    if asked.url:
        yield f"  visit {one_line(asked.url)}"
    for name, field in fields_of(asked).items():
        choices = field.get("enum")
        told = ", ".join(map(str, cast("list[Any]", choices))) if choices else field.get("type")
        yield f"  {one_line(name)}: {one_line(str(told))}"


def _json(value: Any) -> Iterator[str]:
    data = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    for line in data.splitlines():
        yield f"  {literal(line)}"
