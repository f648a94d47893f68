"""The tools of a session, as the model sees them and as the loop finds them.

``shipped.json`` holds name, description and parameters of each built-in tool
(``tools/generate_tool_specs.py`` writes it), so that a tool is imported when it is first called.
"""

from collections.abc import Iterable
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from quarterdeck.models.model import ToolSpec
from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.tool_calls import ToolKind

from .tool import Arguments, PreparedCall, Tool, ToolError
from .workspace import ToolWorkspace

__all__ = [
    "SPAWN_TOOLS",
    "ForeignArguments",
    "ForeignTool",
    "LazyTool",
    "Toolbox",
    "schema_of",
    "shipped_tools",
]


class ForeignArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments as the model wrote them; only the owner of the schema knows whether they fit."""

    values: dict[str, Any]


class ForeignTool:
    """Base of a tool that brings its schema along; otherwise a ``Tool`` like any other."""

    def __init__(self, spec: ToolSpec, kind: ToolKind = "other") -> None:
        self.arguments: type[Arguments] = ForeignArguments
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

    def read(self, arguments: str) -> ForeignArguments:
        """Read a call's arguments, any JSON object.

        Raises:
            msgspec.DecodeError: they are none.
        """
        return ForeignArguments(values=decode_json(arguments, dict[str, Any]))

    async def prepare(self, arguments: Any, workspace: ToolWorkspace) -> PreparedCall:
        """Look, and say what would happen; see ``Tool.prepare``."""
        raise NotImplementedError


if TYPE_CHECKING:
    _tool: Tool = ForeignTool(ToolSpec(name="", description="", parameters={}))


class LazyTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that is not imported yet, with everything that is sent to the model about it."""

    name: str
    target: str
    """``module:class``; the module is relative to this package."""
    spec: ToolSpec

    def make(self) -> Tool:
        """Import the tool and make it."""
        module, _, name = self.target.partition(":")
        made: Tool = getattr(import_module(f".{module}", __package__), name)()
        return made


@cache
def shipped_tools() -> tuple[LazyTool, ...]:
    """All of them, in the order in which the model is shown them. Reads a file."""
    data = Path(__file__).with_name("shipped.json").read_bytes()
    return decode_json(data, tuple[LazyTool, ...])


SPAWN_TOOLS = frozenset(("spawn_agent", "children"))


class Toolbox:
    """The tools of a session, in a fixed order: what the model is shown changes by ``bring`` alone.

    Tools that come with us are imported when they are first found.
    """

    def __init__(self, tools: Iterable[Tool | LazyTool]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._guests: tuple[str, ...] = ()
        self._known: dict[str, ToolSpec] = {}
        """Of tools that were imported here: to make it anew would read a file."""

    def bring(self, guests: Iterable[ForeignTool]) -> None:
        """Let these tools of others follow our own, in this order, instead of those before.

        Only between two steps: what a step was shown must be there when it calls. One that has
        the name of a tool of ours is left out.
        """
        for name in self._guests:
            del self._tools[name]
        found = {tool.name: tool for tool in guests if tool.name not in self._tools}
        self._tools |= found
        self._guests = tuple(found)
        self.__dict__.pop("specs", None)

    def add(self, tool: Tool) -> None:
        """Let a tool of ours follow the others, before those of others; only between turns."""
        guests = {name: self._tools.pop(name) for name in self._guests}
        self._tools |= {tool.name: tool, **guests}
        self.__dict__.pop("specs", None)

    def remove(self, name: str) -> None:
        """Take a tool away again; only between turns."""
        self._tools.pop(name, None)
        self.__dict__.pop("specs", None)

    @property
    def names(self) -> tuple[str, ...]:
        """The tools' names, in order."""
        return tuple(self._tools)

    @property
    def lendable(self) -> tuple[str, ...]:
        """Those that an agent which this one starts may have, too.

        A tool that acts for its session alone says ``for_children = False``.
        """
        return tuple(
            name for name, tool in self._tools.items() if getattr(tool, "for_children", True)
        )

    @cached_property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as the model sees them."""
        return tuple(self._spec(tool) for tool in self._tools.values())

    def find(self, name: str) -> Tool | None:
        """The tool of that name, or None."""
        found = self._tools.get(name)
        if isinstance(found, LazyTool):
            self._known[name] = found.spec
            found = self._tools[name] = found.make()
        return found

    def only(self, names: Iterable[str]) -> "Toolbox":
        """A toolbox with just these of the tools.

        Raises:
            ToolError: one of the names is no tool here.
        """
        wanted = set(names)
        if missing := wanted - set(self._tools):
            raise ToolError(f"no such tool: {', '.join(sorted(missing))}; available: {self.names}")
        some = Toolbox(tool for name, tool in self._tools.items() if name in wanted)
        some._known = self._known
        return some

    def _spec(self, tool: Tool | LazyTool) -> ToolSpec:
        if isinstance(tool, LazyTool | ForeignTool):
            return tool.spec
        if tool.name not in self._known:
            self._known[tool.name] = _spec(tool)
        return self._known[tool.name]

    def decode(self, tool: Tool, arguments: str) -> Arguments:
        """Read a call's arguments.

        Raises:
            ToolError: they are no JSON or do not fit; the text tells the model what to fix.
        """
        try:
            if isinstance(tool, ForeignTool):
                return tool.read(arguments or "{}")
            return decode_json(arguments or "{}", tool.arguments, strict=False)
        except msgspec.ValidationError as error:
            raise ToolError(
                f"The arguments of {tool.name!r} do not match its schema: {error}."
            ) from error
        except msgspec.DecodeError as error:
            raise ToolError(
                f"The arguments of {tool.name!r} are not valid JSON ({error}); nothing was run. "
                "Send the call again with complete JSON."
            ) from error


def _spec(tool: Tool) -> ToolSpec:
    return ToolSpec(
        name=tool.name, description=tool.description, parameters=schema_of(tool.arguments)
    )


def schema_of(arguments: type[Arguments]) -> dict[str, Any]:
    """The JSON schema of the arguments, flat: no references, no titles."""
    (reference,), components = msgspec.json.schema_components([arguments])
    root = components[str(reference["$ref"]).rsplit("/", 1)[-1]]
    schema = _inlined(root, components)
    schema.pop("description", None)
    return schema


def _inlined(node: Any, components: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_inlined(item, components) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    mapping = cast("dict[str, Any]", node)
    if "$ref" in mapping:
        return _inlined(components[str(mapping["$ref"]).rsplit("/", 1)[-1]], components)
    return {
        key: _inlined(value, components)
        for key, value in mapping.items()
        if not (key == "title" and isinstance(value, str))
    }
