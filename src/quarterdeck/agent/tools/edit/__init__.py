"""``edit``: one piece of text in a file replaced by another."""

from typing import Annotated

from msgspec import Meta

from quarterdeck.wire.tool_calls import ToolKind

from ..tool import Arguments, PreparedCall, read_description
from ..workspace import ToolWorkspace
from .replacement import prepare_change

__all__ = ["EditArguments", "EditTool"]


class EditArguments(Arguments, frozen=True, kw_only=True):
    """What to replace."""

    path: Annotated[
        str, Meta(description="The file, relative to the working directory or absolute.")
    ]
    old: Annotated[str, Meta(description="The text to replace, as it is in the file.")]
    new: Annotated[str, Meta(description="The text to replace it with.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence.")] = False


class EditTool:
    """Replaces text that is in a file once; the file has to be as the model saw it."""

    name = "edit"
    kind: ToolKind = "edit"
    arguments = EditArguments

    @property
    def description(self) -> str:
        """The text that the model reads."""
        return read_description(__name__)

    async def prepare(self, arguments: EditArguments, workspace: ToolWorkspace) -> PreparedCall:
        """Find the text and show the change.

        Raises NoSuchPathError, OutsideRootsError, ToolError.
        """
        return await prepare_change(self.name, self.kind, arguments.path, (arguments,), workspace)
