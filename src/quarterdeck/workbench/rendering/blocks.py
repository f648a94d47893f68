"""Blocks of a transcript as lines."""

from collections.abc import Iterable, Iterator

from ..literal import literal, one_line
from ..stores.blocks import Block, NoteBlock, PlanBlock, PromptBlock, TextBlock, ToolBlock
from ..stores.contents import as_json
from .diffs import diff_counts, diff_lines
from .lines import Line, Span, clip, indented, plain, wrap
from .messages import MessageLines

__all__ = ["STATUS_SIGNS", "block_lines", "guess_height", "needs_gap"]

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
_MOST_LINES = 400
"""Lines of one tool call's details; the log has all."""


def needs_gap(before: Block | None, block: Block) -> bool:
    """Whether an empty line parts a block from the one before."""
    if before is None:
        return False
    return not (_is_small(before) and _is_small(block))


def _is_small(block: Block) -> bool:
    thought = isinstance(block, TextBlock) and block.kind == "thought"
    return thought or isinstance(block, ToolBlock | NoteBlock)


def guess_height(block: Block, width: int) -> int:
    """About how many lines a block takes, without rendering it."""
    if isinstance(block, TextBlock) and (block.kind != "thought" or block.expanded):
        return 1 + sum(len(part) // max(1, width) + part.count("\n") for part in block.parts)
    if isinstance(block, PromptBlock):
        return 1 + len(block.text) // max(1, width) + block.text.count("\n")
    if isinstance(block, PlanBlock):
        return 1 + len(block.entries)
    return 1


def block_lines(block: Block, width: int, message: MessageLines) -> list[Line]:
    """The lines of a block; ``message`` is what was kept of it from the last time."""
    width = max(8, width)
    match block:
        case PromptBlock():
            return _prompt(block, width)
        case TextBlock(kind="thought"):
            return _thought(block, width)
        case TextBlock(kind="user"):
            return list(_signed(("❯", "prompt"), literal(block.text), "prompt", width))
        case TextBlock():
            return message.lines(block)
        case ToolBlock():
            return _tool(block, width)
        case PlanBlock():
            return _plan(block, width)
        case NoteBlock():
            sign, role = _NOTE_SIGNS[block.severity]
            text = literal(block.text).strip()
            return list(_signed((sign, role), text, role, width))


def _signed(sign: Span, text: str, role: str, width: int) -> Iterator[Line]:
    lines = (line for part in text.split("\n") for line in wrap([(part, role)], width - 2))
    return indented(lines, (sign[0] + " ", sign[1]), ("  ", role))


def _prompt(block: PromptBlock, width: int) -> list[Line]:
    text = literal(block.text).strip("\n")
    if block.origin != "person":
        text = f"({block.origin}) {text}"
    return list(_signed(("❯", "prompt-sign"), text, "prompt", width))


def _thought(block: TextBlock, width: int) -> list[Line]:
    text = literal(block.text).strip()
    if block.expanded:
        return list(_signed(("✻", "thought"), text, "thought", width))
    first, _, rest = text.partition("\n")
    more = f"  (+{rest.count(chr(10)) + 1} lines)" if rest.strip() else ""
    return [_fit((("✻ ", "thought"),), first.replace("**", ""), "thought", more, width)]


def _fit(before: Line, text: str, role: str, after: str, width: int) -> Line:
    """One line: the text is cut so that what stands after it is seen whole."""
    room = width - sum(len(part) for part, _ in before) - len(after)
    return clip((*before, *clip(((text, role),), max(8, room)), (after, "faint")), width)


def _tool(block: ToolBlock, width: int) -> list[Line]:
    sign, role = ("?", "asking") if block.is_asking else STATUS_SIGNS[block.status]
    name = one_line(block.name or block.kind, 40)
    title = one_line(block.title or block.asked or block.call)
    before: Line = ((f"{sign} ", role), (f"{name} ", "tool"))
    lines = [_fit(before, title if title != name else "", "text", _summary(block), width)]
    details = _details(block) if block.expanded else _glance(block)
    room = width - len(_INDENT[0])
    shown = [part for line in details for part in wrap(line, room)]
    if len(shown) > _MOST_LINES:
        left = len(shown) - _MOST_LINES
        shown = [*shown[:_MOST_LINES], plain(f"… {left} more lines", "faint")]
    return lines + list(indented(shown, _INDENT, _INDENT))


def _summary(block: ToolBlock) -> str:
    parts: list[str] = []
    for diff in block.diffs[:20]:
        added, removed = diff_counts(diff.old_text, diff.new_text)
        parts.append(f"+{added} −{removed}")
    if block.exit not in (None, "0"):
        parts.append(f"exit {one_line(block.exit, 20)}")
    if block.is_asking:
        parts.append("needs your leave")
    return "  " + ", ".join(parts) if parts else ""


def _glance(block: ToolBlock) -> Iterator[Line]:
    """What a folded call shows below its line: only what a person should not miss."""
    if block.status == "in_progress" and block.output:
        last = literal(block.output).rstrip("\n").split("\n")[-_LIVE_LINES:]
        yield from (plain(one_line(line, 200), "terminal") for line in last)
    if block.status in ("failed", "cancelled") and block.reason:
        yield plain(one_line(block.reason, 300), "bad" if block.status == "failed" else "faint")
    if block.decision and block.decision.startswith(("reject", "cancelled")):
        yield plain(one_line(block.decision), "faint")


def _details(block: ToolBlock) -> Iterator[Line]:
    if block.raw_input is not None:
        yield from _section("input", as_json(block.raw_input), "code")
    for place in block.locations:
        where = f"{place.path}:{place.line}" if place.line else place.path
        yield plain(f"at {one_line(where)}", "faint")
    for diff in block.diffs:
        yield from diff_lines(diff.path, diff.old_text, diff.new_text)
    for text in block.texts:
        yield from _section("", text, "terminal")
    if block.output:
        yield from _section("output", block.output, "terminal")
    if block.raw_output is not None and not (block.texts or block.diffs or block.output):
        yield from _section("output", as_json(block.raw_output), "terminal")
    if block.decision:
        yield plain(one_line(block.decision), "faint")
    if block.reason:
        yield plain(one_line(block.reason), "bad")


def _section(title: str, text: str, role: str) -> Iterable[Line]:
    if title:
        yield plain(title, "faint")
    for line in literal(text).rstrip("\n").split("\n"):
        yield plain(line, role)


def _plan(block: PlanBlock, width: int) -> list[Line]:
    done = sum(entry.status == "completed" for entry in block.entries)
    lines: list[Line] = [(("Plan", "strong"), (f"  {done} of {len(block.entries)}", "faint"))]
    for entry in block.entries:
        role = {"completed": "faint", "in_progress": "strong"}.get(entry.status, "text")
        sign = _PLAN_SIGNS[entry.status]
        lines += _signed((f"  {sign}", role), one_line(entry.content), role, width - 2)
    return lines
