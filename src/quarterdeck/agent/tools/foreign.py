"""Tools whose arguments are described by somebody else: a schema that came over a wire."""

from typing import TYPE_CHECKING, Any

import msgspec

from quarterdeck.models.model import ToolSpec
from quarterdeck.wire.toolcalls import ToolKind

from .tool import Arguments, Prepared, Tool
from .workspace import Workspace

__all__ = ["ForeignTool", "Given"]


class Given(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments as the model wrote them; only whose schema it is can tell whether they fit."""

    values: dict[str, Any]


class ForeignTool:
    """Base of a tool that brings its schema along; otherwise a ``Tool`` like any other."""

    def __init__(self, spec: ToolSpec, kind: ToolKind = "other") -> None:
        self.arguments: type[Arguments] = Given
        self.spec = spec
        self.kind: ToolKind = kind

    @property
    def name(self) -> str:
        """The name the model uses."""
        return self.spec.name

    @property
    def description(self) -> str:
        """The text that the model reads."""
        return self.spec.description

    def read(self, arguments: str) -> Given:
        """Read a call's arguments, any JSON object.

        Raises:
            msgspec.DecodeError: they are none.
        """
        return Given(values=msgspec.json.decode(arguments, type=dict[str, Any]))

    async def prepare(self, arguments: Any, workspace: Workspace) -> Prepared:
        """Look, and say what would happen; see ``Tool.prepare``."""
        raise NotImplementedError


if TYPE_CHECKING:
    _tool: Tool = ForeignTool(ToolSpec(name="", description="", parameters={}))
