"""A session as a document for people: Markdown, HTML or JSON, secrets masked.

Records become passages (``document``), and a writer for each form turns passages into text. All of
it streams: memory is bounded by the longest message and the tool calls that are open.
"""

from .document import Block, Passage, passages
from .writing import FORMS, Form, export_session

__all__ = ["FORMS", "Block", "Form", "Passage", "export_session", "passages"]
