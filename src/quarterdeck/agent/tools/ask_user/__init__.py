"""The tool ``ask_user``: structured questions to the person."""

from .ask import AskUserTool

__all__ = ["AskUserTool"]
