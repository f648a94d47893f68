"""What was open in a directory: kept when it changes, there again at the next start."""

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import Struct, field

from quarterdeck.wire.decoders import convert

from ..layout.files import UnusableLayoutError, builtin_layout, read_json_file
from ..layout.spec import Layout, LayoutError, dump_layout, parse_layout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..panels.kinds import PanelKind

__all__ = ["WorkspaceFiles", "WorkspaceSnapshot"]

_VERSION = 1
_ASIDE = 5
"""How many files that could not be read are kept for one directory."""


class WorkspaceSnapshot(Struct, frozen=True, kw_only=True):
    """What is open in a directory."""

    layout: Layout = field(default_factory=builtin_layout)
    base: Layout | None = None
    """The sizes to go back to; None: those of the layout."""
    tab: int = 0
    focus: str | None = None
    """The panel with the focus."""
    shown: str | None = None
    """The selected agent."""
    states: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """What panels want to remember, by id."""
    notice: str | None = None
    """What the person should know about how it was read."""


class _File(Struct, kw_only=True, forbid_unknown_fields=True):
    version: int
    cwd: str
    layout: dict[str, Any]
    base: dict[str, Any] | None = None
    tab: int = 0
    focus: str | None = None
    shown: str | None = None
    states: dict[str, dict[str, Any]] = {}


class WorkspaceFiles:
    """A file for each directory. Blocks on files.

    Args:
        folder: where the files are; None: nothing is kept.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def load(self, cwd: str, kinds: "Mapping[str, PanelKind]") -> WorkspaceSnapshot:
        """What was open in a directory; the default layout where that cannot be known.

        A file that cannot be used is put aside, not lost: ``notice`` says so.
        """
        path = self._path(cwd)
        if path is None or not path.exists():
            return WorkspaceSnapshot()
        try:
            file = _decoded(read_json_file(path))
            layout = parse_layout(_drop_old_inbox(_replace_missing(file.layout, kinds)), kinds)
            base = _optional(_drop_old_inbox(file.base), kinds)
        except (UnusableLayoutError, LayoutError, msgspec.ValidationError) as error:
            return WorkspaceSnapshot(notice=self._put_aside(path, str(error)))
        return WorkspaceSnapshot(
            layout=layout,
            base=base,
            tab=max(0, min(file.tab, len(layout.tabs) - 1)),
            focus=file.focus,
            shown=file.shown,
            states=file.states,
        )

    def save(self, cwd: str, snapshot: WorkspaceSnapshot) -> None:
        """Keep what is open in a directory; a crash leaves the old file or the new one.

        Raises:
            OSError: it cannot be written.
        """
        from quarterdeck.wire.private_files import write_private

        path = self._path(cwd)
        if path is None:
            return
        file = _File(
            version=_VERSION,
            cwd=cwd,
            layout=_whole(dump_layout(snapshot.layout)),
            base=dump_layout(snapshot.base) if snapshot.base is not None else None,
            tab=snapshot.tab,
            focus=snapshot.focus,
            shown=snapshot.shown,
            states=snapshot.states,
        )
        write_private(path, msgspec.json.format(msgspec.json.encode(file)).decode() + "\n")

    def _path(self, cwd: str) -> Path | None:
        if self._folder is None:
            return None
        name = hashlib.sha256(os.fsencode(cwd)).hexdigest()[:24]
        return self._folder / f"{name}.json"

    def _put_aside(self, path: Path, reason: str) -> str:
        for number in range(1, _ASIDE + 1):
            aside = path.with_suffix(f".aside-{number}")
            if not aside.exists() or number == _ASIDE:
                with suppress(OSError):
                    path.replace(aside)
                    return f"cannot restore the open panels: {reason}; saved them in {str(aside)!r}"
                break
        return f"cannot restore the open panels: {reason}"


def _decoded(data: object) -> _File:
    version = cast("dict[str, object]", data).get("version") if isinstance(data, dict) else None
    if isinstance(version, int) and version > _VERSION:
        raise UnusableLayoutError(f"written by a newer version ({version})")
    return convert(data, _File)


def _optional(data: dict[str, Any] | None, kinds: "Mapping[str, PanelKind]") -> Layout | None:
    with suppress(LayoutError):
        return parse_layout(data, kinds) if data is not None else None
    return None


def _replace_missing(data: Any, kinds: "Mapping[str, PanelKind]", depth: int = 0) -> Any:
    """The data with a box instead of each panel whose widget is not there any more."""
    if depth > 40:
        return data
    if isinstance(data, list):
        return [_replace_missing(one, kinds, depth + 1) for one in cast("list[Any]", data)]
    if not isinstance(data, dict):
        return data
    node = cast("dict[str, Any]", data)
    if node.get("type") != "panel":
        return {name: _replace_missing(value, kinds, depth + 1) for name, value in node.items()}
    widget = node.get("widget")
    if not isinstance(widget, str) or widget in kinds or "missing" not in kinds:
        return node
    options = {"widget": widget, "options": node.get("options", {})}
    return {**node, "widget": "missing", "options": options}


def _drop_old_inbox(data: Any) -> Any:
    """The data without the inbox that the default layout had below the agents.

    Their rows have the requests now. Only what nobody changed goes: sizes and names are as they
    were built in.
    """
    if isinstance(data, list | tuple):
        return [_drop_old_inbox(one) for one in cast("list[Any]", data)]
    if not isinstance(data, dict):
        return data
    node = cast("dict[str, Any]", data)
    if node.get("type") == "vertical" and node.get("children") == _OLD_SIDE:
        side = {"type": "panel", "id": "agents", "widget": "agents"}
        return side | {name: node[name] for name in ("size", "stacked_size") if name in node}
    return {name: _drop_old_inbox(value) for name, value in node.items()}


_OLD_SIDE = [
    {"type": "panel", "size": "auto", "id": name, "widget": name} for name in ("agents", "inbox")
]


def _whole(data: Any) -> Any:
    """The data with what boxes stand for."""
    if isinstance(data, list | tuple):
        return [_whole(one) for one in cast("list[Any]", data)]
    if not isinstance(data, dict):
        return data
    node = cast("dict[str, Any]", data)
    if node.get("type") == "panel":
        options: dict[str, Any] = node.get("options") or {}
        return {**node, **options} if node.get("widget") == "missing" else node
    return {name: _whole(value) for name, value in node.items()}
