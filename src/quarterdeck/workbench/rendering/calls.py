"""Tool calls as lines: one line each, and below it what a person should not miss.

An edit shows its change, a command that runs or failed the end of its output, the call of a
sub-agent what that did last. Everything else is there once the call is unfolded.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, cast

from quarterdeck.wire.event_text import CallText, describe_call, describe_exit
from quarterdeck.wire.terminal_text import count_noun
from quarterdeck.wire.tool_calls import Diff

from ..sanitize import sanitize_line, sanitize_text
from ..stores.blocks import Block, RunBlock, TextBlock, ToolBlock, format_json, has_failed
from . import glyphs
from .code import highlight_code
from .diffs import (
    LONGEST_DIFF,
    change_rows,
    count_change_rows,
    count_changed_lines,
    draw_change,
    patch_lines,
)
from .images import draw_images
from .lines import Line, Span, clip, indented, plain, width_of, wrap

__all__ = [
    "STATUS_SIGNS",
    "call_lines",
    "call_sign",
    "fit_line",
    "format_counts",
    "format_duration",
    "put_elapsed",
    "run_lines",
]

STATUS_SIGNS = {
    "pending": (glyphs.STARTING, "faint"),
    "in_progress": (glyphs.RUNNING, "running"),
    "completed": (glyphs.DONE, "good"),
    "failed": (glyphs.FAILED, "bad"),
    "cancelled": (glyphs.STOPPED, "faint"),
}
_INDENT: Span = ("  ", "text")
_LIVE_LINES = 3
_FAILED_LINES = 5
_PERSONS_LINES = 10
"""Lines of the output of a command that the person ran."""
_AROUND = 2
_FOLDED_DIFF = 20
"""Lines of a change that are shown of a folded call."""
_MOST_LINES = 400
"""Lines of one tool call's details; the log has all."""
_MOST_DETAIL = 60_000
"""Characters of one text among them."""
_MOST_DIFFS = 20
_TAIL = 4_000
_LONGEST_LINE = 1_000
_LEAST_OBJECT = 16
_RUNNING_ROOM = 5
"""Cells at the right of a running call: its time is drawn there while it ticks."""
_SUMMARY = re.compile(
    r"\b\d[\d,.]* (?:passed|failed|errors?|warnings?|tests?|files?|skipped|problems?|ok)\b"
    r"|^(?:OK|FAILED|FAIL|PASS)\b|\bnothing to commit\b",
    re.IGNORECASE,
)
_WIDE_GAP = re.compile(r"(?<=\S) {4,}")
_ORDERS = ("command", "cmd", "script")
_PATCH = re.compile(r"\A(?:diff --git |--- |@@ |\*\*\* Begin Patch)", re.MULTILINE)
_TASKS = frozenset(("task", "agent", "spawn_agent", "subagent"))


def format_duration(microseconds: int) -> str:
    """How long, in one unit: ``0.4s``, ``8s``, ``4m``, ``2h``; nothing for less than 0.05 s."""
    seconds = microseconds / 1_000_000
    if seconds < 0.05:
        return ""
    if seconds < 0.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if whole >= length:
            return f"{whole // length}{unit}"
    return f"{whole}s"


def format_counts(diffs: Iterable[Diff]) -> str:
    """Lines that came and went in several changes."""
    counts = [count_changed_lines(diff.old_text, diff.new_text) for diff in diffs]
    added, removed = sum(one for one, _ in counts), sum(one for _, one in counts)
    return f"+{added} {glyphs.MINUS}{removed}"


def fit_line(before: Line, words: Span, result: Line, right: str, width: int) -> Line:
    """One line: the words are cut so that the result and, if it fits, the right edge are whole.

    ``right``: may be blank, to keep room for what is drawn there later.
    """
    room = width - width_of(before)
    room -= width_of(result) + 2 if result else 0
    side = len(right) + 2 if right else 0
    if room - side < _LEAST_OBJECT:
        right, side = "", 0
    shown = clip((words,), max(1, min(room - side, width), min(_LEAST_OBJECT, room)))
    line: Line = (*before, *shown)
    if result:
        line = (*line, ("  ", "text"), *result)
    if right.strip():
        gap = max(2, width - width_of(line) - len(right))
        line = (*line, (" " * gap, "text"), (right, "faint"))
    return clip(line, width)


def call_sign(block: ToolBlock) -> Span:
    """The sign of a call's state; a command whose exit code is not 0 failed."""
    if block.is_asking:
        return ("?", "asking")
    return STATUS_SIGNS["failed" if has_failed(block) else block.status]


def put_elapsed(line: Line, microseconds: int, width: int) -> Line:
    """The line of a running call with its time at the right, where room for that was kept."""
    right = format_duration(max(0, microseconds) // 1_000_000 * 1_000_000)
    room = width - width_of(line) - len(right)
    return (*line, (" " * room, "text"), (right, "faint")) if right and room > 1 else line


def call_lines(block: ToolBlock, width: int) -> list[Line]:
    """The lines of a call, folded or not."""
    lines = [_head(block, width)]
    room = max(1, width - len(_INDENT[0]))
    images = draw_images(block.images, width, is_large=block.expanded)
    details = _details(block, room) if block.expanded else _glance(block, room)
    shown = [clip(line, room) for line in islice(details, _MOST_LINES + 1)]
    if len(shown) > _MOST_LINES:
        more = "… more lines: /whole saves all of it to a file"
        shown = [*shown[:_MOST_LINES], *wrap([(more, "faint")], room)]
    return [*lines, *indented(shown, _INDENT, _INDENT), *images]


def run_lines(run: RunBlock, width: int) -> list[Line]:
    """Reads and searches in one line."""
    files: dict[str, None] = {}
    folders = searches = 0
    for call in run.calls:
        words = _words(call)
        if call.kind == "search" or words.verb in ("found", "searched"):
            searches += 1
        elif words.verb == "listed":
            folders += 1
        else:
            files[words.object] = None
    parts = [f"read {count_noun(len(files), 'file')}"] if files else []
    parts += [f"listed {count_noun(folders, 'folder')}"] if folders else []
    times = "once" if searches == 1 else "twice" if searches == 2 else f"{searches:,} times"
    parts += [f"searched {times}"] if searches else []
    began, ended = run.calls[0].began, max(call.ended for call in run.calls)
    right = format_duration(ended - began) if began and ended else ""
    sign, role = STATUS_SIGNS["completed"]
    return [fit_line(((f"{sign} ", role),), (", ".join(parts), "faint"), (), right, width)]


def _head(block: ToolBlock, width: int) -> Line:
    sign, role = call_sign(block)
    words = _words(block)
    before: list[Span] = [(f"{sign} ", role)]
    if words.verb:
        before.append((f"{words.verb} ", "faint"))
    right = " " * _RUNNING_ROOM
    if block.status != "in_progress":
        known = block.began and block.ended
        right = format_duration(block.ended - block.began) if known else ""
    role = "strong" if _is_card(block) else "text"
    return fit_line(tuple(before), (words.object, role), _result(block), right, width)


def _words(block: ToolBlock) -> CallText:
    """The verb and the object of a call, literal and with paths from the agent's directory on."""
    title = block.title or block.asked or block.call
    over = block.status not in ("pending", "in_progress")
    tense = "wanted" if block.status == "failed" else "past" if over else "present"
    verb, object_ = describe_call(title, name=block.name, kind=block.kind, tense=tense)
    if block.is_persons:
        verb = "you ran" if over else "you run"
    paths = dict.fromkeys(diff.path for diff in block.diffs)
    if block.kind == "edit" and block.diffs:
        if all(diff.old_text is None for diff in block.diffs):
            verb = {"wanted": "create", "past": "created", "present": "creating"}[tense]
        object_ = next(iter(paths)) if len(paths) == 1 else count_noun(len(paths), "file")
    if block.cwd and block.kind != "execute":
        object_ = object_.replace(f"{block.cwd.rstrip('/')}/", "")
    if _is_card(block):
        name, _, rest = object_.partition(" ")
        object_ = rest if name.rstrip(":").lower() in _TASKS and rest else object_
        verb = verb or "agent"
    first, _, rest = object_.strip().partition("\n")
    object_ = sanitize_line(first, 400) + (" …" if rest.strip() else "")
    return CallText(sanitize_line(verb, 40), object_)


def _is_card(block: ToolBlock) -> bool:
    """Whether a sub-agent works for it."""
    return block.inner is not None or (block.name or "").lower() in _TASKS


def _result(block: ToolBlock) -> Line:
    """What came of a call, in a few words."""
    if block.is_asking:
        return (("needs permission", "asking"),)
    if block.is_interrupted or _ended_with_its_turn(block):
        return (("interrupted", "faint"),)
    if block.diffs and block.status != "failed":
        shown = block.diffs[:_MOST_DIFFS]
        more = " and more" if len(block.diffs) > _MOST_DIFFS else ""
        return ((format_counts(shown) + more, "faint"),)
    if _is_card(block) and block.inner_calls:
        return ((count_noun(block.inner_calls, "call"), "faint"),)
    exit_ = sanitize_line(describe_exit(block.exit), 30)
    spans: list[Span] = [(exit_, "bad")] if exit_ else []
    if block.status not in ("pending", "in_progress", "cancelled"):
        words = _outcome(block)
        spans += [("  ", "text")] if spans and words else []
        spans += [(words, "text" if exit_ else "faint")] if words else []
    return tuple(spans)


def _ended_with_its_turn(block: ToolBlock) -> bool:
    """Whether an agent gave a call up for no other reason than that its turn was interrupted."""
    is_given_up = block.status == "cancelled" and not block.is_persons
    return is_given_up and not block.decision and not block.reason


def _outcome(block: ToolBlock) -> str:
    """A line of a command that sums it up, or how many lines a call gave."""
    text = _text(block)
    if block.kind == "execute":
        lines = sanitize_text(text[-_TAIL:]).strip().split("\n")
        for line in reversed(lines[-3:]):
            bare = line.strip(" =-*")
            if _SUMMARY.search(bare) and len(bare) <= 60:
                return bare
    if block.status == "failed" or block.kind not in ("execute", "read", "search"):
        return ""
    bare = text.strip("\n")
    return count_noun(bare.count("\n") + 1, "line") if bare.strip() else ""


def _text(block: ToolBlock) -> str:
    return block.output or "\n".join(block.texts)


def _glance(block: ToolBlock, width: int) -> Iterator[Line]:
    """What a folded call shows below its line."""
    failed = has_failed(block)
    if _is_card(block):
        yield from _last_action(block, width)
    elif block.kind == "execute" or block.terminals:
        yield from _last_output(block, width)
    elif block.diffs and not block.is_asking and not failed:
        yield from _fold(_changes(block, width), _FOLDED_DIFF, _count_rows(block))
    elif block.kind == "edit" and not block.is_asking and (patch := _patch(block)):
        lines = (clip(line, width) for line in patch_lines(patch))
        yield from _fold(lines, _FOLDED_DIFF, patch.rstrip("\n").count("\n") + 1)
    if (failed or block.status == "cancelled") and block.reason:
        role = "bad" if failed else "faint"
        yield from wrap(plain(sanitize_line(block.reason, 300), role), width)
    elif failed and block.kind != "execute" and not block.terminals:
        yield from _last_lines(_text(block), _FAILED_LINES, width)
    if block.decision and block.decision.startswith(("denied", "cancelled")):
        yield from wrap(plain(sanitize_line(block.decision), "faint"), width)


def _last_output(block: ToolBlock, width: int) -> Iterator[Line]:
    """The end of what a command of the person says, or of one that runs or failed."""
    if block.is_persons:
        yield from _last_lines(_text(block), _PERSONS_LINES, width)
    elif block.status == "in_progress":
        yield from _last_lines(_text(block), _LIVE_LINES, width)
    elif has_failed(block):
        yield from _last_lines(_text(block), _FAILED_LINES, width, _outcome(block))


def _last_lines(text: str, most: int, width: int, but: str = "") -> Iterator[Line]:
    """The last lines of some output, each in one line, without one that has ``but``."""
    end = sanitize_text(text[-_TAIL:].rstrip())
    lines = [line for line in end.split("\n") if line.strip("-=_* ") and not (but and but in line)]
    for line in lines[-most:]:
        shown = plain(line[:_LONGEST_LINE], "terminal")
        if width_of(shown) > width:  # what a program put at the right edge of its own screen
            shown = plain(_WIDE_GAP.sub("  ", line[:_LONGEST_LINE]), "terminal")
        yield clip(shown, width)


def _fold(lines: Iterator[Line], most: int, total: int) -> Iterator[Line]:
    """The first lines, and how many of all there are more; working those out takes time."""
    yield from islice(lines, most)
    if next(lines, None) is not None:
        yield plain(f"… {count_noun(max(1, total - most), 'more line')}", "faint")


def _count_rows(block: ToolBlock) -> int:
    """How many lines all changes of a call have, if none is wrapped."""
    several = len({diff.path for diff in block.diffs}) > 1
    small = [d for d in block.diffs if len(d.old_text or "") + len(d.new_text) <= LONGEST_DIFF]
    rows = sum(count_change_rows(d.old_text, d.new_text, around=_AROUND) for d in small)
    return rows + len(block.diffs) - len(small) + several * len(block.diffs)


def _last_action(block: ToolBlock, width: int) -> Iterator[Line]:
    """What the sub-agent of a call does, or did last."""
    inner, before = block.inner, (f"{glyphs.CORNER} ", "faint")
    if inner is None:
        return
    if isinstance(inner, ToolBlock):
        sign, role = call_sign(inner)
        words = _words(inner).words
        line: Line = (before, (f"{sign} ", role), (words, "faint"))
    else:
        line = (before, (_first_words(inner), "faint"))
    yield clip(line, width)


def _first_words(block: Block) -> str:
    if isinstance(block, TextBlock):
        words = "".join(block.parts[:5])[:400].strip()
        return ("thinks: " if block.kind == "thought" else "") + sanitize_line(words, 200)
    return sanitize_line(str(getattr(block, "text", "")), 200)


def _changes(block: ToolBlock, width: int) -> Iterator[Line]:
    """The changes of a call; each has its name before it if there are several files."""
    several = len({diff.path for diff in block.diffs}) > 1
    for diff in block.diffs:
        if several:
            path = diff.path.removeprefix(f"{block.cwd.rstrip('/')}/") if block.cwd else diff.path
            counts = format_counts([diff])
            yield from wrap(((sanitize_line(path), "strong"), (f"  {counts}", "faint")), width)
        if len(diff.old_text or "") + len(diff.new_text) > LONGEST_DIFF:
            yield plain("this change is too large to show here", "faint")
            continue
        first = _first_number(block, diff)
        longest = max((diff.old_text or "").count("\n"), diff.new_text.count("\n"))
        digits = max(3, len(str(longest + (first or 1))))
        rows = change_rows(
            diff.path, diff.old_text, diff.new_text, around=_AROUND, first=first or 1
        )
        yield from draw_change(rows, width, digits=digits, numbers=first is not None)


def _first_number(block: ToolBlock, diff: Diff) -> int | None:
    """The number of the first line; None: the change is of a piece whose place is not known."""
    if diff.old_text is None or diff.old_text not in _given_pieces(block.raw_input):
        return 1
    return next((one.line for one in block.locations if one.path == diff.path and one.line), None)


def _given_pieces(raw_input: Any) -> set[str]:
    """The texts that an agent gave to be replaced: a change of one of these is not of a file."""
    if not isinstance(raw_input, Mapping):
        return set()
    given = cast("Mapping[str, Any]", raw_input)
    edits = given.get("edits")
    several = cast("list[Any]", edits) if isinstance(edits, list) else []
    found: set[str] = set()
    for one in (given, *several):
        if isinstance(one, Mapping):
            values = cast("Mapping[str, Any]", one).values()
            found |= {value for value in values if isinstance(value, str)}
    return found


def _patch(block: ToolBlock) -> str:
    """The patch that an agent shows as a text; empty: there is none."""
    return next((text for text in block.texts if _PATCH.match(text)), "")


def _details(block: ToolBlock, width: int) -> Iterator[Line]:
    """All of an unfolded call."""
    if not block.diffs and not _patch(block):
        yield from _input(block, width)
    yield from _changes(block, width)
    for text in block.texts:
        if _PATCH.match(text):
            yield from (part for line in patch_lines(text) for part in wrap(line, width))
        elif not block.output and not _is_last_message(block.inner, text):
            yield from _section(text, "terminal", width)
    if block.output:
        yield from _section(block.output, "terminal", width)
    shown = block.texts or block.images or block.diffs or block.output
    if block.raw_output is not None and not shown:
        yield from _section(format_json(block.raw_output), "terminal", width)
    if block.decision:
        yield from wrap(plain(sanitize_line(block.decision), "faint"), width)
    if block.reason:
        yield from wrap(plain(sanitize_line(block.reason), "bad"), width)


def _is_last_message(inner: Block | None, text: str) -> bool:
    """Whether a sub-agent's last words are the result of its call: they stand below it."""
    return isinstance(inner, TextBlock) and inner.text.strip() == text.strip()


def _input(block: ToolBlock, width: int) -> Iterator[Line]:
    """What a call was given: a command as code, anything else by name."""
    given = block.raw_input
    if isinstance(given, Mapping):
        for name, value in cast("Mapping[Any, Any]", given).items():
            if block.kind == "execute" and name in _ORDERS:
                yield from _command(value, width)
                continue
            label: Span = (f"{sanitize_line(str(name), 80)}: ", "faint")
            first, *others = _cut(format_json(value)).split("\n")
            yield from wrap((label, (first, "code")), width)
            for line in others:
                yield from indented(wrap(plain(line, "code"), width - 2), _INDENT, _INDENT)
    elif given is not None:
        yield from _section(format_json(given), "code", width)


def _command(value: Any, width: int) -> Iterator[Line]:
    words = cast("list[Any]", value) if isinstance(value, list) else [value]
    command = " ".join(map(str, words)) if len(words) > 1 else format_json(words[0])
    for line in highlight_code(_cut(command), "bash", longest=_MOST_DETAIL // 10):
        yield from wrap(line, width)


def _cut(text: str) -> str:
    shown = sanitize_text(text[:_MOST_DETAIL]).rstrip("\n")
    left = len(text) - _MOST_DETAIL
    return shown + (f"\n… {left:,} more characters" if left > 0 else "")


def _section(text: str, role: str, width: int) -> Iterator[Line]:
    for line in _cut(text).split("\n"):
        yield from wrap(plain(line, role), width)
