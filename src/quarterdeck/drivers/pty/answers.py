"""What was said in a turn, found among the lines on and above the screen."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal, TypeAlias

from .knowledge import Answer

__all__ = ["Item", "Lines", "Said"]

_Kind: TypeAlias = Literal["text", "thought", "tool", "failed"]


@dataclass(slots=True, kw_only=True)
class Item:
    """One thing that was said or done."""

    kind: _Kind
    lines: list[str]
    status: Literal["running", "completed", "failed"] = "completed"

    @property
    def text(self) -> str:
        """Its text; blank lines around it do not count."""
        return "\n".join(self.lines).rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A turn so far."""

    items: tuple[Item, ...]
    began: bool
    """The prompt of the turn is on the screen."""

    def joined(self, kind: _Kind) -> str:
        """Everything of a kind."""
        return "\n".join(item.text for item in self.items if item.kind == kind)

    @property
    def failure(self) -> str:
        """Why the turn failed; empty if it did not."""
        return self.joined("failed")


class Lines:
    """Finds what was said in a turn; patterns are an agent's ``Answer``."""

    def __init__(self, rule: Answer, columns: int) -> None:
        self._rule = rule
        self._width = columns - rule.margin
        self._echo = re.compile(rule.echo)
        starts: dict[_Kind, str] = {
            "failed": rule.failed,
            "tool": rule.tool,
            "thought": rule.thought,
            "text": rule.text,
        }
        self._starts: list[tuple[_Kind, re.Pattern[str]]] = [
            (kind, re.compile(like, re.MULTILINE)) for kind, like in starts.items() if like
        ]
        self._more = re.compile(rule.more) if rule.more else None
        self._skip = re.compile(rule.skip) if rule.skip else None
        self._over = re.compile(rule.over) if rule.over else None
        self._again = re.compile(rule.again) if rule.again else None

    def echoes(self, lines: Sequence[str]) -> int:
        """How many prompts are among the lines."""
        return sum(1 for line in lines if self._echo.match(line))

    def read(self, lines: Sequence[str], before: int) -> Said:
        """What follows the prompt that has ``before`` others before it, or else the last one."""
        found = [index for index, line in enumerate(lines) if self._echo.match(line)]
        began = len(found) > before
        start = found[before] if began else (found[-1] if found else -1)
        if not began and found:
            return Said(items=(), began=False)
        if self._rule.one_echo:
            while start + 1 in found:
                start += 1
            end = len(lines)
        else:
            end = found[before + 1] if len(found) > before + 1 else len(lines)
        return Said(items=tuple(self._items(lines[start + 1 : end])), began=began)

    def _items(self, lines: Sequence[str]) -> list[Item]:
        items: list[Item] = []
        current: Item | None = None
        last = ""
        is_own = False
        for line, after in zip_longest(lines, lines[1:], fillvalue=""):
            is_inner = self._rule.tool_after_blank and bool(last) and line.startswith(" ")
            last = line
            is_own = self._is_own(line, is_own)
            if self._skip is not None and self._skip.match(line):
                current = None
                continue
            no_tool = is_inner or (self._over is not None and not is_own)
            started = self._started(line, after, no_tool=no_tool)
            if started is not None and is_own and started.kind in ("text", "thought"):
                current = None
            elif started is not None:
                current = started
                items.append(current)
            elif current is not None:
                current = self._continued(current, line)
        for item in items:
            if item.kind in ("text", "thought") and self._rule.wraps:
                item.lines = _unfolded(item.lines, self._width)
        return items

    def _is_own(self, line: str, before: bool) -> bool:
        """Whether what follows is the agent's own, not the model's."""
        if before:
            return self._again is None or not self._again.match(line)
        return self._over is not None and self._over.match(line) is not None

    def _started(self, line: str, after: str, *, no_tool: bool) -> Item | None:
        for kind, pattern in self._starts:
            if no_tool and kind == "tool":
                continue
            if found := pattern.match(f"{line}\n{after}"):
                groups = found.groupdict()
                text = groups.get("text") or groups.get("title") or groups.get("reason") or ""
                item = Item(kind=kind, lines=[text])
                if groups.get("running") is not None:
                    item.status = "running"
                if groups.get("failed") is not None:
                    item.status = "failed"
                return item
        return None

    def _continued(self, item: Item, line: str) -> Item | None:
        """The item that the line goes on with; None when it belongs to nothing."""
        if item.kind not in ("text", "thought"):
            return None
        if not line:
            item.lines.append("")
            return item
        if self._more is not None and (found := self._more.match(line)):
            item.lines.append(found["text"])
            return item
        return None


def _unfolded(lines: list[str], width: int) -> list[str]:
    """Lines as they were before they were broken at words to fit the width."""
    whole: list[str] = []
    last = ""
    for line in lines:
        word = line.split(" ", 1)[0]
        if whole and last and word and len(last) + 1 + len(word) > width:
            whole[-1] = f"{whole[-1]} {line}"
        else:
            whole.append(line)
        last = line
    return whole
