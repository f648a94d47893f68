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
from ..permissions.history import try_offered_rules
from .exit_codes import ANSWERED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quarterdeck.fleet.api import AgentInfo, InboxItem
    from quarterdeck.fleet.client import HostClient
    from quarterdeck.fleet.permissions.api import BackTest, GroupAnswer, RequestGroup
    from quarterdeck.wire.events import PermissionAsked, QuestionAsked
    from quarterdeck.wire.permissions import PermissionOption
    from quarterdeck.wire.tool_calls import ToolCallContent

__all__ = [
    "InboxNote",
    "SeenRequests",
    "UnclearAnswerError",
    "answer",
    "answer_item",
    "choose_option",
    "describe_item",
    "describe_requests",
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


async def _read_inbox(
    fleet: "HostClient", tried: bool
) -> "tuple[list[InboxItem], list[InboxNote], dict[RequestId, dict[str, BackTest]]]":
    items = await fleet.inbox()
    found = await try_offered_rules(fleet, items if tried else ())
    return items, list_notes(await fleet.agents()), found


@click.command()
@click.option(
    "--tried",
    is_flag=True,
    help="Also show what the rule of each lasting answer would have decided this week.",
)
@as_json_option
def inbox(tried: bool, as_json: bool) -> None:
    """Show open requests with every argument, and conflicts between agents.

    Equal requests of several agents are one group. Risky ones come first, then those that block the
    most agents, then the oldest.
    """
    from quarterdeck.fleet.permissions.request_groups import group_requests

    items, notes, found = with_fleet(lambda fleet: _read_inbox(fleet, tried))
    groups = group_requests(items)
    if as_json:
        whole: dict[str, Any] = {"inbox": items, "groups": groups, "notes": notes}
        echo_json(whole | {"tried": found} if tried else whole)
        return
    _echo_requests(items, groups, found)
    for note in notes:
        echo()
        for line in _describe_note(note):
            echo(line)


def _echo_requests(
    items: "Sequence[InboxItem]",
    groups: "Sequence[RequestGroup]",
    tried: "Mapping[RequestId, Mapping[str, BackTest]]",
) -> None:
    if not items:
        echo("No open requests.")
        return
    by_request = {item.request: item for item in items}
    for number, group in enumerate(groups):
        if number:
            echo()
        for line in describe_requests(group, by_request, read_wall_clock()):
            echo(line)
        for rule, test in tried.get(group.first, {}).items():
            echo(f"    {escape_to_line(rule)}: {test.describe('of this week')}")
    echo("\nquarterdeck answer NAME allow|deny|OPTION")
    if len(groups) < len(items):
        echo("quarterdeck answer REQUEST allow|deny|OPTION --group   (all of its group)")


def describe_requests(
    group: "RequestGroup", items: "Mapping[RequestId, InboxItem]", now: int
) -> Iterator[str]:
    """A group as lines: who asks, how their requests differ, and the first one in full."""
    from quarterdeck.fleet.permissions.request_groups import describe_group, list_differences

    first = items[group.first]
    if len(group.members) == 1:
        age = format_age(first.since, now)
        yield f"{escape_controls(first.name)}  {first.request}  {age} ago"
    else:
        risks = f"  ({', '.join(group.risks)})" if group.risks else ""
        yield f"{escape_to_line(describe_group(group))}{risks}"
        for member, words in list_differences(group):
            age = format_age(member.since, now)
            shown = f"  {escape_to_line(words)}" if words else ""
            yield f"  {escape_controls(member.name)}  {member.request}  {age} ago{shown}"
    for line in describe_item(first):
        yield f"  {line}"
    for line in _describe_approvals([items[one] for one in group.requests]):
        yield f"  {line}"


def _describe_approvals(items: "Sequence[InboxItem]") -> Iterator[str]:
    """Who has to allow requests, and who has."""
    from quarterdeck.policy.approvers import describe_approvals

    for item in items:
        if item.permission is not None and item.permission.approvals:
            who = f"{escape_to_line(item.name)}: " if len(items) > 1 else ""
            yield f"{who}{describe_approvals(item.permission.approvals, item.approved)}"


class SeenRequests:
    """What a person has read of the open requests in lines: one answer for a group decides nothing
    that was not shown before.
    """

    def __init__(self, fleet: "HostClient") -> None:
        self._fleet = fleet
        self._seen: set[RequestId] = set()

    async def read_groups(self) -> "tuple[dict[RequestId, InboxItem], list[RequestGroup]]":
        """The open requests, and in groups."""
        from quarterdeck.fleet.permissions.request_groups import group_requests

        items = await self._fleet.inbox()
        self._seen &= {one.request for one in items}
        return {one.request: one for one in items}, group_requests(items)

    def list_group(
        self, group: "RequestGroup", items: "Mapping[RequestId, InboxItem]"
    ) -> Iterator[str]:
        """A group in full, which counts as shown."""
        self._seen.update(group.requests)
        yield from describe_requests(group, items, read_wall_clock())

    def list_request(self, item: "InboxItem", group: "RequestGroup | None") -> Iterator[str]:
        """A request in full, and who else asks for the same; all that counts as shown."""
        yield from describe_item(item)
        yield from _describe_approvals([item])
        self._seen.add(item.request)
        if group is None or len(group.members) == 1:
            return
        from quarterdeck.fleet.permissions.request_groups import describe_group, list_differences

        self._seen.update(group.requests)
        risks = f" ({', '.join(group.risks)})" if group.risks else ""
        yield f"{escape_to_line(describe_group(group))}{risks}; /all y allows all, y this one only"
        for member, words in list_differences(group):
            shown = f": {escape_to_line(words)}" if words else ""
            yield f"  {escape_to_line(member.name)}{shown}"

    async def answer_all(self, request: RequestId, word: str) -> list[str]:
        """Answer all requests of a group as they were shown, and say in lines what became of it.

        If the group has one that was not shown, the group is shown and nothing is answered.

        Raises:
            UnclearAnswerError: it is a question, or the word means no option.
        """
        items, groups = await self.read_groups()
        group = next((one for one in groups if request in one.requests), None)
        if group is None:
            return ["= already answered elsewhere"]
        asked = items[request].permission
        if asked is None:
            raise UnclearAnswerError("a question is answered by itself, without /all")
        option = choose_option(asked.options, word)
        new = [one for one in group.requests if one not in self._seen]
        if new:
            lines = [f"  {line}" for line in self.list_group(group, items)]
            count = f"{len(new)} of these requests were" if len(new) > 1 else "one of these was"
            return [*lines, f"! {count} not shown before; /all again answers all of them"]
        requests = (request, *(one for one in group.requests if one != request))
        done = await self._fleet.answer_group(requests, option, by="cli")
        names = {one: item.name for one, item in items.items()}
        return [f"= {line}" for line in _describe_answer(done, names)]


@click.command(epilog="Exit codes: 0 answered, 1 error, 6 already answered elsewhere.")
@click.argument("request_or_agent", nargs=-1, required=True)
@click.argument("choice")
@click.option("--group", "whole", is_flag=True, help="Answer all requests of its group.")
@click.option("--feedback", metavar="TEXT", help="Message to the agent, sent with a denial.")
@as_json_option
def answer(
    request_or_agent: tuple[str, ...], choice: str, whole: bool, feedback: str | None, as_json: bool
) -> None:
    """Answer a request, by its id or by its agent, or several alike.

    CHOICE is allow, deny, always, or an option's number, id or kind. For a question it is the
    requested value, a JSON object, deny or cancel. --group answers the requests that are in the
    group now, and prints them; to answer only some of them, name those.
    """
    first, requests = request_or_agent[0], request_or_agent
    if whole and len(requests) > 1:
        raise click.UsageError("--group takes one request; name the others without it.")
    if whole or len(requests) > 1:
        done, names = with_fleet(
            lambda fleet: _answer_all(fleet, requests, choice, feedback, whole=whole)
        )
        if as_json:
            echo_json(done)
        else:
            for line in _describe_answer(done, names):
                echo(line)
        raise SystemExit(0 if done.answered or done.waiting else ANSWERED)
    is_first, request, state = with_fleet(lambda fleet: _answer(fleet, first, choice, feedback))
    if as_json:
        echo_json({"request": request, "answered": is_first})
    elif not is_first:
        echo("quarterdeck: already answered elsewhere", err=True)
    elif state:
        echo(state)
    raise SystemExit(0 if is_first else ANSWERED)


async def _answer(
    fleet: "HostClient", wanted: str, choice: str, feedback: str | None
) -> tuple[bool, str, str]:
    """Whether the answer counted, what it was for, and what that still waits for."""
    try:
        item = await find_item(fleet, wanted)
    except NoSuchRequestError:
        # Not open: the fleet knows whether it ever was.
        return await fleet.answer(RequestId(wanted), choice, by="cli"), wanted, ""
    is_first = await answer_item(fleet, item, choice, feedback)
    state = ""
    if item.permission is not None and item.permission.approvals:
        left = [one for one in await fleet.inbox() if one.request == item.request]
        state = "; ".join(_describe_approvals(left))
    return is_first, item.request, state


async def _answer_all(
    fleet: "HostClient", wanted: Sequence[str], choice: str, feedback: str | None, *, whole: bool
) -> "tuple[GroupAnswer, dict[RequestId, str]]":
    """Answer several requests alike; also the names of the agents, by request."""
    items = {one.request: one for one in await fleet.inbox()}
    requests = tuple(dict.fromkeys([await _find_request(fleet, one) for one in wanted]))
    if whole:
        groups = await fleet.inbox_groups()
        members = (one.requests for one in groups if requests[0] in one.requests)
        requests = tuple(dict.fromkeys((*requests, *next(members, ()))))
    names = {request: item.name for request, item in items.items()}
    first = next((items[one] for one in requests if one in items), None)
    if first is None:
        from quarterdeck.fleet.permissions.api import GroupAnswer

        for one in requests:  # raises for what never was
            await fleet.answer(one, choice, by="cli")
        return GroupAnswer(skipped=requests), names
    if first.permission is not None:
        # Words such as "always" mean an option; its id is that of the first one that is open.
        choice = choose_option(first.permission.options, choice)
    requests = (first.request, *(one for one in requests if one != first.request))
    return await fleet.answer_group(requests, choice, by="cli", feedback=feedback), names


async def _find_request(fleet: "HostClient", wanted: str) -> RequestId:
    try:
        return (await find_item(fleet, wanted)).request
    except NoSuchRequestError:
        return RequestId(wanted)  # the fleet knows whether it ever was


def _describe_answer(done: "GroupAnswer", names: "Mapping[RequestId, str]") -> Iterator[str]:
    parts = (
        ("answered", done.answered),
        ("allowed, and others have to allow it too", done.waiting),
        ("already answered elsewhere", done.skipped),
    )
    for words, requests in parts:
        if requests:
            shown = ", ".join(escape_to_line(names.get(one, one)) for one in requests)
            yield f"{len(requests)} {words}: {shown}"
