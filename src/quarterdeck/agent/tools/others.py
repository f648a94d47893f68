"""The tools that are not about files: commands, pages, the plan, questions, agents."""

from .ask_user import AskUserTool
from .bash import BashTool, CommandsTool
from .fetch import FetchTool
from .plan import PlanTool
from .skill import SkillTool
from .spawn_agent import ChildrenTool, SpawnAgentTool
from .tool import Tool

__all__ = ["other_tools"]


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
