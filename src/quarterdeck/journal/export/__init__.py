"""A session as a document for people: Markdown, HTML or JSON, secrets masked.

Records become passages (``document``), and a writer for each form turns passages into text. All of
it streams: memory is bounded by the longest message and the tool calls that are open.
"""

from .document import Block, Passage, read_passages
from .formats import EXPORT_FORMATS, ExportFormat, export_session

__all__ = ["EXPORT_FORMATS", "Block", "ExportFormat", "Passage", "export_session", "read_passages"]
