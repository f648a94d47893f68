"""Running commands: ``bash`` runs one, ``commands`` looks after those in the background."""

from .control import CommandsTool
from .run import BashTool

__all__ = ["BashTool", "CommandsTool"]
