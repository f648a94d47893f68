"""Layouts by name: built in, the user's own, and those of a trusted project."""

import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from quarterdeck.wire.errors import QuarterdeckError

from .spec import (
    Horizontal,
    Layout,
    LayoutError,
    Node,
    PanelNode,
    Tab,
    TabsNode,
    Vertical,
    dump_layout,
    parse_layout,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..panels.kinds import PanelKind

__all__ = [
    "BUILTIN",
    "LARGEST",
    "LayoutFiles",
    "LayoutScope",
    "NamedLayout",
    "UnusableLayoutError",
    "builtin_layout",
    "read_json_file",
]


def _panel(
    name: str, widget: str = "", size: str = "1fr", *, title: str | None = None, **options: object
) -> PanelNode:
    return PanelNode(id=name, widget=widget or name, options=dict(options), size=size, title=title)


def _side(size: str = "46") -> Node:
    """The agents; their requests stand in their rows, so that no inbox is needed beside it."""
    return PanelNode(id="agents", widget="agents", size=size, stacked_size="auto")


def _default() -> Node:
    return Horizontal(stack_below=110, children=(_side(), _panel("chat")))


def _review() -> Node:
    chat = Vertical(size="45%", children=(_panel("inbox", size="auto"), _panel("chat")))
    return Horizontal(stack_below=110, children=(chat, _panel("diff")))


def _grid() -> Node:
    def row(*panels: PanelNode) -> Node:
        return Horizontal(stack_below=60, children=panels)

    # The first follows the selected agent, each other has one that no other chat shows.
    others = [_panel(f"chat-{number}", "chat", other=True) for number in (2, 3, 4)]
    chats = Vertical(children=(row(_panel("chat"), others[0]), row(*others[1:])))
    return Vertical(children=(_panel("inbox", size="auto"), chats))


def _wide() -> Node:
    preferences = TabsNode(
        size="30%",
        children=(
            _panel("tree", title="files"),
            _panel("diff", title="changes"),
            _panel("feed", title="feed"),
        ),
    )
    return Horizontal(stack_below=150, children=(_side("30%"), _panel("chat"), preferences))


BUILTIN = {
    "default": ("agents and a chat", _default),
    "review": ("a chat and its changes", _review),
    "grid": ("four chats with four agents", _grid),
    "wide": ("agents, a chat, files and changes", _wide),
}
"""By name: what it is for, and the root of its only tab."""


def builtin_layout(name: str = "default") -> Layout:
    """A built-in layout by its name.

    Raises:
        KeyError: there is none of this name.
    """
    return Layout(tabs=(Tab(title="main", root=BUILTIN[name][1]()),))


LayoutScope: TypeAlias = Literal["built-in", "project", "user"]
LARGEST = 1_000_000
"""Bytes; a larger file is none of ours."""
_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}\Z"


class UnusableLayoutError(QuarterdeckError):
    """A named layout that is not there, or whose file cannot be used; the file stays as it is."""


class NamedLayout(Struct, frozen=True, kw_only=True):
    """A layout that can be loaded."""

    name: str
    scope: LayoutScope
    help: str = ""


class LayoutFiles:
    """Named layouts on disk. Blocks on files.

    Args:
        user: the person's folder; None: nothing can be kept.
        project: the folder of a project that the person trusts; None: there is none.
    """

    def __init__(self, user: Path | None, project: Path | None = None) -> None:
        self._folders: dict[LayoutScope, Path] = {}
        if user is not None:
            self._folders["user"] = user
        if project is not None:
            self._folders["project"] = project

    def all(self) -> list[NamedLayout]:
        """Every layout by name; of the same name the person's counts, then the project's."""
        found = {
            name: NamedLayout(name=name, scope="built-in", help=help)
            for name, (help, _) in BUILTIN.items()
        }
        for scope in ("project", "user"):
            folder = self._folders.get(scope)
            for path in sorted(folder.glob("*.json")) if folder is not None else ():
                if re.match(_NAME, path.stem):
                    found[path.stem] = NamedLayout(name=path.stem, scope=scope)
        return sorted(found.values(), key=lambda one: one.name)

    def load(self, name: str, kinds: "Mapping[str, PanelKind] | None" = None) -> Layout:
        """A layout by its name.

        Raises:
            UnusableLayoutError: there is none, or its file cannot be used; the text says why.
        """
        found = {one.name: one for one in self.all()}.get(name)
        if found is None:
            names = ", ".join(one.name for one in self.all())
            raise UnusableLayoutError(f"no layout {name!r}; choose from {names}")
        if found.scope == "built-in":
            data: Any = dump_layout(builtin_layout(name))
        else:
            data = read_json_file(self._folders[found.scope] / f"{name}.json")
        try:
            return parse_layout(data, kinds)
        except LayoutError as error:
            raise UnusableLayoutError(f"cannot use layout {name!r}: {error}") from error

    def save(self, name: str, layout: Layout, scope: LayoutScope = "user") -> Path:
        """Keep a layout under a name; one of this name is replaced.

        Raises:
            UnusableLayoutError: the name is none, or it cannot be written.
        """
        from quarterdeck.wire.private_files import write_private

        if not re.match(_NAME, name):
            raise UnusableLayoutError(
                f"not a valid name: {name!r}; use letters, digits, _ and -, at most 40"
            )
        folder = self._folders.get(scope)
        if folder is None:
            raise UnusableLayoutError(
                "the project is not trusted; use /trust first"
                if scope == "project"
                else f"cannot save layouts in {scope!r}"
            )
        path = folder / f"{name}.json"
        text = msgspec.json.format(msgspec.json.encode(dump_layout(layout)), indent=2).decode()
        try:
            write_private(path, text + "\n")
        except OSError as error:
            raise UnusableLayoutError(f"cannot save layout {name!r}: {error}") from error
        return path

    def delete(self, name: str) -> None:
        """Forget a layout that was saved; the one below it counts again.

        Raises:
            UnusableLayoutError: there is none, it is built in, or it cannot be deleted.
        """
        found = {one.name: one for one in self.all()}.get(name)
        if found is None or found.scope == "built-in":
            raise UnusableLayoutError(f"no saved layout {name!r}")
        try:
            (self._folders[found.scope] / f"{name}.json").unlink(missing_ok=True)
        except OSError as error:
            raise UnusableLayoutError(f"cannot delete layout {name!r}: {error}") from error


def read_json_file(path: Path) -> Any:
    """What is in a file, whatever lies there.

    Raises:
        UnusableLayoutError: it cannot be read, is too large or is not JSON.
    """
    try:
        # Without O_NONBLOCK opening a named pipe would wait for a writer.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            is_file = stat.S_ISREG(os.fstat(handle).st_mode)
            data = file.read(LARGEST + 1) if is_file else b""
    except OSError as error:
        raise UnusableLayoutError(
            f"cannot read {str(path)!r}: {error.strerror or error}"
        ) from error
    if not is_file or len(data) > LARGEST:
        raise UnusableLayoutError(
            f"cannot use {str(path)!r}: it is too large or not a regular file"
        )
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnusableLayoutError(f"not valid JSON: {str(path)!r}: {error}") from error
