"""The system prompt: who the agent is, where it works, what the project wants.

It is made once for a session and stays the same to the byte, so that vendors can cache it.
"""

from pathlib import Path

from msgspec import Struct

__all__ = ["InstructionsFile", "PromptEnvironment", "system_prompt"]


class PromptEnvironment(Struct, frozen=True, kw_only=True):
    """Where the session works; nothing in it may change while the session lives."""

    cwd: str
    roots: tuple[str, ...] = ()
    platform: str = "linux"
    is_git: bool = False
    date: str = ""
    """The day the session began."""


class InstructionsFile(Struct, frozen=True, kw_only=True):
    """An instructions file of the person or the project."""

    path: str
    text: str


def system_prompt(
    environment: PromptEnvironment, instructions: tuple[InstructionsFile, ...] = ()
) -> str:
    """Compose the prompt from our own text, the environment and the instructions files."""
    base = Path(__file__).with_name("prompt.md").read_text(encoding="utf-8").rstrip()
    return "\n\n".join([base, _environment(environment), *map(_instructions, instructions)]) + "\n"


def _environment(environment: PromptEnvironment) -> str:
    lines = [
        "# Environment",
        f"- Working directory: {environment.cwd}",
        *(f"- Also allowed: {root}" for root in environment.roots),
        f"- Git repository: {'yes' if environment.is_git else 'no'}",
        f"- Platform: {environment.platform}",
    ]
    if environment.date:
        lines.append(f"- Today: {environment.date}")
    return "\n".join(lines)


def _instructions(instructions: InstructionsFile) -> str:
    return (
        f"# Instructions from {instructions.path}\nThe person or the project wrote these; follow "
        f"them unless they conflict with what the person asks now.\n\n{instructions.text.strip()}"
    )
