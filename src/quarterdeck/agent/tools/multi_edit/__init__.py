"""``multi_edit``: several replacements in one file, all or nothing."""

from typing import Annotated

from msgspec import Meta, Struct

from quarterdeck.wire.tool_calls import ToolKind

from ..edit.replacement import prepare_change
from ..tool import Arguments, PreparedCall, read_description
from ..workspace import ToolWorkspace

__all__ = ["MultiEditArguments", "MultiEditTool", "OneEdit"]


class OneEdit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of the replacements."""

    old: Annotated[
        str,
        Meta(description=("The text to replace, as it is in the file after the previous edits.")),
    ]
    new: Annotated[str, Meta(description="The text to replace it with.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence.")] = False


class MultiEditArguments(Arguments, frozen=True, kw_only=True):
    """What to replace, in order."""

    path: Annotated[
        str, Meta(description="The file, relative to the working directory or absolute.")
    ]
    edits: Annotated[
        tuple[OneEdit, ...],
        Meta(min_length=1, description="The replacements, applied in order."),
    ]


class MultiEditTool:
    """Replaces several texts in a file, one after the other, in one step."""

    name = "multi_edit"
    kind: ToolKind = "edit"
    arguments = MultiEditArguments

    @property
    def description(self) -> str:
        """The text that the model reads."""
        return read_description(__name__)

    async def prepare(
        self, arguments: MultiEditArguments, workspace: ToolWorkspace
    ) -> PreparedCall:
        """Find the texts and show the change.

        Raises NoSuchPathError, OutsideRootsError, ToolError.
        """
        return await prepare_change(
            self.name, self.kind, arguments.path, arguments.edits, workspace
        )
