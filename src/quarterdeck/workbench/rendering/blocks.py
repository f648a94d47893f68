"""Blocks of a transcript as lines."""

from collections.abc import Iterator

from quarterdeck.wire.clock import format_local_time
from quarterdeck.wire.terminal_text import count, count_noun

from ..sanitize import sanitize_line, sanitize_text
from ..stores.blocks import (
    EndBlock,
    NoteBlock,
    PlanBlock,
    PromptBlock,
    RunBlock,
    ShownBlock,
    TextBlock,
    ToolBlock,
    images_of,
)
from . import glyphs
from .agent_rows import format_money
from .calls import call_lines, format_counts, format_duration, run_lines
from .images import count_image_rows, draw_images
from .lines import READING_WIDTH, Line, Span, clip, flow, indented, width_of, wrap
from .markdown import markdown_lines

__all__ = [
    "block_lines", "can_fold", "fill_prompt", "guess_height", "left_note", "prompt_title",
]  # fmt: skip

_NOTE_SIGNS = {
    "quiet": ("·", "faint"),
    "info": ("i", "text"),
    "warning": ("!", "warning"),
    "error": (glyphs.FAILED, "bad"),
    "question": ("?", "asking"),
}
_PLAN_SIGNS = {
    "pending": glyphs.PLAN_OPEN,
    "in_progress": glyphs.PLAN_BEGUN,
    "completed": glyphs.PLAN_DONE,
}
_FOLDED_LINES = 12
_FOLDED_TEXT = 1_500
"""Lines and characters of a prompt or a note that is folded."""
_FOLDED_STEPS = 12
"""Steps of a plan; of a longer one only those are shown that are next."""
_NEXT_STEPS = 5
_MOST_EDITS = 200
"""Changes of a turn whose lines are counted."""


def can_fold(block: ShownBlock) -> bool:
    """Whether there is more of a block than is shown while it is folded."""
    if images_of(block):
        return True
    match block:
        case ToolBlock() | RunBlock() | TextBlock(kind="thought"):
            return True
        case PromptBlock() | NoteBlock():
            return _is_long_text(block.text)
        case PlanBlock():
            return len(block.entries) > _FOLDED_STEPS
        case _:
            return False


def _is_long_text(text: str) -> bool:
    return len(text) > _FOLDED_TEXT or text.count("\n") >= _FOLDED_LINES


def left_note(left: int) -> str:
    """Tells how to see what is not kept."""
    return f"… {left:,} more characters: /whole saves all of it to a file"


def guess_height(block: ShownBlock, width: int) -> int:
    """About how many lines a block takes, without rendering it."""
    is_large = getattr(block, "expanded", False)
    rows = (count_image_rows(one, width, is_large=is_large) + 1 for one in images_of(block))
    return _guess_text(block, width) + sum(rows)


def _guess_text(block: ShownBlock, width: int) -> int:
    if isinstance(block, TextBlock) and block.images:
        return 0
    width = min(width, READING_WIDTH)
    if isinstance(block, TextBlock) and (block.kind != "thought" or block.expanded):
        return 1 + block.size // max(1, width) + block.text.count("\n")
    if isinstance(block, PromptBlock | NoteBlock):
        text = block.text if block.expanded else block.text[:_FOLDED_TEXT]
        lines = 1 + len(text) // max(1, width) + text.count("\n")
        return lines if block.expanded else min(lines, _FOLDED_LINES + 1)
    if isinstance(block, PlanBlock):
        return 1 + (_NEXT_STEPS if _is_plan_folded(block) else len(block.entries))
    return 1


def block_lines(block: ShownBlock, width: int) -> list[Line]:
    """The lines of a block that is not long."""
    width = max(8, width)
    match block:
        case PromptBlock():
            lines = _prompt(block, width)
            return [*lines, *draw_images(block.images, width, is_large=block.expanded)]
        case TextBlock():
            return _text(block, width)
        case ToolBlock():
            return call_lines(block, width)
        case RunBlock():
            return run_lines(block, width)
        case PlanBlock():
            return _plan(block, width)
        case NoteBlock():
            sign, role = _NOTE_SIGNS[block.severity]
            return _folding(block, block.text, (sign, role), role, width)
        case EndBlock():
            return _end(block, width)


def _text(block: TextBlock, width: int) -> list[Line]:
    if block.images:
        return draw_images(block.images, width, is_large=block.expanded)
    if block.kind == "thought":
        return _thought(block, width)
    if block.kind == "user":
        sign = (glyphs.PROMPT, "prompt-sign")
        return fill_prompt(_signed(sign, sanitize_text(block.text), "prompt", width), 0, width)
    return markdown_lines(sanitize_text(block.text).strip("\n"), width)


def _folding(
    block: PromptBlock | NoteBlock, text: str, sign: Span, role: str, width: int
) -> list[Line]:
    """A text behind a sign; only its beginning while it is folded."""
    if block.expanded or not _is_long_text(block.text):
        return list(_signed(sign, sanitize_text(text).strip(), role, width))
    shown = "\n".join(text[:_FOLDED_TEXT].split("\n")[:_FOLDED_LINES])
    lines = list(_signed(sign, sanitize_text(shown).strip("\n"), role, width))
    left = getattr(block, "left", 0) + len(text) - len(shown)
    total = count_noun(text.count("\n") + 1, "line")
    more = f"… {left:,} more characters, {total} in all (expand: f3, enter)"
    return [*lines[:_FOLDED_LINES], clip((("  ", role), (more, "faint")), width)]


def _signed(sign: Span, text: str, role: str, width: int) -> Iterator[Line]:
    room = min(width, READING_WIDTH) - 2
    lines = (line for part in text.split("\n") for line in wrap([(part, role)], room))
    return indented(lines, (sign[0] + " ", sign[1]), ("  ", role))


def _prompt(block: PromptBlock, width: int) -> list[Line]:
    text = block.text.strip("\n")
    facts = [block.origin] if block.origin != "person" else []
    facts += ["steering"] if block.steers else []
    if facts:
        text = f"({', '.join(facts)}) {text}"
    lines = _folding(block, text, (glyphs.PROMPT, "prompt-sign"), "prompt", _prompt_room(width))
    return fill_prompt(lines, block.time, width)


def _prompt_room(width: int) -> int:
    """Where the words of a prompt end; its time stands right of that, if there is room for it."""
    return width - 7 if width >= 30 else width


def fill_prompt(lines: "Iterator[Line] | list[Line]", time: int, width: int) -> list[Line]:
    """The lines of a prompt on their ground; ``time`` is at the right of the first, if known."""
    clock = format_local_time(time, "%H:%M") if time and width >= 30 else ""
    filled: list[Line] = []
    for line in lines:
        gap = max(0, width - width_of(line) - len(clock))
        spans = ((text, role if role == "prompt" else f"{role}/prompt") for text, role in line)
        end = ((clock, "faint/prompt"),) if clock else ()
        filled.append((*spans, (" " * gap, "prompt"), *end))
        clock = ""
    return filled


def prompt_title(block: PromptBlock, width: int) -> Line:
    """The first words of a prompt in one faint line, for the top of what follows it."""
    words = sanitize_line(block.text.strip().split("\n")[0], 400)
    clock = format_local_time(block.time, "%H:%M") if block.time and width >= 30 else ""
    line = clip(
        ((f"{glyphs.PROMPT} ", "faint/hunk"), (words, "hunk")), max(4, width - len(clock) - 1)
    )
    gap = " " * max(0, width - width_of(line) - len(clock))
    return (*line, (gap, "hunk"), (clock, "hunk"))


def _thought(block: TextBlock, width: int) -> list[Line]:
    if block.expanded:
        return list(
            _signed(
                (glyphs.THINKING, "thought"), sanitize_text(block.text).strip(), "thought", width
            )
        )
    took = format_duration(block.ended - block.time) if block.time else ""
    took = took if took and not took.startswith("0.") else ""
    verb = "thought" if block.is_whole else "thinking"
    head = f"{glyphs.THINKING} {verb} for {took}" if took else f"{glyphs.THINKING} {verb}"
    words = block.text[: 8 * width].strip() if block.is_whole else "".join(block.parts[:40])
    words = sanitize_line(words[: 8 * width].replace("**", ""), 4 * width)
    end: Line = ((f" · {words}", "thought"),) if words.strip() else ()
    return [clip(((head, "thought"), *end), width)]


def _is_plan_folded(block: PlanBlock) -> bool:
    return can_fold(block) and not block.expanded


def _plan(block: PlanBlock, width: int) -> list[Line]:
    done = sum(entry.status == "completed" for entry in block.entries)
    lines: list[Line] = [(("Plan", "strong"), (f"  {done}/{len(block.entries)}", "faint"))]
    shown = list(block.entries)
    if _is_plan_folded(block):
        begun = [entry for entry in shown if entry.status == "in_progress"]
        open_ = [entry for entry in shown if entry.status == "pending"]
        shown = [*begun[:_NEXT_STEPS], *open_][:_NEXT_STEPS]
    for entry in shown:
        role = {"completed": "faint", "in_progress": "strong"}.get(entry.status, "text")
        sign = _PLAN_SIGNS[entry.status]
        lines += _signed((f"  {sign}", role), sanitize_line(entry.content), role, width - 2)
    if (left := len(block.entries) - len(shown)) > 0:
        lines.append(clip(((f"  … {count_noun(left, 'more step')}", "faint"),), width))
    return lines


def _end(block: EndBlock, width: int) -> list[Line]:
    """What a turn took: time, tokens, cost, files; before that how it ended, if not as usual."""
    facts: list[Line] = []
    if block.began is not None:
        facts.append(_fact(_format_turn(max(0, block.ended - block.began[1]))))
    if block.usage is not None:
        cached = f", {count(block.usage.cached)} cached" if block.usage.cached else ""
        words = f"{count(block.usage.input)} in, {count(block.usage.output)} out{cached}"
        facts.append(_fact(words))
    if block.cost is not None:
        facts.append(_fact(format_money(block.cost.amount, block.cost.currency)))
    if block.edits:
        facts += [_fact(_files(block)), (("alt+v", "key"), (" review", "faint"))]
    if block.stop != "end_turn" or block.reason:
        ending, role = _describe_stop(block.stop)
        ending += f": {sanitize_text(block.reason)}" if block.reason else ""
        facts.insert(0, ((ending, role),))
    return flow(facts or [_fact("done")], min(width, READING_WIDTH), (" · ", "faint"))


def _describe_stop(stop: str) -> tuple[str, str]:
    """How a turn ended, with its sign and its role."""
    if stop == "cancelled":
        return f"{glyphs.STOPPED} interrupted", "faint"
    sign, role = _NOTE_SIGNS["error" if stop in ("failed", "refusal") else "warning"]
    return f"{sign} the turn ended: {stop.replace('_', ' ')}", role


def _fact(words: str) -> Line:
    return ((words, "faint"),)


def _files(block: EndBlock) -> str:
    files = count_noun(len({diff.path for diff in block.edits}), "file")
    counts = f" {format_counts(block.edits)}" if len(block.edits) <= _MOST_EDITS else ""
    return f"{files} changed{counts}"


def _format_turn(microseconds: int) -> str:
    """How long a turn took: ``8s``, ``2m 5s``, ``1h 4m``."""
    seconds = microseconds // 1_000_000
    if seconds < 60:
        return format_duration(microseconds) or "0s"
    minutes, rest = divmod(seconds, 60)
    return f"{minutes}m {rest}s" if minutes < 60 else f"{minutes // 60}h {minutes % 60}m"
