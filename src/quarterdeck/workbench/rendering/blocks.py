"""Blocks of a transcript as lines."""

from collections.abc import Iterable, Iterator
from itertools import islice

from quarterdeck.wire.terminal_text import count, count_noun

from ..sanitize import sanitize_line, sanitize_text
from ..stores.blocks import (
    Block,
    EndBlock,
    NoteBlock,
    PlanBlock,
    PromptBlock,
    TextBlock,
    ToolBlock,
    format_json,
)
from .agent_rows import format_money
from .code import diff_counts, diff_lines
from .lines import Line, Span, clip, indented, plain, wrap
from .markdown import markdown_lines

__all__ = ["STATUS_SIGNS", "block_lines", "can_fold", "guess_height", "left_note", "needs_gap"]

STATUS_SIGNS = {
    "pending": ("◌", "faint"),
    "in_progress": ("●", "running"),
    "completed": ("✓", "good"),
    "failed": ("✗", "bad"),
    "cancelled": ("⊘", "faint"),
}
_NOTE_SIGNS = {
    "quiet": ("·", "faint"),
    "info": ("i", "text"),
    "warning": ("!", "warning"),
    "error": ("✗", "bad"),
    "question": ("?", "asking"),
}
_PLAN_SIGNS = {"pending": "☐", "in_progress": "◐", "completed": "☑"}
_INDENT: Span = ("    ", "text")
_LIVE_LINES = 3
_PERSONS_LINES = 10
"""Lines of the output of a command that the person ran, while it is folded."""
_MOST_LINES = 400
"""Lines of one tool call's details; the log has all."""
_MOST_DETAIL = 60_000
"""Characters of one text among them."""
_FOLDED_LINES = 12
_FOLDED_TEXT = 1_500
"""Lines and characters of a prompt or a note that is folded."""


def needs_gap(before: Block | None, block: Block) -> bool:
    """Whether an empty line parts a block from the one before."""
    if before is None:
        return False
    if _is_persons(before) is not _is_persons(block):
        return True
    return not (_is_small(before) and _is_small(block))


def _is_persons(block: Block) -> bool:
    return isinstance(block, ToolBlock) and block.is_persons


def _is_small(block: Block) -> bool:
    thought = isinstance(block, TextBlock) and block.kind == "thought"
    return thought or isinstance(block, ToolBlock | NoteBlock | EndBlock)


def can_fold(block: Block) -> bool:
    """Whether there is more of a block than is shown while it is folded."""
    match block:
        case ToolBlock() | TextBlock(kind="thought"):
            return True
        case PromptBlock() | NoteBlock():
            text = block.text
            return len(text) > _FOLDED_TEXT or text.count("\n") >= _FOLDED_LINES
        case _:
            return False


def left_note(left: int) -> str:
    """Tells how to see what is not kept."""
    return f"… {left:,} more characters: /whole saves all of it to a file"


def guess_height(block: Block, width: int) -> int:
    """About how many lines a block takes, without rendering it."""
    if isinstance(block, TextBlock) and (block.kind != "thought" or block.expanded):
        return 1 + block.size // max(1, width) + block.text.count("\n")
    if isinstance(block, PromptBlock | NoteBlock):
        text = block.text if block.expanded else block.text[:_FOLDED_TEXT]
        lines = 1 + len(text) // max(1, width) + text.count("\n")
        return lines if block.expanded else min(lines, _FOLDED_LINES + 1)
    if isinstance(block, PlanBlock):
        return 1 + len(block.entries)
    return 1


def block_lines(block: Block, width: int) -> list[Line]:
    """The lines of a block that is not long."""
    width = max(8, width)
    match block:
        case PromptBlock():
            return _prompt(block, width)
        case TextBlock(kind="thought"):
            return _thought(block, width)
        case TextBlock(kind="user"):
            return list(_signed(("❯", "prompt"), sanitize_text(block.text), "prompt", width))
        case TextBlock():
            return markdown_lines(sanitize_text(block.text).strip("\n"), width)
        case ToolBlock():
            return _tool(block, width)
        case PlanBlock():
            return _plan(block, width)
        case NoteBlock():
            sign, role = _NOTE_SIGNS[block.severity]
            return _folding(block, block.text, (sign, role), role, width)
        case EndBlock():
            return _end(block, width)


def _folding(
    block: PromptBlock | NoteBlock, text: str, sign: Span, role: str, width: int
) -> list[Line]:
    """A text behind a sign; only its beginning while it is folded."""
    if block.expanded or not can_fold(block):
        return list(_signed(sign, sanitize_text(text).strip(), role, width))
    shown = "\n".join(text[:_FOLDED_TEXT].split("\n")[:_FOLDED_LINES])
    lines = list(_signed(sign, sanitize_text(shown).strip("\n"), role, width))
    left = getattr(block, "left", 0) + len(text) - len(shown)
    total = count_noun(text.count("\n") + 1, "line")
    more = f"… {left:,} more characters, {total} in all (expand: f3, enter)"
    return [*lines[:_FOLDED_LINES], clip((("  ", role), (more, "faint")), width)]


def _end(block: EndBlock, width: int) -> list[Line]:
    facts: list[str] = []
    if block.began is not None:
        facts.append(_seconds(max(0, block.ended - block.began[1]) // 1_000_000))
    if block.usage is not None:
        cached = f", {count(block.usage.cached)} cached" if block.usage.cached else ""
        facts.append(f"{count(block.usage.input)} in, {count(block.usage.output)} out{cached}")
    if block.cost is not None:
        facts.append(format_money(block.cost.amount, block.cost.currency))
    ending = (
        "done" if block.stop == "end_turn" else f"the turn ended: {block.stop.replace('_', ' ')}"
    )
    bad = block.stop in ("failed", "refusal")
    level = "quiet" if block.stop == "end_turn" else "error" if bad else "warning"
    sign, role = _NOTE_SIGNS[level]
    text = ending + (f": {sanitize_text(block.reason)}" if block.reason else "")
    return list(_signed((sign, role), " · ".join([text, *facts]), role, width))


def _seconds(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _signed(sign: Span, text: str, role: str, width: int) -> Iterator[Line]:
    lines = (line for part in text.split("\n") for line in wrap([(part, role)], width - 2))
    return indented(lines, (sign[0] + " ", sign[1]), ("  ", role))


def _prompt(block: PromptBlock, width: int) -> list[Line]:
    text = block.text.strip("\n")
    facts = [block.origin] if block.origin != "person" else []
    facts += ["steering"] if block.steers else []
    if facts:
        text = f"({', '.join(facts)}) {text}"
    return _folding(block, text, ("❯", "prompt-sign"), "prompt", width)


def _thought(block: TextBlock, width: int) -> list[Line]:
    if block.expanded:
        return list(_signed(("✻", "thought"), sanitize_text(block.text).strip(), "thought", width))
    text = block.text.strip()
    first, _, rest = text.partition("\n")
    more = f"  (+{count_noun(rest.count(chr(10)) + 1, 'line')})" if rest.strip() else ""
    first = sanitize_text(first[: 4 * width])
    return [_fit((("✻ ", "thought"),), first.replace("**", ""), "thought", more, width)]


def _fit(before: Line, text: str, role: str, after: str, width: int) -> Line:
    """One line: the text is cut so that what stands after it is seen whole."""
    room = width - sum(len(part) for part, _ in before) - len(after)
    return clip((*before, *clip(((text, role),), max(8, room)), (after, "faint")), width)


def _tool(block: ToolBlock, width: int) -> list[Line]:
    sign, role = ("?", "asking") if block.is_asking else STATUS_SIGNS[block.status]
    name = sanitize_line(block.name or block.kind, 40)
    title = _without(name, sanitize_line(block.title or block.asked or block.call))
    before: Line = ((f"{sign} ", role), (f"{name} ", "tool"))
    lines = [_fit(before, title, "text", _summary(block), width)]
    details = _details(block) if block.expanded else _glance(block)
    room = width - len(_INDENT[0])
    parts = (part for line in details for part in wrap(line, room))
    shown = list(islice(parts, _MOST_LINES + 1))
    if len(shown) > _MOST_LINES:
        more = "… more lines: /whole saves all of it to a file"
        shown = [*shown[:_MOST_LINES], *wrap([(more, "faint")], room)]
    return lines + list(indented(shown, _INDENT, _INDENT))


def _without(name: str, title: str) -> str:
    """A title that does not begin with the name, which stands before it already."""
    rest = title.removeprefix(name)
    return rest.lstrip(": ") if rest != title and not rest[:1].isalnum() else title


def _summary(block: ToolBlock) -> str:
    parts: list[str] = []
    for diff in block.diffs[:20]:
        added, removed = diff_counts(diff.old_text, diff.new_text)
        parts.append(f"+{added} −{removed}")
    if block.exit not in (None, "0"):
        parts.append(f"exit {sanitize_line(block.exit, 20)}")
    if block.is_asking:
        parts.append("needs permission")
    return "  " + ", ".join(parts) if parts else ""


def _glance(block: ToolBlock) -> Iterator[Line]:
    """What a folded call shows below its line: only what a person should not miss."""
    if block.output and (block.status == "in_progress" or block.is_persons):
        end = block.output[-4_000:].rstrip("\r\n")
        most = _PERSONS_LINES if block.is_persons else _LIVE_LINES
        lines = sanitize_text(end).split("\n")
        last = lines[-most:]
        if block.is_persons and len(lines) > most:
            yield plain(
                f"… {count_noun(block.output.rstrip().count(chr(10)) + 1, 'line')}", "faint"
            )
        yield from (plain(sanitize_line(line, 200), "terminal") for line in last)
    if block.status in ("failed", "cancelled") and block.reason:
        yield plain(
            sanitize_line(block.reason, 300), "bad" if block.status == "failed" else "faint"
        )
    if block.decision and block.decision.startswith(("reject", "cancelled")):
        yield plain(sanitize_line(block.decision), "faint")


def _details(block: ToolBlock) -> Iterator[Line]:
    if block.raw_input is not None:
        yield from _section("input", format_json(block.raw_input), "code")
    for place in block.locations:
        where = f"{place.path}:{place.line}" if place.line else place.path
        yield plain(f"at {sanitize_line(where)}", "faint")
    for diff in block.diffs:
        yield from diff_lines(diff.path, diff.old_text, diff.new_text)
    for text in block.texts:
        yield from _section("", text, "terminal")
    if block.output:
        yield from _section("output", block.output, "terminal")
    if block.raw_output is not None and not (block.texts or block.diffs or block.output):
        yield from _section("output", format_json(block.raw_output), "terminal")
    if block.decision:
        yield plain(sanitize_line(block.decision), "faint")
    if block.reason:
        yield plain(sanitize_line(block.reason), "bad")


def _section(title: str, text: str, role: str) -> Iterable[Line]:
    if title:
        yield plain(title, "faint")
    shown = text[:_MOST_DETAIL]
    for line in sanitize_text(shown).rstrip("\n").split("\n"):
        yield plain(line, role)
    if len(text) > len(shown):
        yield plain(f"… {len(text) - len(shown):,} more characters", "faint")


def _plan(block: PlanBlock, width: int) -> list[Line]:
    done = sum(entry.status == "completed" for entry in block.entries)
    lines: list[Line] = [(("Plan", "strong"), (f"  {done} of {len(block.entries)}", "faint"))]
    for entry in block.entries:
        role = {"completed": "faint", "in_progress": "strong"}.get(entry.status, "text")
        sign = _PLAN_SIGNS[entry.status]
        lines += _signed((f"  {sign}", role), sanitize_line(entry.content), role, width - 2)
    return lines
