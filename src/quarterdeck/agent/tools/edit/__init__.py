"""``edit``: one piece of text in a file replaced by another."""

from typing import Annotated

from msgspec import Meta

from quarterdeck.wire.toolcalls import ToolKind

from ..describe import describe
from ..tool import Arguments, Prepared
from ..workspace import Workspace
from .changing import prepare_change

__all__ = ["Edit", "EditArguments"]


class EditArguments(Arguments, frozen=True, kw_only=True):
    """What to replace."""

    path: Annotated[
        str, Meta(description="The file, relative to the working directory or absolute.")
    ]
    old: Annotated[str, Meta(description="The text to replace, as it is in the file.")]
    new: Annotated[str, Meta(description="The text that comes in its place.")]
    replace_all: Annotated[bool, Meta(description="Replace every place, not just one.")] = False


class Edit:
    """Replaces text that is in a file once; the file has to be as the model saw it."""

    name = "edit"
    kind: ToolKind = "edit"
    arguments = EditArguments

    @property
    def description(self) -> str:
        """The text that the model reads."""
        return describe(__name__)

    async def prepare(self, arguments: EditArguments, workspace: Workspace) -> Prepared:
        """Find the text and show the change. Raises NoSuchPath, OutsideRoots, ToolError."""
        return await prepare_change(self.name, self.kind, arguments.path, (arguments,), workspace)
