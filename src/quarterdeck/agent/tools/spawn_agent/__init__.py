"""The tools ``spawn_agent`` and ``children``: starting agents and looking after them."""

from .control import ChildrenTool
from .spawn import SpawnAgentTool

__all__ = ["ChildrenTool", "SpawnAgentTool"]
