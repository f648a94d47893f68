"""The tool ``fetch``: one page of the web as text."""

from .fetch import FetchTool

__all__ = ["FetchTool"]
