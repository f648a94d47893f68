"""What is told whole after a compaction: rebuilt from what happened, not left to a summary.

The user's prompts (all of them as far as there is room, then at least their demands), pinned
messages, the plan, the files that were looked at last, the commands that still run.
"""

import re
from collections.abc import Iterable, Sequence

from quarterdeck.wire.content import ContentBlock
from quarterdeck.wire.conversation import ImagePart, Part, TextPart

from ..content_parts import parts_of
from ..tools.workspace import ToolWorkspace
from .cleared_results import shorten
from .memory import ConversationMemory, RememberedPrompt
from .token_estimate import bytes_of

__all__ = ["carryover_parts", "running_commands"]

_FILES = 10
_DEMAND = re.compile(
    r"\b(never|always|must(n't)?|don'?t|do not|not|only|remember|avoid|without|keep|prefer|"
    r"should|shall|instead|no|make sure|important|required?)\b",
    re.IGNORECASE,
)
"""Words by which a sentence of an old prompt is recognised as a demand that may still hold."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_LONGEST_DEMAND = 400


def carryover_parts(
    memory: ConversationMemory, through: int, *, most: int, commands: Sequence[str] = ()
) -> tuple[Part, ...]:
    """What to tell beside a summary of the messages below ``through``.

    ``most``: bytes for the prompts that are replaced; the newest may have as much again. Pinned
    messages are whole whatever they are.
    """
    sections = [
        _section(
            "The user's messages, word for word, oldest first", _prompts(memory, through, most)
        ),
        _section("Plan", [f"- [{entry.status}] {entry.content}" for entry in memory.plan]),
        _section(
            "Files read last (read a file again before relying on it or changing it)",
            [f"- {path}" for path in list(memory.files)[-_FILES:]],
        ),
        _section("Commands running in the background", [f"- {line}" for line in commands]),
    ]
    text = "\n\n".join(filter(None, sections))
    parts: list[Part] = [TextPart(text=text)] if text else []
    parts += [TextPart(text=each) for each in reversed(_added(memory, most))]
    for content in memory.pins.values():
        parts += _pinned(content)
    if _newest_is_replaced(memory, through):
        parts += [part for part in memory.newest if isinstance(part, ImagePart)]
    return tuple(parts)


def _section(title: str, lines: Sequence[str]) -> str:
    return "\n".join([f"# {title}", *lines]) if lines else ""


def _pinned(content: tuple[ContentBlock, ...]) -> Iterable[Part]:
    yield TextPart(text="# Pinned by the user: applies to the whole conversation")
    yield from parts_of(content)


def _added(memory: ConversationMemory, most: int) -> list[str]:
    """Instructions and words of hooks, the newest first as long as there is room."""
    found: list[str] = []
    for text in reversed(memory.added.values()):
        most -= bytes_of(text)
        if most >= 0:
            found.append(text)
    return found


def _newest_is_replaced(memory: ConversationMemory, through: int) -> bool:
    at = next((said.at for said in reversed(memory.prompts) if said.starts_turn), None)
    return at is not None and at < through


def _prompts(memory: ConversationMemory, through: int, most: int) -> list[str]:
    """The replaced prompts, newest first as long as there is room; of the rest the demands."""
    replaced = [said for said in memory.prompts if said.at < through]
    newest: list[str] = []
    if _newest_is_replaced(memory, through):
        whole = "\n".join(part.text for part in memory.newest if isinstance(part, TextPart))
        last = max(i for i, said in enumerate(replaced) if said.starts_turn)
        newest = [f"- {shorten(whole, max(most, 1_000))}"]
        newest += [f"- {said.text}" for said in replaced[last + 1 :]]
        replaced = replaced[:last]
    lines: list[str] = []
    left = most
    while replaced and (size := bytes_of(replaced[-1].text) + 3) <= left:
        lines.append(f"- {replaced.pop().text}")
        left -= size
    older = _demands(replaced, max(left, most // 2))
    return [*older, *reversed(lines), *newest]


def _demands(prompts: Sequence[RememberedPrompt], most: int) -> list[str]:
    """The sentences of old prompts that demand something, newest first as long as there is room."""
    if not prompts:
        return []
    found: dict[str, None] = {}
    for said in reversed(prompts):
        for sentence in map(str.strip, _SENTENCE.split(said.text)):
            size = bytes_of(sentence) + 7
            is_demand = len(sentence) <= _LONGEST_DEMAND and _DEMAND.search(sentence)
            if is_demand and sentence not in found and size <= most:
                found[sentence] = None
                most -= size
    left_out = f"- [{len(prompts)} earlier messages are omitted; what they required:]"
    return [left_out, *(f"  - {sentence}" for sentence in reversed(found))]


def running_commands(workspace: ToolWorkspace) -> list[str]:
    """The commands that run in the background, each as one line."""
    from ..tools.bash.background import BackgroundCommands

    commands = workspace.find_kept(BackgroundCommands)
    return [
        f"{command.id}: {' '.join(command.line.split())[:200]}"
        for command in (commands.all if commands is not None else ())
        if command.exit is None
    ]
