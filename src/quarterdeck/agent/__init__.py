"""Our own agent: the turn loop, its context and its tools.

The names that a program needs which embeds the agent are here, and are imported when first used;
``docs/embedding.md`` shows how.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quarterdeck.policy.gate import PermissionAnswer

    from .native import NativeAgent, NativeSessionOptions
    from .session import Session
    from .tool_servers import ServerDefinition
    from .tools.builtin import all_tools
    from .tools.tool import Arguments, PreparedCall, Tool, ToolError, ToolOutcome, text_outcome

__all__ = [
    "Arguments",
    "NativeAgent",
    "NativeSessionOptions",
    "PermissionAnswer",
    "PreparedCall",
    "ServerDefinition",
    "Session",
    "Tool",
    "ToolError",
    "ToolOutcome",
    "all_tools",
    "text_outcome",
]

_HOMES = {
    "PermissionAnswer": "quarterdeck.policy.gate",
    "NativeAgent": ".native",
    "ServerDefinition": ".tool_servers",
    "Session": ".session",
    "NativeSessionOptions": ".native",
    "all_tools": ".tools.builtin",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, ".tools.tool"), __name__), name)
