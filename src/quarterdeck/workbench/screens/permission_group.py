"""The other requests that one answer may decide, as lines: who asks, how they differ, and the keys
that answer them all. Whatever an agent wrote stays literal.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..rendering import glyphs
from ..rendering.lines import Line, Span, clip, indented, plain, width_of, wrap
from ..sanitize import sanitize_line
from .permission_model import CardChoices

if TYPE_CHECKING:
    from quarterdeck.fleet.api import InboxItem
    from quarterdeck.fleet.permissions.api import RequestGroup
    from quarterdeck.wire.ids import RequestId

__all__ = ["GROUP_KEYS", "approval_lines", "group_choice_lines", "member_lines"]

GROUP_KEYS = {"Y": "y", "S": "s", "P": "p", "N": "n"}
"""The keys that answer a whole group, and the choice that each gives to all of it."""
_WORDS = {"y": "allow once", "s": "this session", "p": "this project", "n": "deny"}
_BRIEF = {"y": "allow", "s": "session", "p": "project", "n": "deny"}
_GAP = "   "
_MOST_NAMES = 12
"""Agents that are named of those whose requests are the very same."""


def member_lines(
    group: "RequestGroup", request: "RequestId", width: int, home: str = ""
) -> list[Line]:
    """The other members of a group: a line for each that differs, the names of the rest."""
    from quarterdeck.fleet.permissions.request_groups import list_differences

    found = list_differences(group)
    own = next((words for one, words in found if one.request == request), "")
    others = [(one, words) for one, words in found if one.request != request]
    if not others:
        return []
    lines: list[Line] = [()]
    same = [sanitize_line(one.name, 30) for one, words in others if words == own]
    if same:
        names = ", ".join(same[:_MOST_NAMES])
        left = len(same) - _MOST_NAMES
        more = f" and {left} more" if left > 0 else ""
        head: Span = ("the same: ", "faint")
        lines += wrap((head, (names, "strong"), (more, "faint")), width)
    for one, words in others:
        if words != own:
            lines += _differing(sanitize_line(one.name, 30), _tilde(words, home), width)
    return lines


def _differing(name: str, words: str, width: int) -> Iterator[Line]:
    """How a member is not as the one that is shown."""
    head: Span = (f"{glyphs.POINT} ", "faint")
    body = ((f"{name}  ", "strong"), (sanitize_line(words, 1000), "code"))
    yield from indented(wrap(body, max(1, width - 2)), head, ("  ", "text"))


def _tilde(words: str, home: str) -> str:
    return words.replace(f"in {home}/", "in ~/") if home else words


def approval_lines(item: "InboxItem", width: int) -> list[Line]:
    """Who has to allow a request, and who has; nothing where the first answer counts."""
    if item.permission is None or not item.permission.approvals:
        return []
    from quarterdeck.policy.approvers import describe_approvals

    words = describe_approvals(item.permission.approvals, item.approved)
    return [clip(((f"{glyphs.NEEDS_YOU} ", "asking"), (sanitize_line(words), "text")), width)]


def group_choice_lines(choices: CardChoices, count: int, width: int) -> list[Line]:
    """The keys that answer all of a group, in one line and as many words as it has room for."""
    for words in (_WORDS, _BRIEF):
        line = _group_choices(choices, count, words)
        if width_of(line) <= width:
            break
    return [clip(line, width)]


def _group_choices(choices: CardChoices, count: int, words: dict[str, str]) -> Line:
    spans: list[Span] = [(f"all {count}:", "faint")]
    for key, own in GROUP_KEYS.items():
        if any(one.key == own for one in choices.shown):
            role = "bad" if own == "n" else "text"
            spans += [(_GAP, "text"), (f"{key} ", "key"), (words[own], role)]
    return tuple(spans) if len(spans) > 1 else plain("")
