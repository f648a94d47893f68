"""Our own agent: the turn loop, its context and its tools.

The names that a program needs which embeds the agent are here, and are imported when first used;
``docs/embedding.md`` shows how.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quarterdeck.policy.gate import Answer

    from .native import NativeAgent, Wishes
    from .servers import ServerDefinition
    from .session import Session
    from .tools.all import all_tools
    from .tools.tool import Arguments, Outcome, Prepared, Tool, ToolError, said

__all__ = [
    "Answer",
    "Arguments",
    "NativeAgent",
    "Outcome",
    "Prepared",
    "ServerDefinition",
    "Session",
    "Tool",
    "ToolError",
    "Wishes",
    "all_tools",
    "said",
]

_HOMES = {
    "Answer": "quarterdeck.policy.gate",
    "NativeAgent": ".native",
    "ServerDefinition": ".servers",
    "Session": ".session",
    "Wishes": ".native",
    "all_tools": ".tools.all",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, ".tools.tool"), __name__), name)
