"""A permission request as lines with roles: the command or the change in its colours, its risky
parts marked, and the choices. Whatever an agent wrote stays literal.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from quarterdeck.policy.request_facts import PermissionRisk
from quarterdeck.wire.tool_calls import Diff

from ..rendering import glyphs
from ..rendering.code import highlight_code
from ..rendering.diffs import (
    LONGEST_DIFF,
    change_rows,
    count_changed_lines,
    draw_change,
    patch_lines,
)
from ..rendering.lines import Line, Span, clip, indented, plain, width_of, wrap
from ..sanitize import sanitize_line, sanitize_text
from .permission_model import CardChoice, CardChoices, PermissionSummary, shorten_rule

if TYPE_CHECKING:
    from quarterdeck.fleet.permissions.api import BackTest, RequestGroup

__all__ = [
    "RequestQueue",
    "back_test_line",
    "choice_lines",
    "hint_words",
    "more_lines",
    "request_lines",
    "risk_lines",
]

_NOTHING_TRIED: "Mapping[str, BackTest]" = MappingProxyType({})
_AROUND = 2
_GAP = "   "
_DENY = "deny"
_LEVELS = 3
"""Of how few words a choice is written in."""
_MOST_RISKS = 3
"""Lines; they stay in view however long a request is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestQueue:
    """Where a request stands among those that wait."""

    place: int = 1
    count: int = 1
    alike: tuple[str, ...] = ()
    """The agents whose requests one answer may decide as well."""
    group: "RequestGroup | None" = None
    """All of those requests, this one among them; None: there is no other."""

    @property
    def words(self) -> str:
        """In a few words; empty while nothing else waits."""
        if self.count < 2:
            return ""
        alike = f", {len(self.alike)} alike" if self.alike else ""
        return f"{self.place} of {self.count}{alike}"


def request_lines(summary: PermissionSummary, width: int, home: str = "") -> list[Line]:
    """All that is asked, wrapped; the directory stands beside the command where it has room."""
    where = _tilde(sanitize_line(summary.directory, 200), home) if summary.directory else ""
    lines: list[Line] = []
    if summary.command is not None:
        lines += _fit(_command(summary.command, summary.risks), width)
    for change in summary.changes:
        lines += _change(change, summary.directory or "", width)
    if summary.patch:
        lines += _fit(patch_lines(summary.patch), width)
    lines, where = _beside(lines, where, width)
    lines += _fit(_rest(summary, where), width)
    return lines


def _command(command: str, risks: Sequence[PermissionRisk]) -> Iterator[Line]:
    marks = {sanitize_text(risk.mark) for risk in risks if risk.mark}
    pattern = "|".join(re.escape(mark) for mark in sorted(marks, key=len, reverse=True))
    found = re.compile(rf"(?<![\w/.-])(?:{pattern})(?![\w-])") if pattern else None
    for line in highlight_code(sanitize_text(command), "bash"):
        yield _marked(line, found) if found is not None else line


def _marked(line: Line, pattern: "re.Pattern[str]") -> Line:
    """The line with what is risky in a role of its own."""
    text = "".join(words for words, _ in line)
    places = [match.span() for match in pattern.finditer(text)]
    if not places:
        return line
    spans: list[Span] = []
    begin = 0
    for words, role in line:
        at = 0
        for start, end in places:
            left, right = max(at, start - begin), min(len(words), end - begin)
            if left < right:
                spans += [(words[at:left], role), (words[left:right], "asking")]
                at = right
        spans.append((words[at:], role))
        begin += len(words)
    return tuple(span for span in spans if span[0])


def _beside(lines: list[Line], where: str, width: int) -> tuple[list[Line], str]:
    """Put the directory at the right of the first line; what is left of it if it has no room."""
    words = f"in {where}"
    room = width - width_of(lines[0]) - width_of(plain(words)) if lines else 0
    if not where or room < len(_GAP):
        return lines, where
    return [(*lines[0], (" " * room, "text"), (words, "faint")), *lines[1:]], ""


def _change(change: Diff, directory: str, width: int) -> Iterator[Line]:
    """A difference with the numbers of its lines, in the colours of its language.

    The file is named from the directory on, which stands beside it.
    """
    old, new = change.old_text, change.new_text
    added, removed = count_changed_lines(old, new)
    kind = "new file" if old is None else ""
    counts = (
        f"  {kind}  +{added} {glyphs.MINUS}{removed}"
        if kind
        else f"  +{added} {glyphs.MINUS}{removed}"
    )
    path = change.path.removeprefix(f"{directory}/") if directory else change.path
    yield from wrap((*plain(sanitize_text(path), "strong"), (counts, "faint")), width)
    if len(old or "") + len(new) > LONGEST_DIFF:
        yield plain("this change is too large to show here", "faint")
        return
    rows = change_rows(change.path, old, new, around=_AROUND)
    digits = len(str(max(*(text.count("\n") for text in (old or "", new)), 0) + 1))
    yield from draw_change(rows, width, digits=digits)


def _rest(summary: PermissionSummary, where: str) -> Iterator[Line]:
    for note in summary.notes:
        yield from (plain(line, "text") for line in sanitize_text(note).split("\n"))
    for name, value in summary.arguments:
        words = sanitize_text(value).split("\n")
        label = sanitize_line(name, 80)
        if len(words) == 1:
            yield ((f"{label}: ", "faint"), (words[0], "code"))
            continue
        yield plain(f"{label}:", "faint")
        yield from ((("  ", "code"), (word, "code")) for word in words)
    for place in summary.places:
        yield plain(f"at {sanitize_text(place)}", "faint")
    if where:
        yield plain(f"in {where}", "faint")
    if summary.reason:
        yield plain(sanitize_line(summary.reason), "faint")


def risk_lines(summary: PermissionSummary, width: int) -> list[Line]:
    """Why to look twice: a line for each of the first risks, and how many more there are."""
    risks, left = summary.risks[:_MOST_RISKS], len(summary.risks) - _MOST_RISKS
    lines = [
        clip(
            (
                (f"{glyphs.CONFLICT} ", "asking"),
                (risk.reason, "warning"),
                (f": {sanitize_line(risk.words, 200)}", "faint"),
            ),
            width,
        )
        for risk in risks
    ]
    return [*lines, plain(f"{glyphs.CONFLICT} and {left} more", "warning")] if left > 0 else lines


def back_test_line(rule: str, found: "BackTest | None", width: int) -> list[Line]:
    """What a rule would have answered; none while that is not known, or nothing was recorded.

    The rule is named where it has room.
    """
    if found is None or not found.requests:
        return []
    words = found.describe("of this week")
    is_warning = found.allowed_denied > 0
    room = width - 2 if is_warning else width
    named = f"{shorten_rule(sanitize_line(rule, 200))} {words}" if rule else words
    if width_of(plain(named)) <= room:
        words = named
    if not is_warning:
        return wrap(((words, "faint"),), room)
    sign: Span = (f"{glyphs.CONFLICT} ", "asking")
    return list(indented(wrap(((words, "warning"),), room), sign, ("  ", "text")))


def choice_lines(choices: CardChoices, width: int, *, is_tight: bool = False) -> list[Line]:
    """The four choices in one line, or, where they are too long for it, below each other.

    A rule is never cut unless it is tight; then as many choices as fit share a line.
    """
    lines: list[Line] = []
    row: list[Span] = []
    is_stacked = not is_tight and _measure(choices, _LEVELS - 1) > width
    level = (
        0
        if is_stacked
        else next((one for one in range(_LEVELS) if _measure(choices, one) <= width), _LEVELS - 1)
    )
    for choice in choices.shown:
        spans = _choice(choice, level)
        gap = len(_GAP) if row else 0
        if row and (is_stacked or width_of(tuple(row)) + gap + width_of(spans) > width):
            lines.append(tuple(row))
            row = []
        if width_of(spans) > width:
            head, body = spans[0], spans[1:]
            lines += (
                [clip(spans, width)]
                if is_tight
                else indented(wrap(body, width - 2), head, ("  ", "text"))
            )
            continue
        row += [*([(_GAP, "text")] if row else []), *spans]
    return [*lines, tuple(row)] if row else lines


def _measure(choices: CardChoices, level: int) -> int:
    """The width of all choices in one line."""
    return sum(width_of(_choice(one, level)) + len(_GAP) for one in choices.shown) - len(_GAP)


def _choice(choice: CardChoice, level: int) -> Line:
    """A choice in the words of a level; the higher, the fewer."""
    forms = (choice.words, choice.short, choice.brief)[: level + 1]
    words = sanitize_line(next(filter(None, reversed(forms))), 400)
    return ((f"{choice.key} ", "key"), (words, "bad" if choice.words == _DENY else "text"))


def more_lines(
    choices: CardChoices,
    width: int,
    tried: "Mapping[str, BackTest]" = _NOTHING_TRIED,
    *,
    is_tight: bool = False,
) -> list[Line]:
    """The other choices with their numbers, the agent's own last and by its own names; below each
    what its rule would have answered, unless it is that of a choice above.
    """
    above = {one.rule for one in choices.shown}
    ordered = sorted(choices.more, key=lambda one: one.is_agents)
    lines: list[Line] = []
    for choice in ordered:
        role = "faint" if choice.is_agents else "text"
        spans: list[Span] = [(sanitize_line(choice.words, 400), role)]
        head: Span = (f"{choice.key or ' '} ", "key")
        if is_tight:
            lines.append((head, *clip(tuple(spans), width - 2)))
        else:
            lines += indented(wrap(spans, width - 2), head, ("  ", "text"))
        if choice.allows and choice.rule not in above:
            above.add(choice.rule)
            notes = back_test_line("", tried.get(choice.rule), width - 2)
            lines += [(("  ", "text"), *note) for note in (notes[:1] if is_tight else notes)]
    lines.append((("e ", "key"), ("write a rule of your own", "text")))
    return lines


def hint_words(choices: CardChoices, *, is_more: bool) -> str:
    """The keys that are no choices, in a few words."""
    more = len(choices.more)
    words = ["m less" if is_more else (f"m {more} more" if more else "m more")]
    if choices.deny is not None:
        words.append("d deny with words")
    return " · ".join([*words, "esc later"])


def _tilde(path: str, home: str) -> str:
    return f"~{path[len(home) :]}" if home and path.startswith(f"{home}/") else path


def _fit(lines: Iterable[Line], width: int) -> Iterator[Line]:
    for line in lines:
        yield from wrap(line, width) if line else [()]
