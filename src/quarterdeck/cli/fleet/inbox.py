"""``inbox`` and ``answer``: permission requests and questions, shown in full and answered in a
word.
"""

from collections.abc import Iterator, Sequence
from difflib import unified_diff
from typing import TYPE_CHECKING, Any, cast

import click
import msgspec

from quarterdeck.fleet.errors import NoSuchRequestError
from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.content import TextContent
from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.ids import RequestId
from quarterdeck.wire.permissions import option_of_kind
from quarterdeck.wire.tool_calls import ContentItem, Diff
from quarterdeck.wire.worktrees import ConflictFile

from ..command_io import as_json_option, echo_json, with_fleet
from ..output import echo, escape_controls, escape_to_line, format_age
from .exit_codes import ANSWERED

if TYPE_CHECKING:
    from quarterdeck.fleet.api import AgentInfo, InboxItem
    from quarterdeck.fleet.client import HostClient
    from quarterdeck.wire.events import PermissionAsked, QuestionAsked
    from quarterdeck.wire.permissions import PermissionOption
    from quarterdeck.wire.tool_calls import ToolCallContent

__all__ = [
    "InboxNote",
    "UnclearAnswerError",
    "answer",
    "answer_item",
    "choose_option",
    "describe_item",
    "find_item",
    "inbox",
    "list_form_fields",
    "list_notes",
    "parse_field_value",
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
_SCOPES = {"s": "s", "session": "s", "p": "p", "project": "p"}
"""Scopes of an allowance, by the keys of the workbench."""
_SHOWN = 60
"""Lines of what an agent shows with a request."""
_SHOWN_FILES = 5
_DECLINE = frozenset({"deny", "no", "n", "decline"})


class UnclearAnswerError(QuarterdeckError):
    """The answer fits no question that was asked; the message says what would."""


def describe_item(item: "InboxItem") -> Iterator[str]:
    """A request as lines: what is asked, with every argument, and what can be answered."""
    if item.permission is not None:
        yield from _permission(item.permission)
    elif item.question is not None:
        yield from _question(item.question)


def choose_option(options: "Sequence[PermissionOption]", word: str) -> str:
    """The id of the option that a word means: allow, deny, always, a number, an id, a kind; ``s``
    and ``p`` are the keys of the workbench for this session and this project.

    Raises:
        UnclearAnswerError: it means none of them.
    """
    if word.isdecimal() and 1 <= int(word) <= len(options):
        return options[int(word) - 1].option_id
    for option in options:
        if word == option.option_id:
            return option.option_id

    if word.lower() in _SCOPES:
        from quarterdeck.workbench.screens.permission_model import merge_options

        if (found := merge_options(options).option(_SCOPES[word.lower()])) is not None:
            return found
    for kind in (word, *_WORDS.get(word.lower(), ())):
        if (found := option_of_kind(options, kind)) is not None:
            return found
    offered = ", ".join(f"{number} {escape_to_line(o.name)}" for number, o in enumerate(options, 1))
    raise UnclearAnswerError(f"{word!r} is not a valid answer; choose one of: {offered}")


def list_form_fields(question: "QuestionAsked") -> dict[str, dict[str, Any]]:
    """The properties that a question's form asks for, by name; empty if it has no form."""
    found: Any = (question.form or {}).get("properties")
    if not isinstance(found, dict):
        return {}
    fields = cast("dict[str, Any]", found)
    return {name: kind for name, kind in fields.items() if isinstance(kind, dict)}


def parse_field_value(field: dict[str, Any], word: str) -> Any:
    """What a person typed, as the form wants it.

    Raises:
        UnclearAnswerError: it does not fit.
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
        raise UnclearAnswerError(f"{word!r} is not a valid {kind}") from None


async def find_item(fleet: "HostClient", wanted: str) -> "InboxItem":
    """The open request of that id, or the only one of the agent of that name or id.

    Raises:
        UnclearAnswerError: the agent has none, or several.
        NoSuchAgentError, NoSuchRequestError: there is no such thing.
    """
    from quarterdeck.fleet.errors import NoSuchRequestError

    items = await fleet.inbox()
    for item in items:
        if item.request == wanted:
            return item
    if wanted.startswith("req_"):
        raise NoSuchRequestError(wanted)
    info = await fleet.agent(wanted)
    mine = [item for item in items if item.session == info.session]
    if len(mine) == 1:
        return mine[0]
    if not mine:
        raise UnclearAnswerError(f"{wanted!r} has no open request")
    ids = ", ".join(item.request for item in mine)
    raise UnclearAnswerError(f"{wanted!r} has {len(mine)} open requests; choose one: {ids}")


async def answer_item(
    fleet: "HostClient", item: "InboxItem", word: str, feedback: str | None = None
) -> bool:
    """Answer a request in a word; False if it was answered before.

    A question takes ``deny``, ``cancel``, the value of its only field, or a JSON object.
    """
    if item.permission is not None:
        choice = choose_option(item.permission.options, word)
        return await fleet.answer(item.request, choice, by="cli", feedback=feedback)
    assert item.question is not None
    if word == "cancel":
        return await fleet.reply(item.request, "cancel", by="cli")
    if word.lower() in _DECLINE and not _is_yes_or_no(item.question):
        return await fleet.reply(item.request, "decline", by="cli")
    content = _content(item.question, word)
    return await fleet.reply(item.request, "accept", by="cli", content=content)


def _content(question: "QuestionAsked", word: str) -> dict[str, Any] | None:
    fields = list_form_fields(question)
    if not fields:
        return None
    if len(fields) == 1 and not word.startswith("{"):
        ((name, field),) = fields.items()
        return {name: parse_field_value(field, word)}
    try:
        return decode_json(word.encode(), dict[str, Any])
    except msgspec.DecodeError:
        names = ", ".join(fields)
        raise UnclearAnswerError(f"answer with a JSON object with the keys {names}") from None


def _is_yes_or_no(question: "QuestionAsked") -> bool:
    fields = list_form_fields(question)
    return len(fields) == 1 and next(iter(fields.values())).get("type") == "boolean"


def _one_of(choices: list[Any], word: str) -> Any:
    for choice in choices:
        if word == str(choice):
            return choice
    if word.isdecimal() and 1 <= int(word) <= len(choices):
        return choices[int(word) - 1]
    raise UnclearAnswerError(f"{word!r} is not one of: {', '.join(map(str, choices))}")


def _permission(asked: "PermissionAsked") -> Iterator[str]:
    yield f"{escape_to_line(asked.name or asked.kind)}: {escape_controls(asked.title)}"
    if asked.raw_input is not None:
        yield from _json(asked.raw_input)
    for location in asked.locations:
        yield f"  at {escape_to_line(location.path)}"
    for item in asked.content:
        yield from _content_lines(item)
    if asked.reason:
        yield f"  ({escape_to_line(asked.reason)})"
    for number, option in enumerate(asked.options, 1):
        yield f"  [{number}] {escape_to_line(option.name)} ({escape_to_line(option.kind)})"


def _content_lines(item: "ToolCallContent") -> Iterator[str]:
    """What an agent shows with its request: some put the command or the change only there."""
    match item:
        case ContentItem(content=TextContent(text=text)):
            lines = text.splitlines()
        case Diff(path=path, old_text=old, new_text=new):
            yield f"  changes {escape_to_line(path)}:"
            lines = list(unified_diff((old or "").splitlines(), new.splitlines(), n=2, lineterm=""))
            lines = lines[2:]
        case _:
            return
    for line in lines[:_SHOWN]:
        yield f"  | {escape_controls(line)}"
    if len(lines) > _SHOWN:
        yield f"  | … {len(lines) - _SHOWN} more lines; `quarterdeck inbox --json` shows all"


def _question(asked: "QuestionAsked") -> Iterator[str]:
    yield escape_controls(asked.text)
    if asked.url:
        yield f"  visit {escape_to_line(asked.url)}"
    for name, field in list_form_fields(asked).items():
        choices = field.get("enum")
        text = ", ".join(map(str, cast("list[Any]", choices))) if choices else field.get("type")
        yield f"  {escape_to_line(name)}: {escape_to_line(str(text))}"


def _json(value: Any) -> Iterator[str]:
    data = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    for line in data.splitlines():
        yield f"  {escape_controls(line)}"


class InboxNote(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a person may want to know, and that needs no answer."""

    kind: str
    """``conflict``: two agents change the same."""
    sessions: tuple[str, str]
    names: tuple[str, str]
    files: tuple[ConflictFile, ...]


def list_notes(agents: "Sequence[AgentInfo]") -> list[InboxNote]:
    """One note for each two agents that change the same, as long as they do."""
    names = {info.session: info.name for info in agents}
    found: dict[frozenset[str], InboxNote] = {}
    for info in agents:
        for one in info.conflicts:
            if one.other in names:
                found.setdefault(
                    frozenset((info.session, one.other)),
                    InboxNote(
                        kind="conflict",
                        sessions=(info.session, one.other),
                        names=(info.name, names[one.other]),
                        files=one.files,
                    ),
                )
    return list(found.values())


def _describe_note(note: InboxNote) -> Iterator[str]:
    one, other = map(escape_to_line, note.names)
    yield f"{one} and {other} change the same; `quarterdeck conflicts` shows how"
    for file in note.files[:_SHOWN_FILES]:
        yield f"  {escape_to_line(file.path)}"
    if len(note.files) > _SHOWN_FILES:
        yield f"  and {len(note.files) - _SHOWN_FILES} more files"


async def _read_inbox(fleet: "HostClient") -> "tuple[list[InboxItem], list[InboxNote]]":
    return await fleet.inbox(), list_notes(await fleet.agents())


@click.command()
@as_json_option
def inbox(as_json: bool) -> None:
    """Show open requests with every argument, oldest first, and conflicts between agents."""
    items, notes = with_fleet(_read_inbox)
    if as_json:
        echo_json({"inbox": items, "notes": notes})
        return
    if not items:
        echo("No open requests.")

    now = read_wall_clock()
    for number, item in enumerate(items):
        if number:
            echo()
        echo(f"{escape_controls(item.name)}  {item.request}  {format_age(item.since, now)} ago")
        for line in describe_item(item):
            echo(f"  {line}")
    if items:
        echo("\nquarterdeck answer NAME allow|deny|OPTION")
    for note in notes:
        echo()
        for line in _describe_note(note):
            echo(line)


@click.command(epilog="Exit codes: 0 answered, 1 error, 6 already answered elsewhere.")
@click.argument("request_or_agent")
@click.argument("choice")
@click.option("--feedback", metavar="TEXT", help="Message to the agent, sent with a denial.")
@as_json_option
def answer(request_or_agent: str, choice: str, feedback: str | None, as_json: bool) -> None:
    """Answer a request, by its id or by its agent.

    CHOICE is allow, deny, always, or an option's number, id or kind. For a question it is the
    requested value, a JSON object, deny or cancel.
    """
    is_first, request = with_fleet(lambda fleet: _answer(fleet, request_or_agent, choice, feedback))
    if as_json:
        echo_json({"request": request, "answered": is_first})
    elif not is_first:
        echo("quarterdeck: already answered elsewhere", err=True)
    raise SystemExit(0 if is_first else ANSWERED)


async def _answer(
    fleet: "HostClient", wanted: str, choice: str, feedback: str | None
) -> tuple[bool, str]:
    try:
        item = await find_item(fleet, wanted)
    except NoSuchRequestError:
        # Not open: the fleet knows whether it ever was.
        return await fleet.answer(RequestId(wanted), choice, by="cli"), wanted
    return await answer_item(fleet, item, choice, feedback), item.request
