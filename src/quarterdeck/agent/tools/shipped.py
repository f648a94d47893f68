"""The tools that come with us, as the model is told of them, before any of their code is read.

``shipped.json`` holds name, description and parameters of each; ``tools/generate_tool_specs.py``
writes it from the tools themselves, and a test compares the two. So a turn of words alone imports
no tool, and a turn with tools only those that are called: the rest was a third of a start.
"""

from functools import cache
from importlib import import_module
from pathlib import Path

import msgspec

from quarterdeck.models.model import ToolSpec

from .tool import Tool

__all__ = ["LaterTool", "shipped_tools"]


class LaterTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that is not imported yet, and all that the model is told of it."""

    name: str
    target: str
    """``module:class``; the module is relative to this package."""
    spec: ToolSpec

    def make(self) -> Tool:
        """Import the tool and make it."""
        module, _, name = self.target.partition(":")
        made: Tool = getattr(import_module(f".{module}", __package__), name)()
        return made


@cache
def shipped_tools() -> tuple[LaterTool, ...]:
    """All of them, in the order in which the model is shown them. Reads a file."""
    data = Path(__file__).with_name("shipped.json").read_bytes()
    return msgspec.json.decode(data, type=tuple[LaterTool, ...])
