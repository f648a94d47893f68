"""The flags of the agents that the fakes play; what a real one refuses is refused here."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["FLAGS", "OneshotFlags", "parse"]


@dataclass(slots=True)
class OneshotFlags:
    """What a command line says."""

    given: dict[str, str] = field(default_factory=dict[str, str])
    words: list[str] = field(default_factory=list[str])

    def has(self, flag: str) -> bool:
        """Whether a flag was given, by its long name."""
        return flag in self.given


_CODEX = {
    **dict.fromkeys(("--json", "--skip-git-repo-check", "--ephemeral", "--full-auto"), 0),
    "--dangerously-bypass-approvals-and-sandbox": 0,
    **dict.fromkeys(("--config", "--model", "--sandbox", "--add-dir", "--cd", "--image"), 1),
}
_GEMINI = {
    **dict.fromkeys(("--yolo", "--debug", "--skip-trust"), 0),
    **dict.fromkeys(("--model", "--prompt", "--output-format", "--approval-mode", "--resume"), 1),
    **dict.fromkeys(("--include-directories", "--session-id"), 1),
}
_OPENCODE = {
    **dict.fromkeys(("--auto", "--fork", "--thinking", "--continue", "--share"), 0),
    **dict.fromkeys(("--format", "--session", "--model", "--agent", "--title", "--file"), 1),
}
_CURSOR = {
    **dict.fromkeys(("--print", "--force", "--stream-partial-output", "--trust"), 0),
    **dict.fromkeys(("--output-format", "--model", "--resume", "--mode", "--workspace"), 1),
}
_PI = {
    **dict.fromkeys(("--print", "--offline", "--no-tools", "--no-session"), 0),
    **dict.fromkeys(("--mode", "--model", "--provider", "--session", "--tools", "--fork"), 1),
    **dict.fromkeys(("--append-system-prompt", "--session-id"), 1),
}
_GENERIC = {
    "--quiet": 0,
    **dict.fromkeys(("--say", "--again", "--model", "--trust-level"), 1),
}
FLAGS: Mapping[str, Mapping[str, int]] = {
    "codex": _CODEX,
    "gemini": _GEMINI,
    "opencode": _OPENCODE,
    "cursor": _CURSOR,
    "pi": _PI,
    "generic": _GENERIC,
}
"""Of each agent, its flags and how many values each takes."""

_SHORT: Mapping[str, Mapping[str, str]] = {
    "codex": {"-c": "--config", "-m": "--model", "-s": "--sandbox", "-C": "--cd", "-i": "--image"},
    "gemini": {
        "-m": "--model",
        "-p": "--prompt",
        "-o": "--output-format",
        "-r": "--resume",
        "-y": "--yolo",
        "-d": "--debug",
    },
    "opencode": {"-s": "--session", "-m": "--model", "-f": "--file", "-c": "--continue"},
    "cursor": {"-p": "--print", "-m": "--model", "-f": "--force"},
    "pi": {"-p": "--print"},
    "generic": {},
}
_CHOICES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "codex": {"--sandbox": ("read-only", "workspace-write", "danger-full-access")},
    "gemini": {
        "--approval-mode": ("default", "auto_edit", "yolo", "plan"),
        "--output-format": ("text", "json", "stream-json"),
    },
    "opencode": {"--format": ("default", "json")},
}


def parse(agent: str, argv: Sequence[str]) -> OneshotFlags:
    """Read a command line as this agent does; a flag that it does not know ends the program."""
    call, words = OneshotFlags(), list(argv)
    while words:
        word = words.pop(0)
        if word == "--":
            call.words += words
            break
        if not word.startswith("-") or word == "-":
            call.words.append(word)
            continue
        name, _, value = word.partition("=")
        flag = _SHORT[agent].get(name, name)
        takes = FLAGS[agent].get(flag)
        if takes is None or (takes and "=" not in word and not words):
            _refuse(agent, word)
        if takes and "=" not in word:
            value = words.pop(0)
        choices = _CHOICES.get(agent, {}).get(flag)
        if choices is not None and value not in choices:
            _refuse(agent, f"{flag} {value}")
        call.given[flag] = value
    return call


def _refuse(agent: str, word: str) -> None:
    sys.stderr.write(f"error: {agent} does not know the argument '{word}'\n")
    sys.exit(2)
