"""The tools that work on files, in the order in which the model is shown them."""

from .edit import Edit
from .glob import Glob
from .grep import Grep
from .ls import Ls
from .multi_edit import MultiEdit
from .read import Read
from .tool import Tool
from .write import Write

__all__ = ["file_tools"]


def file_tools() -> tuple[Tool, ...]:
    """Make the file tools."""
    return (Read(), Write(), Edit(), MultiEdit(), Ls(), Glob(), Grep())
