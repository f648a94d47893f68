"""Scripts: what a scripted model says, and the player that says it."""

from quarterdeck.models.script.file import load_script, parse_script, shipped_scripts
from quarterdeck.models.script.format import (
    AbstractTool,
    CallPart,
    Failure,
    Fault,
    FaultKind,
    Reply,
    ReplyPart,
    Scene,
    Script,
    ScriptError,
    SleepPart,
    TextPart,
    ThinkingPart,
    ToolPart,
    When,
)

__all__ = [
    "AbstractTool",
    "CallPart",
    "Failure",
    "Fault",
    "FaultKind",
    "Reply",
    "ReplyPart",
    "Scene",
    "Script",
    "ScriptError",
    "SleepPart",
    "TextPart",
    "ThinkingPart",
    "ToolPart",
    "When",
    "load_script",
    "parse_script",
    "shipped_scripts",
]
