"""The tools of an agent that leads for the person's screen: arrange it, and show things on it.

They change what is seen and nothing else, so no one is asked. What could do more is refused here:
paths outside of the agent's directories, panels that run something, keys that do more than show.
"""

import asyncio
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import PurePath
from typing import Annotated, Any, Literal, TypeAlias, cast

import msgspec
from msgspec import Meta

from quarterdeck.agent.tools.tool import Arguments

from ..errors import ExceedsParentError
from ..names import normalize_name
from ..permissions.delegation import check_path_inside
from .agent_text import cut
from .tool import FleetTool, FleetToolResult, failed_result
from .tool_context import FleetToolContext

__all__ = ["KEY_COMMANDS", "SCREEN_TOOLS"]

Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=80)]
Place: TypeAlias = Annotated[str, Meta(min_length=1, max_length=4_000)]
Note: TypeAlias = Annotated[str, Meta(min_length=1, max_length=500)]
Line: TypeAlias = Annotated[int, Meta(ge=1)]
Source: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200_000)]

KEY_COMMANDS = frozenset(
    {"archived", "columns", "conflicts", "diff", "end", "feed", "filter", "focus", "go", "help"}
    | {"here", "keys", "layout", "layouts", "next", "previous", "review", "sort", "tab", "theme"}
    | {"themes", "unfold", "widgets", "zoom"}
)
"""What a key may do that an agent binds: change what is shown, and never answer, send or end."""
_TOO_MUCH = frozenset({("layout", "save"), ("layout", "delete"), ("tab", "close")})
"""Commands of these that do more, by their first word."""
_THE_PERSONS = frozenset(
    {"ctrl+c", "ctrl+g", "ctrl+p", "ctrl+q", "ctrl+t", "enter", "escape", "f1", "tab", "space"}
)
"""Keys that stay what they are: a person must find the way to answer, to stop and to leave."""
_RUNNING = frozenset({"terminal"})
"""Panels that run programs; only a person opens them."""
_PATHS = frozenset({"path", "file", "directory", "folder", "root", "cwd"})
"""Options of panels that name a place on the disk."""
_MOST_NODES = 5_000
_MOST_SHOWN = 24_000


class LayoutArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``screen_layout``."""

    action: Literal["get", "set", "save", "load", "list", "delete"]
    layout: Annotated[
        dict[str, Any] | None,
        Meta(description="For set: the whole layout, in the form that get returns."),
    ] = None
    name: Annotated[
        Name | None, Meta(description="For save, load and delete: a saved layout's name.")
    ] = None


class TabsArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``screen_tabs``."""

    action: Literal["open", "show", "close", "rename"]
    tab: Annotated[
        Name | None, Meta(description="Which, by title or number from 1; not for open.")
    ] = None
    title: Annotated[Name | None, Meta(description="For open and rename.")] = None
    root: Annotated[
        dict[str, Any] | None,
        Meta(description="For open: the node that fills it; default: a chat."),
    ] = None


class ShowArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``screen_show``."""

    what: Literal["file", "diff", "review", "agent", "panel", "note"]
    path: Annotated[
        Place | None,
        Meta(
            description="file: the file. diff: a file or directory, or none. review: a file that "
            "the agent changed, relative to the top of its worktree, or none."
        ),
    ] = None
    line: Annotated[Line | None, Meta(description="file: which line.")] = None
    how: Annotated[Literal["view", "edit", "tail"], Meta(description="file: how it is opened.")] = (
        "view"
    )
    agent: Annotated[
        Name | None,
        Meta(description="agent and review: one that you started; default: yourself."),
    ] = None
    panel: Annotated[
        Name | None, Meta(description="panel: the id of one in the layout, which gets the focus.")
    ] = None
    text: Annotated[Note | None, Meta(description="note: a sentence shown for a few seconds.")] = (
        None
    )


class ThemeArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``screen_theme``."""

    name: Annotated[Name | None, Meta(description="The theme to use; omit it to list them.")] = None


class KeysArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``screen_keys``."""

    action: Literal["get", "bind", "unbind"]
    key: Annotated[Name | None, Meta(description="For bind and unbind, e.g. ctrl+x or f12.")] = None
    command: Annotated[
        Name | None, Meta(description=f"For bind: {', '.join(sorted(KEY_COMMANDS))}.")
    ] = None
    words: Annotated[
        str, Meta(max_length=200, description="For bind: what follows the command's name.")
    ] = ""


class WidgetsArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``screen_widgets``."""

    action: Literal["list", "offer"]
    name: Annotated[Name | None, Meta(description="For offer: the new widget's name.")] = None
    source: Annotated[Source | None, Meta(description="For offer: its Python source.")] = None


async def _layout(seat: FleetToolContext, a: LayoutArguments) -> FleetToolResult:
    match a.action:
        case "get":
            return await _call(seat, "get_layout")
        case "list":
            return await _call(seat, "list_layouts")
        case "set":
            if a.layout is None:
                return _missing("set", "layout")
            return await _call(seat, "set_layout", layout=await _own(seat, a.layout))
        case _:
            if a.name is None:
                return _missing(a.action, "name")
            return await _call(seat, f"{a.action}_layout", name=a.name)


async def _tabs(seat: FleetToolContext, a: TabsArguments) -> FleetToolResult:
    if a.action == "open":
        root = await _own(seat, a.root) if a.root is not None else None
        return await _call(seat, "open_tab", **_given(title=a.title, root=root))
    if a.tab is None:
        return _missing(a.action, "tab")
    if a.action != "rename":
        return await _call(seat, f"{a.action}_tab", tab=a.tab)
    if a.title is None:
        return _missing("rename", "title")
    return await _call(seat, "rename_tab", tab=a.tab, title=a.title)


async def _show(seat: FleetToolContext, a: ShowArguments) -> FleetToolResult:
    match a.what:
        case "file":
            if a.path is None:
                return _missing("file", "path")
            path = await _inside(seat, a.path)
            return await _call(seat, "open_file", **_given(path=path, line=a.line, how=a.how))
        case "diff":
            return await _call(seat, "open_diff", path=await _inside(seat, a.path or "."))
        case "review":
            agent = await _agent(seat, a.agent)
            return await _call(seat, "open_review", **_given(agent=agent, file=a.path))
        case "agent":
            return await _call(seat, "open_agent", agent=await _agent(seat, a.agent))
        case "panel":
            if a.panel is None:
                return _missing("panel", "panel")
            return await _call(seat, "focus", panel=a.panel)
        case "note":
            if a.text is None:
                return _missing("note", "text")
            return await _call(seat, "notify", text=a.text)


async def _theme(seat: FleetToolContext, a: ThemeArguments) -> FleetToolResult:
    if a.name is None:
        return await _call(seat, "list_themes")
    return await _call(seat, "set_theme", name=a.name)


async def _keys(seat: FleetToolContext, a: KeysArguments) -> FleetToolResult:
    if a.action == "get":
        return await _call(seat, "get_keys")
    if a.key is None:
        return _missing(a.action, "key")
    if a.key.split() != [a.key] or not a.words.isprintable():
        return failed_result(
            "A key must be one word, such as ctrl+x, and the arguments of a command one line."
        )
    if a.key.lower() in _THE_PERSONS:
        return failed_result(
            f"{a.key!r} cannot be changed: the person relies on it. Choose another key."
        )
    if a.action == "unbind":
        return await _call(seat, "unbind_key", key=a.key)
    if a.command is None:
        return _missing("bind", "command")
    command = a.command.strip().removeprefix("/")
    first = next(iter(a.words.split()), "")
    if command not in KEY_COMMANDS or (command, first) in _TOO_MUCH:
        able, wanted = ", ".join(sorted(KEY_COMMANDS)), f"{command} {first}".rstrip()
        return failed_result(
            f"You cannot bind a key to {wanted!r}: what an agent binds may only change what is "
            f"shown, by one of {able}. The person can bind any key to any command."
        )
    return await _call(seat, "bind_key", key=a.key, command=command, words=a.words)


async def _widgets(seat: FleetToolContext, a: WidgetsArguments) -> FleetToolResult:
    if a.action == "list":
        return await _call(seat, "list_widgets")
    if a.name is None or a.source is None:
        return _missing("offer", "name and a source")
    return await _call(seat, "offer_widget", name=a.name, source=a.source)


async def _call(seat: FleetToolContext, call: str, /, **arguments: Any) -> FleetToolResult:
    answer = await seat.fleet.call_screen(call, arguments, by=seat.session)
    if answer is None:
        return FleetToolResult(text="Done.")
    words = answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()
    data = cast("Mapping[str, Any]", answer) if isinstance(answer, dict) else {"answer": answer}
    return FleetToolResult(text=cut(words, _MOST_SHOWN), data=data)


def _given(**arguments: Any) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}


def _missing(action: str, what: str) -> FleetToolResult:
    return failed_result(f"{action!r} needs a {what}.")


async def _agent(seat: FleetToolContext, name: str | None) -> str:
    if (
        name is None
        or name == seat.session
        or normalize_name(name) == normalize_name(seat.entry.name)
    ):
        return seat.session
    return (await seat.own(name)).session


async def _inside(seat: FleetToolContext, path: str) -> str:
    """The path, absolute. Raises ExceedsParentError."""
    options = seat.entry.spawn.options
    whole = str(PurePath(options.cwd, path))
    await asyncio.to_thread(check_path_inside, "path", whole, (options.cwd, *options.roots))
    return whole


async def _own(seat: FleetToolContext, tree: dict[str, Any]) -> dict[str, Any]:
    """A tree in which every new panel shows only what the agent may see, by absolute paths.

    What is open already is the person's, and may stay or be moved.

    Raises:
        ExceedsParentError: a panel does more; the message names it.
    """
    own = deepcopy(tree)
    there = await seat.fleet.call_screen("get_layout", {}, by=seat.session)
    known = [_identity(panel) for panel in _panels(there)]
    for panel in _panels(own):
        if _identity(panel) in known:
            continue
        if panel.get("widget") in _RUNNING:
            raise ExceedsParentError(f"only the person may open a {panel.get('widget')}; omit it")
        options = _options(panel)
        for name in _PATHS & options.keys():
            if isinstance(options[name], str):
                options[name] = await _inside(seat, options[name])
    return own


def _identity(panel: dict[str, Any]) -> tuple[Any, Any, Any]:
    return panel.get("id"), panel.get("widget"), deepcopy(_options(panel))


def _options(panel: dict[str, Any]) -> dict[str, Any]:
    options = panel.get("options")
    return cast("dict[str, Any]", options) if isinstance(options, dict) else {}


def _panels(tree: Any) -> Iterator[dict[str, Any]]:
    """Everything in a layout that names a widget. Raises ValueError where it has no end."""
    waiting: list[Any] = [tree]
    for _ in range(_MOST_NODES):
        if not waiting:
            return
        node = waiting.pop()
        if isinstance(node, dict):
            known = cast("dict[str, Any]", node)
            if "widget" in known:
                yield known
            waiting += known.values()
        elif isinstance(node, list | tuple):
            waiting += cast("list[Any]", node)
    raise ValueError(f"a layout may have at most {_MOST_NODES} values")


SCREEN_TOOLS: tuple[FleetTool[FleetToolContext], ...] = (
    FleetTool(name="screen_show", arguments=ShowArguments, run=_show),
    FleetTool(name="screen_layout", arguments=LayoutArguments, run=_layout),
    FleetTool(name="screen_tabs", arguments=TabsArguments, run=_tabs),
    FleetTool(name="screen_theme", arguments=ThemeArguments, run=_theme),
    FleetTool(name="screen_keys", arguments=KeysArguments, run=_keys),
    FleetTool(name="screen_widgets", arguments=WidgetsArguments, run=_widgets),
)
"""In the order in which models see them."""
