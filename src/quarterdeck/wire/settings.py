"""What a session can be set to: our own words, and what agents announce; and plans."""

from typing import Literal, TypeAlias

from .values import AcpValue

__all__ = [
    "Command",
    "CommandInput",
    "ConfigChoice",
    "ConfigOption",
    "Effort",
    "Mode",
    "PermissionMode",
    "PlanEntry",
    "PlanPriority",
    "PlanStatus",
    "VendorWire",
]

PermissionMode: TypeAlias = Literal[
    "read-only", "ask", "accept-edits", "plan", "full-auto", "deny-all"
]
"""What an agent may do before it has to ask."""
Effort: TypeAlias = Literal["off", "low", "medium", "high"]
"""How much a model may think before it answers."""
VendorWire: TypeAlias = Literal["anthropic", "openai", "openai-chat", "google"]
"""The form in which a vendor's server is asked."""

PlanPriority: TypeAlias = Literal["high", "medium", "low"]
PlanStatus: TypeAlias = Literal["pending", "in_progress", "completed"]


class Mode(AcpValue, frozen=True, kw_only=True):
    """A mode of work that an agent offers, such as plan or accept edits."""

    id: str
    name: str
    description: str | None = None


class ConfigChoice(AcpValue, frozen=True, kw_only=True):
    """A value that a select option can take, or, with ``options`` set, a named group of them."""

    name: str
    value: str | None = None
    """Set on a choice."""
    group: str | None = None
    """Set on a group: its id."""
    options: tuple["ConfigChoice", ...] | None = None
    description: str | None = None


class ConfigOption(AcpValue, frozen=True, kw_only=True):
    """A setting of a session: a list to select from, or a switch."""

    id: str
    name: str
    type: str
    """``select`` or ``boolean``; other kinds are kept as they came."""
    current_value: str | bool
    options: tuple[ConfigChoice, ...] | None = None
    category: str | None = None
    """``mode``, ``model``, ``model_config``, ``thought_level``, or one of the agent's own."""
    description: str | None = None


class CommandInput(AcpValue, frozen=True, kw_only=True):
    """What may be typed after a command's name."""

    hint: str


class Command(AcpValue, frozen=True, kw_only=True):
    """A slash command that an agent offers; ``name`` has no slash."""

    name: str
    description: str
    input: CommandInput | None = None


class PlanEntry(AcpValue, frozen=True, kw_only=True):
    """One step of a plan."""

    content: str
    priority: PlanPriority
    status: PlanStatus
