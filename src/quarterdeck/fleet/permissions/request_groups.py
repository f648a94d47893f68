"""Which open requests one answer may decide, and by which option of each.

Pure. A request is read once (``read_traits``); its group is a hash of what it asks for and of how
the policy treats it, so that groups are the same in whatever order requests come, and grouping n
requests takes n steps. Two requests are one group if they are the same call, or if the same
narrowest rule would answer both, all that differs is short enough to be shown whole, and it is no
change of a file. They are never one group if the policy offers other rules for one of them,
another reason made it ask, other parts of it are risky, other people have to allow it, or it is
about another project or another directory in it.
"""

import hashlib
import posixpath
import re
from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec
from msgspec import Struct

from quarterdeck.policy.request_facts import (
    COMMAND_KEYS,
    DIRECTORY_KEYS,
    find_command,
    find_directory,
    find_risks,
    list_arguments,
)
from quarterdeck.wire.events import PermissionAsked
from quarterdeck.wire.permissions import PermissionOption, option_of_kind
from quarterdeck.wire.tool_calls import Diff

from ..api import InboxItem
from .api import GroupMember, RequestGroup, RequestTraits

__all__ = [
    "RequestPlace",
    "describe_group",
    "group_requests",
    "list_differences",
    "match_option",
    "read_traits",
]

_LONGEST = 200
"""Characters of an argument that is shown whole beside those of others."""
_MOST_ARGUMENTS = 8
_IDS = frozenset(
    (
        *("call_id", "callId", "turn_id", "turnId", "process_id", "processId", "item_id"),
        *("itemId", "approval_id", "approvalId", "started_at_ms", "startedAtMs"),
        *("available_decisions", "availableDecisions"),
    )
)
"""Arguments that name the request and say nothing about the call."""
_WORDS = _IDS | frozenset(
    (
        *("description", "title", "explanation", "justification", "reason", "timeout"),
        *("timeout_ms", "timeoutMs", "parsed_cmd", "parsedCmd"),
        *("proposed_execpolicy_amendment", "proposedExecpolicyAmendment"),
    )
)
"""The same beside a command, which says what is done."""
_WHYS = (
    *("no rule matches", "it reads outside", "it writes outside", "it changes files that decide"),
    *("it runs outside", "the address is not", "no sandbox is active", "git runs programs"),
    *("it seems read-only", "requires permission", "may be what"),
)
"""How the policy says why it asks; the part that it speaks of stands before or within."""
_LASTING = frozenset(
    (
        *("deletes files", "deletes or moves", "can do lasting harm", "runs as another user"),
        "changes what programs run later",
    )
)
_OWN = "\0/"
"""An agent's own directory; no text has this sign in JSON."""
_READING = "reads outside the workspace"


class RequestPlace(Struct, frozen=True, kw_only=True):
    """Where an agent works that asks."""

    cwd: str
    project: str = ""
    """Also of a worktree the main checkout."""
    directory: str = "."
    """``cwd`` within its checkout."""


def read_traits(asked: PermissionAsked, place: RequestPlace, home: str = "") -> RequestTraits:
    """What of a request decides its group. Parses the command; never raises."""
    try:
        return _read_traits(asked, place, home)
    except (RecursionError, TypeError, ValueError, msgspec.MsgspecError):
        # It cannot be read: it is answered alone.
        return RequestTraits(group=asked.request, what=asked.title, risk=1)


def _read_traits(asked: PermissionAsked, place: RequestPlace, home: str) -> RequestTraits:
    command = find_command(asked)
    risks = tuple(dict.fromkeys(one.reason for one in find_risks(asked, place.cwd or None, home)))
    ours = tuple(found for one in asked.options if (found := _meaning(one)) is not None)
    patterns = _narrowest(ours)
    arguments = _read_arguments(asked, command, place.cwd)
    treatment = (
        *(place.project or place.cwd, place.directory, ours, risks),
        msgspec.to_builtins(asked.approvals),
    )
    if patterns and arguments is not None and not _changes_files(asked, command):
        directory = _directory(asked, place.cwd) if command is not None else ""
        key = ("rule", patterns, _why(asked.reason), directory, *treatment)
    else:
        arguments = None
        reason = _relative(asked.reason or "", place.cwd, _OWN)
        key = ("same", _call(asked, command, place.cwd), reason, *treatment)
    data = msgspec.json.encode(key, enc_hook=repr, order="sorted")
    return RequestTraits(
        group=hashlib.sha256(data).hexdigest()[:32],
        what=(command or asked.title).strip(),
        rule=", ".join(patterns),
        risk=_rank(risks, can_last=bool(patterns)),
        risks=risks,
        arguments=arguments or {},
    )


def _meaning(option: PermissionOption) -> tuple[str, str, tuple[str, ...]] | None:
    """The effect, scope and patterns of an option of ours; None: it is the agent's."""
    found: Any = (option.meta or {}).get("quarterdeck")
    if not isinstance(found, dict):
        return None
    given = cast("dict[str, Any]", found)
    patterns: Any = given.get("patterns")
    texts = cast("list[Any]", patterns) if isinstance(patterns, list) else []
    return str(given.get("effect")), str(given.get("scope")), tuple(map(str, texts))


def _narrowest(ours: Iterable[tuple[str, str, tuple[str, ...]]]) -> tuple[str, ...]:
    """The patterns of the first option that lasts: the narrowest comes first."""
    return next((found for effect, _, found in ours if effect == "allow" and found), ())


def _rank(risks: Sequence[str], *, can_last: bool) -> int:
    if any(one in _LASTING for one in risks):
        return 3
    if any(one != _READING for one in risks):
        return 2
    return 0 if can_last and not risks else 1


def _read_arguments(asked: PermissionAsked, command: str | None, cwd: str) -> dict[str, str] | None:
    """What may be another in a request that the same rule covers; None: it cannot be shown
    whole.
    """
    found: dict[str, str] = {}
    if command is not None:
        found["command"] = command.strip()
    elif asked.content:
        return None
    else:
        paths = ", ".join(_relative(one.path, cwd) for one in asked.locations)
        found |= {"at": paths} if paths else {}
        found |= {} if asked.raw_input else {"title": asked.title}
    for _, name, value in list_arguments(_rest(asked.raw_input, has_command=command is not None)):
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        found[name] = _relative(text, cwd)
    is_short = all(len(text) <= _LONGEST and "\n" not in text for text in found.values())
    return found if is_short and len(found) <= _MOST_ARGUMENTS else None


def _rest(raw: object, *, has_command: bool) -> Any:
    """The arguments without those that say nothing about the call, and, beside a command, without
    the one that has it and the one that says where it runs.
    """
    if not isinstance(raw, dict):
        return None if has_command else raw
    given = cast("dict[str, Any]", raw)
    if not has_command:
        return {key: value for key, value in given.items() if key not in _IDS}
    gone = {*_WORDS, *_first_keys(given, COMMAND_KEYS, (str, list))}
    gone.update(_first_keys(given, DIRECTORY_KEYS, (str,)))
    return {key: value for key, value in given.items() if key not in gone}


def _first_keys(
    given: dict[str, Any], keys: Iterable[str], kinds: tuple[type, ...]
) -> tuple[str, ...]:
    """The first of some keys that has a value of these kinds; no other is read."""
    return tuple(key for key in keys if isinstance(given.get(key), kinds) and given[key])[:1]


def _directory(asked: PermissionAsked, cwd: str) -> str:
    """The directory that a command names, from that of its agent on; empty: the same."""
    given = find_directory(asked.raw_input)
    if given is None:
        return ""
    there = posixpath.normpath(posixpath.join(cwd, given))
    return "" if there == posixpath.normpath(cwd or "/") else _relative(there, cwd)


def _changes_files(asked: PermissionAsked, command: str | None) -> bool:
    """Whether it is a change of files, other than by a command that says what it does."""
    has_change = any(isinstance(item, Diff) for item in asked.content)
    return has_change or (command is None and asked.kind in ("edit", "delete", "move"))


def _why(reason: str | None) -> tuple[str, ...]:
    """Why it was asked, without the part that it is about."""
    found = tuple(why for why in _WHYS if why in (reason or ""))
    return found or (reason or "",)


def _call(asked: PermissionAsked, command: str | None, cwd: str) -> tuple[Any, ...]:
    """A call in the form in which equal ones are equal, whoever makes it."""
    if command is not None:
        rest = _rest(asked.raw_input, has_command=True)
        changes = [msgspec.to_builtins(one) for one in asked.content if isinstance(one, Diff)]
        return ("command", command.strip(), _directory(asked, cwd), rest, changes)
    raw = _rest(asked.raw_input, has_command=False)
    facts = (asked.title if not raw else "", raw, msgspec.to_builtins(asked.content))
    paths = [place.path for place in asked.locations]
    data = msgspec.json.encode((facts, paths), order="sorted").decode()
    return (asked.kind, asked.name, _relative(data, cwd, _OWN))


def _relative(text: str, cwd: str, root: str = "./") -> str:
    """A text with the agent's own directory left out: in another worktree it is another."""
    own = cwd.rstrip("/")
    return re.sub(rf"(?<![\w./~-]){re.escape(own)}/", lambda _: root, text) if own else text


def group_requests(items: Iterable[InboxItem]) -> list[RequestGroup]:
    """The open requests in groups: the riskiest first, then those that block the most agents, then
    the oldest. Each request is in exactly one; the order of ``items`` does not matter.
    """
    found: dict[str, list[InboxItem]] = {}
    for item in items:
        key = item.traits.group if item.traits is not None else item.request
        found.setdefault(key, []).append(item)
    groups = [_make_group(members) for members in found.values()]
    groups.sort(key=_urgency)
    return groups


def _urgency(group: RequestGroup) -> tuple[int, int, int, str]:
    first = group.members[0]
    return -group.risk, -group.agents, first.since, first.request


def _make_group(items: list[InboxItem]) -> RequestGroup:
    if len(items) > 1:
        items.sort(key=lambda one: (one.since, one.request))
    first = items[0]
    traits = first.traits or RequestTraits(group=first.request, what=_title(first))
    differing = _differing(items)
    return RequestGroup(
        what=traits.what,
        members=tuple(_make_member(one, differing) for one in items),
        agents=len({one.session for one in items}),
        rule=traits.rule,
        risk=traits.risk,
        risks=traits.risks,
        is_question=first.permission is None,
    )


def _title(item: InboxItem) -> str:
    if item.permission is not None:
        return item.permission.title
    return item.question.text if item.question is not None else ""


def _differing(items: Sequence[InboxItem]) -> tuple[str, ...]:
    """The names of the arguments that are not the same in all."""
    if len(items) == 1:
        return ()
    known = [one.traits.arguments if one.traits is not None else {} for one in items]
    names = dict.fromkeys(name for one in known for name in one)
    return tuple(name for name in names if len({one.get(name) for one in known}) > 1)


def _make_member(item: InboxItem, differing: tuple[str, ...]) -> GroupMember:
    differences: dict[str, str] = {}
    if differing and item.traits is not None:
        given = item.traits.arguments
        differences = {name: given[name] for name in differing if name in given}
    return GroupMember(
        request=item.request,
        session=item.session,
        name=item.name,
        cwd=item.cwd,
        since=item.since,
        differences=differences,
    )


def describe_group(group: RequestGroup) -> str:
    """Who wants what, in a line: ``6 agents want npm test``; foreign text is as it came."""
    what = " ".join(group.what.split())
    if len(group.members) == 1:
        return f"{group.members[0].name} {'asks' if group.is_question else 'wants'} {what}"
    if group.agents == 1:
        return f"{group.members[0].name} wants {what}, {len(group.members)} times"
    more = len(group.members) - group.agents
    times = f", {len(group.members)} times" if more else ""
    return f"{group.agents} agents want {what}{times}"


def list_differences(group: RequestGroup) -> list[tuple[GroupMember, str]]:
    """Each member with what of it is not as in the others: its directory and its arguments."""
    has_places = len({one.cwd for one in group.members}) > 1
    found: list[tuple[GroupMember, str]] = []
    for one in group.members:
        words = [f"in {one.cwd}"] if has_places and one.cwd else []
        words += [f"{name}: {value}" for name, value in one.differences.items()]
        found.append((one, ", ".join(words)))
    return found


def match_option(first: PermissionAsked, choice: str, other: PermissionAsked) -> str | None:
    """The option of another request that means what ``choice`` means in the first; None: none does.

    ``choice``: an option's id or kind. What an agent itself would remember means nothing to others.
    """
    chosen = next((one for one in first.options if one.option_id == choice), None)
    if chosen is None:
        found = option_of_kind(first.options, choice)
        chosen = next((one for one in first.options if one.option_id == found), None)
    if chosen is None:
        return None
    if first.request == other.request:
        return chosen.option_id
    meaning = _meaning(chosen)
    if meaning is not None and meaning[1] != "call":
        same = (one.option_id for one in other.options if _meaning(one) == meaning)
        return next(same, None)
    return _once(other.options, chosen.kind) if chosen.kind.endswith("_once") else None


def _once(options: Sequence[PermissionOption], kind: str) -> str | None:
    """The option that answers this call only, ours before the agent's."""
    ordered = sorted(options, key=lambda one: _meaning(one) is None)
    return option_of_kind(ordered, kind)
