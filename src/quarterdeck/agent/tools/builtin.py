"""Every built-in tool, in the order in which the model is shown them. Imports all of them."""

from .ask_user import AskUserTool
from .bash import BashTool, CommandsTool
from .edit import EditTool
from .fetch import FetchTool
from .glob import GlobTool
from .grep import GrepTool
from .ls import LsTool
from .multi_edit import MultiEditTool
from .plan import PlanTool
from .read import ReadTool
from .skill import SkillTool
from .spawn_agent import ChildrenTool, SpawnAgentTool
from .tool import Tool
from .write import WriteTool

__all__ = ["all_tools", "file_tools", "other_tools"]


def file_tools() -> tuple[Tool, ...]:
    """Make the file tools."""
    return (ReadTool(), WriteTool(), EditTool(), MultiEditTool(), LsTool(), GlobTool(), GrepTool())


def other_tools() -> tuple[Tool, ...]:
    """Make the tools. Reads their descriptions from disk: call it outside of the event loop."""
    return (
        BashTool(),
        CommandsTool(),
        FetchTool(),
        PlanTool(),
        AskUserTool(),
        SkillTool(),
        SpawnAgentTool(),
        ChildrenTool(),
    )


def all_tools() -> tuple[Tool, ...]:
    """Make the tools; imported late, because they are many."""
    return (*other_tools(), *file_tools())
