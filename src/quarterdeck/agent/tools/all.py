"""Every tool there is, in the order in which the model is shown them."""

from .tool import Tool

__all__ = ["all_tools"]


def all_tools() -> tuple[Tool, ...]:
    """Make the tools; imported late, because they are many."""
    from .files import file_tools
    from .others import other_tools

    return (*other_tools(), *file_tools())
