"""Replaces text in a file, for ``edit`` and ``multi_edit``: finds the place, shows and writes.

Four ways are tried, from strict to tolerant: the exact text; the text whatever its line ends;
whole lines but for blanks at their ends; whole lines but for their indentation. The first way that
finds anything decides.
"""

import asyncio
import difflib
import heapq
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from quarterdeck.system.api import FileIdentity
from quarterdeck.wire.conversation import TextPart
from quarterdeck.wire.tool_calls import ToolCallContent, ToolCallLocation, ToolKind

from ..diffs import diff_content, first_change, unified
from ..file_access import (
    FileTarget,
    FileText,
    decode_file,
    expect_seen,
    expect_unmoved,
    look_up_file,
)
from ..tool import LiveCall, PreparedCall, ToolError, ToolOutcome
from ..truncation import shorten
from ..workspace import ToolWorkspace

__all__ = [
    "AppliedReplacements",
    "Indents",
    "Replacement",
    "TextMatches",
    "TextSpan",
    "apply_replacements",
    "find_text",
    "indents_of",
    "prepare_change",
]


@dataclass(frozen=True, slots=True)
class Indents:
    """Maps each indentation of the searched text to the one in the file."""

    known: dict[str, str]

    def move(self, line: str) -> str:
        """Give a line of the new text the file's indentation."""
        indent = _indent(line)
        body = line[len(indent) :]
        if not body.strip():
            return line
        return self._moved(indent) + body

    def _moved(self, indent: str) -> str:
        if indent in self.known:
            return self.known[indent]
        shorter = [one for one in self.known if indent.startswith(one)]
        if shorter:
            nearest = max(shorter, key=len)
            return self.known[nearest] + self._deeper(indent[len(nearest) :])
        longer = [one for one in self.known if one.startswith(indent)]
        if not longer:
            return indent
        nearest = min(longer, key=len)
        surplus = nearest[len(indent) :]
        there = self.known[nearest]
        return there.removesuffix(surplus) if there.endswith(surplus) else indent

    def _deeper(self, step: str) -> str:
        """A further step inwards: in tabs if the file has tabs where the text has blanks."""
        pairs = [(a, b) for a, b in self.known.items() if a and b and set(b) == {"\t"}]
        for blanks, tabs in pairs:
            width, rest = divmod(len(blanks), len(tabs))
            if set(blanks) == {" "} and not rest and not len(step) % width:
                return "\t" * (len(step) // width)
        return step


def indents_of(wanted: Sequence[str], there: Sequence[str]) -> Indents | None:
    """Compare the indentation of equal lines; None if one of the text means two of the file."""
    known: dict[str, str] = {}
    for ours, theirs in zip(wanted, there, strict=True):
        if ours.strip() and known.setdefault(_indent(ours), _indent(theirs)) != _indent(theirs):
            return None
    return Indents(known)


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A piece of the file and what comes in its place."""

    start: int
    end: int
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMatches:
    """Where the text is; no spans: nowhere."""

    spans: tuple[TextSpan, ...] = ()
    """In order, without overlaps."""
    ignoring: str = ""
    """What was not compared, for the model; empty for an exact match."""
    is_exact: bool = True
    """Whether several places may be replaced together."""


_LINE_END = r"(?:\r\n|(?<!\r)\n)"
_Way: TypeAlias = Callable[[str, str, str], TextMatches]


def find_text(text: str, old: str, new: str) -> TextMatches:
    """Find every place of ``old`` in ``text``; what comes in its place has the file's form."""
    ways: tuple[_Way, ...] = (_exact, _any_line_ends, _trailing_blanks, _indentation)
    return next((found for way in ways if (found := way(text, old, new)).spans), TextMatches())


def _exact(text: str, old: str, new: str) -> TextMatches:
    """Exactly as written, where line ends were written as CR LF: then they are meant."""
    if "\r\n" not in old:
        return TextMatches()
    places = re.finditer(f"(?={re.escape(old)})", text)
    spans = (TextSpan(place.start(), place.start() + len(old), new) for place in places)
    return TextMatches(spans=tuple(spans))


def _any_line_ends(text: str, old: str, new: str) -> TextMatches:
    """Exactly, but for line ends, which are those of the file; places that overlap count too."""
    lines = old.replace("\r\n", "\n").split("\n")
    wanted = _LINE_END.join(map(re.escape, lines))
    as_written = "\r\n" in new and "\r\n" not in old
    spans: list[TextSpan] = []
    for place in re.finditer(f"(?=({wanted}))", text):
        start, end = place.span(1)
        replacement = new if as_written else _with_ends(new, _is_crlf(text, start, end))
        spans.append(TextSpan(start, end, replacement))
    return TextMatches(spans=tuple(spans))


def _is_crlf(text: str, start: int, end: int) -> bool:
    """Whether the first line end within the place, or else after it, is CR LF."""
    first = text.find("\n", start, end)
    return text[first - 1 : first] == "\r" if first > 0 else _is_crlf_at(text, start)


def _with_ends(text: str, crlf: bool) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n" if crlf else "\n")


def _is_crlf_at(text: str, position: int) -> bool:
    """Whether the line of this position ends in CR LF, or the one before, if it is the last."""
    end = text.find("\n", position)
    if end < 0:
        end = text.rfind("\n")
    return end > 0 and text[end - 1] == "\r"


def _trailing_blanks(text: str, old: str, new: str) -> TextMatches:
    lines = _Lines(text)
    wanted = _split(old)
    spans = [
        lines.span(first, len(wanted), old, new)
        for first in lines.windows([line.rstrip() for line in wanted], str.rstrip)
    ]
    return TextMatches(spans=tuple(spans), ignoring="trailing whitespace", is_exact=False)


def _indentation(text: str, old: str, new: str) -> TextMatches:
    lines = _Lines(text)
    wanted = _split(old)
    spans: list[TextSpan] = []
    for first in lines.windows([line.strip() for line in wanted], str.strip):
        there = lines.contents[first : first + len(wanted)]
        indents = indents_of(wanted, there)
        if indents is not None:
            spans.append(lines.span(first, len(wanted), old, _moved(new, indents)))
    return TextMatches(spans=tuple(spans), ignoring="indentation", is_exact=False)


def _moved(new: str, indents: Indents) -> str:
    return "\n".join(map(indents.move, new.split("\n")))


def _split(text: str) -> list[str]:
    """The lines of a text to look for, without line ends."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if len(lines) > 1 and not lines[-1] else lines


class _Lines:
    """The lines of a file and where they are."""

    def __init__(self, text: str) -> None:
        self._text = text
        parts = text.split("\n")
        self.contents = [part.removesuffix("\r") for part in parts]
        self._starts = [0]
        for part in parts:
            self._starts.append(self._starts[-1] + len(part) + 1)

    def windows(self, wanted: list[str], form: Callable[[str], str]) -> list[int]:
        """The first line of each window whose lines, brought into ``form``, are the wanted ones."""
        if not any(wanted):
            return []
        anchor = next(index for index, line in enumerate(wanted) if line)
        formed = [form(line) for line in self.contents]
        count = len(wanted)
        return [
            index - anchor
            for index, line in enumerate(formed)
            if line == wanted[anchor]
            and index >= anchor
            and formed[index - anchor : index - anchor + count] == wanted
        ]

    def span(self, first: int, count: int, old: str, new: str) -> TextSpan:
        """The text of these lines; with the last line's end only if ``old`` has one."""
        start, last = self._starts[first], first + count - 1
        end = self._starts[last] + len(self.contents[last])
        if old.endswith("\n") and count > 0 and self._starts[last + 1] <= len(self._text):
            end = self._starts[last + 1]
        return TextSpan(start, end, _with_ends(new, _is_crlf_at(self._text, start)))


_LISTED = 20
_SHOWN_LINES = 12
_SEARCHED_LINES = 20_000
_COMPARED = 200
_TRIED_LINES = 3
_CANDIDATES = 20


class Replacement(Protocol):
    """One replacement, as the model asks for it."""

    @property
    def old(self) -> str:
        """The text to replace."""
        ...

    @property
    def new(self) -> str:
        """What comes in its place."""
        ...

    @property
    def replace_all(self) -> bool:
        """Whether every place is meant."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedReplacements:
    """The text after all replacements."""

    text: str
    changes: tuple[tuple[str, str], ...]
    """What was taken out and put in, in order."""
    notes: tuple[str, ...] = ()
    """How tolerantly a text was found, for the model."""


def apply_replacements(
    text: str, replacements: Sequence[Replacement], shown: str
) -> AppliedReplacements:
    """Make the replacements one after the other, each in the result of the one before.

    Takes time for large texts; call it in a thread. ``shown`` names the file in errors.

    Raises:
        ToolError: one of them cannot be made; then none is.
    """
    changes: list[tuple[str, str]] = []
    notes: list[str] = []
    for number, one in enumerate(replacements, 1):
        which = f"edit {number} of {len(replacements)}: " if len(replacements) > 1 else ""
        spans, note = _spans(text, one, which, shown)
        changes += ((text[span.start : span.end], span.new) for span in spans)
        text = _replaced(text, spans)
        if note:
            notes.append(which + note)
    return AppliedReplacements(text=text, changes=tuple(changes), notes=tuple(notes))


def _spans(text: str, one: Replacement, which: str, shown: str) -> tuple[list[TextSpan], str]:
    if not one.old:
        raise ToolError(f"{which}'old' is empty; use write to create or replace a whole file.")
    if one.old == one.new:
        raise ToolError(f"{which}'old' and 'new' are identical; there is nothing to change.")
    found = find_text(text, one.old, one.new)
    if not found.spans:
        raise ToolError(_not_found(text, one.old, which, shown))
    if len(found.spans) > 1 and not (one.replace_all and found.is_exact):
        raise ToolError(_ambiguous(text, found, which, shown))
    note = f"matched ignoring {found.ignoring}" if found.ignoring else ""
    return _without_overlaps(found.spans), note


def _without_overlaps(spans: Sequence[TextSpan]) -> list[TextSpan]:
    kept: list[TextSpan] = []
    for span in spans:
        if not kept or span.start >= kept[-1].end:
            kept.append(span)
    return kept


def _replaced(text: str, spans: Sequence[TextSpan]) -> str:
    pieces: list[str] = []
    position = 0
    for span in spans:
        pieces += (text[position : span.start], span.new)
        position = span.end
    return "".join([*pieces, text[position:]])


def _ambiguous(text: str, found: TextMatches, which: str, shown: str) -> str:
    numbers = [text.count("\n", 0, span.start) + 1 for span in found.spans[:_LISTED]]
    listed = ", ".join(map(str, numbers)) + (", …" if len(found.spans) > _LISTED else "")
    loosely = f" (ignoring {found.ignoring})" if found.ignoring else ""
    advice = "Give more surrounding lines so that it is unique"
    advice += ", or set replace_all." if found.is_exact else "."
    return (
        f"{which}'old' is in {shown!r} {len(found.spans)} times{loosely}, at lines {listed}; "
        f"nothing was changed. {advice}"
    )


def _not_found(text: str, old: str, which: str, shown: str) -> str:
    message = f"{which}'old' is not in {shown!r}; nothing was changed."
    if re.match(r"\s*\d+\t", old):
        return f"{message} Omit the line numbers that read shows before each line."
    lines = text.split("\n")
    near = _nearest(lines, old)
    if near is None:
        return f"{message} No line of the file is similar. Read the file again."
    end = min(near + min(old.count("\n") + 1, _SHOWN_LINES), len(lines))
    rows = [f"{i + 1:>5}\t{shorten(lines[i].rstrip(), 300)}" for i in range(near, end)]
    return "\n".join([f"{message} The nearest lines are:", *rows])


def _nearest(lines: Sequence[str], old: str) -> int | None:
    """The line where something most like ``old`` begins; None if nothing is like it."""
    places: dict[str, int] = {}
    for index, line in enumerate(lines[:_SEARCHED_LINES]):
        places.setdefault(line.strip()[:_COMPARED], index)
    places.pop("", None)
    pairs = {line: _pairs(line) for line in places}
    wanted = [line.strip()[:_COMPARED] for line in old.split("\n")]
    for offset, line in list(enumerate(wanted))[:_TRIED_LINES]:
        close = difflib.get_close_matches(line, _candidates(pairs, line), n=1) if line else []
        if close:
            return max(places[close[0]] - offset, 0)
    return None


def _candidates(pairs: Mapping[str, set[str]], line: str) -> list[str]:
    """The few lines that share most pairs of letters: comparing all of them takes seconds."""
    wanted = _pairs(line)
    return heapq.nlargest(
        _CANDIDATES, pairs, key=lambda one: len(pairs[one] & wanted) / len(pairs[one] | wanted)
    )


def _pairs(line: str) -> set[str]:
    return {line[index : index + 2] for index in range(max(len(line) - 1, 1))}


_LIMIT = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """A file as it is, and as it would be."""

    file: FileText
    identity: FileIdentity
    applied: AppliedReplacements
    content: tuple[ToolCallContent, ...]
    line: int

    @property
    def data(self) -> bytes:
        """The bytes to write."""
        return self.file.encode(self.applied.text)


async def prepare_change(
    tool: str,
    kind: ToolKind,
    path: str,
    replacements: Sequence[Replacement],
    workspace: ToolWorkspace,
) -> PreparedCall:
    """Find out what would change. Raises NoSuchPathError, OutsideRootsError, ToolError."""
    target, stat = await look_up_file(workspace, path, "write")
    if stat.size > _LIMIT:
        raise ToolError(f"{target.shown!r} has {stat.size} bytes; at most {_LIMIT} can be edited.")
    planned = await _change(workspace, target, replacements)

    async def run(live: LiveCall) -> ToolOutcome:
        return await _run(workspace, target, replacements, planned)

    return PreparedCall(
        title=f"Edit {target.shown}",
        call=workspace.call(tool, kind, paths=(target.use,)),
        run=run,
        content=planned.content,
        locations=(ToolCallLocation(path=target.path, line=planned.line),),
    )


async def _change(
    workspace: ToolWorkspace, target: FileTarget, replacements: Sequence[Replacement]
) -> _Change:
    # Before anything of the content can get into an error: was the model allowed to see it?
    expect_seen(workspace, target)
    there = await workspace.system.files.read(target.real)
    expect_seen(workspace, target, there.identity)
    return await asyncio.to_thread(_changed, target, there.data, there.identity, replacements)


def _changed(
    target: FileTarget, data: bytes, identity: FileIdentity, replacements: Sequence[Replacement]
) -> _Change:
    file = decode_file(data, target.shown)
    applied = apply_replacements(file.text, replacements, target.shown)
    if applied.text == file.text:
        raise ToolError(f"The edits do not change {target.shown!r}.")
    try:
        applied.text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolError(f"'new' is not valid text ({error.reason}); send it again.") from error
    return _Change(
        file=file,
        identity=identity,
        applied=applied,
        content=diff_content(target.path, file.text, applied.text),
        line=first_change(file.text, applied.text),
    )


async def _run(
    workspace: ToolWorkspace,
    target: FileTarget,
    replacements: Sequence[Replacement],
    planned: _Change,
) -> ToolOutcome:
    """Make the change in the file as it is now: a call of the same step may have edited it."""
    files = workspace.system.files
    async with workspace.seen.lock(target.real):
        await expect_unmoved(files, target)
        change = await _change(workspace, target, replacements)
        if change.applied.changes != planned.applied.changes:
            raise ToolError(
                f"Another call changed {target.shown!r} in the same place; this edit was not "
                "made. Read the file again, then retry."
            )
        identity = await files.write(target.real, change.data, expected=change.identity)
        workspace.seen.note(target.real, identity)
    return ToolOutcome(
        result=(TextPart(text=await asyncio.to_thread(_result_text, target, change)),),
        content=change.content if change.file != planned.file else None,
        locations=(ToolCallLocation(path=target.path, line=change.line),),
    )


def _result_text(target: FileTarget, change: _Change) -> str:
    count = len(change.applied.changes)
    head = f"Edited {target.shown}: {count} replacement{'s' if count != 1 else ''}."
    notes = [f"({note})" for note in change.applied.notes]
    return "\n".join([head, *notes, unified(change.file.text, change.applied.text)])
