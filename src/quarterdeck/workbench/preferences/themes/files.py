"""Themes on disk: built in, of the user, and of a project that the user trusts.

A theme is a TOML file; its name is the file's. What is wrong with a file is reported beside its
name and never raised: a theme cannot keep the workbench from starting.
"""

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from quarterdeck.wire.decoders import convert

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "DEFAULT",
    "FEW_COLOURS",
    "LIGHT",
    "NO_COLOUR",
    "FoundTheme",
    "Palette",
    "ThemeFile",
    "ThemeScope",
    "find_theme",
    "find_themes",
]

DEFAULT = "dark"
LIGHT = "light"
"""What is put on first where the terminal is light."""
NO_COLOUR = "mono"
"""What is put on where colours are not wanted."""
FEW_COLOURS = "sixteen"
"""What is put on where there are no more than 16 colours."""
ThemeScope: TypeAlias = Literal["built-in", "user", "project"]

_OURS: tuple[ThemeScope, Path] = ("built-in", Path(__file__).parent / "builtin")
_MOST_BYTES = 200_000
_MOST_FILES = 200


class Palette(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Colours as CSS writes them; what is left out follows from the others."""

    primary: str
    """Borders, the sign of the input, links."""
    secondary: str | None = None
    accent: str | None = None
    """What the person said, keys."""
    success: str | None = None
    warning: str | None = None
    """What waits for the person."""
    error: str | None = None
    foreground: str | None = None
    background: str | None = None
    surface: str | None = None
    """Bars and boxes."""
    panel: str | None = None


class ThemeFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a file of a theme holds."""

    palette: Palette
    help: str = ""
    """What it is, in a line."""
    dark: bool = True
    """Light text on a dark ground."""
    variables: dict[str, str] = {}
    """Variables of the style sheet, without ``$``."""
    css: str = ""
    """Rules that go after all of ours; colours, borders and styles of text only."""


class FoundTheme(Struct, frozen=True, kw_only=True):
    """A theme that was found, usable or not."""

    name: str
    scope: ThemeScope
    path: Path
    theme: ThemeFile | None = None
    error: str | None = None
    """Why it cannot be used."""
    notice: str | None = None
    """What the person should change in it; it is used all the same."""


def find_themes(folders: "Iterable[tuple[ThemeScope, Path]]") -> list[FoundTheme]:
    """Every theme, ours first; a name that comes again hides the one before. Blocks.

    Args:
        folders: where to look besides what is built in, the strongest last.
    """
    found: dict[str, FoundTheme] = {}
    for scope, folder in (_OURS, *folders):
        try:
            paths = sorted(folder.glob("*.toml"))[:_MOST_FILES]
        except OSError:
            continue
        for path in paths:
            found[path.stem] = _read(path, scope)
    return list(found.values())


def find_theme(name: str, folders: "Iterable[tuple[ThemeScope, Path]]") -> FoundTheme | None:
    """One theme by its name; reads no other. Blocks."""
    if "/" in name or name.startswith("."):
        return None
    for scope, folder in reversed((_OURS, *folders)):
        path = folder / f"{name}.toml"
        try:
            is_there = path.is_file()
        except OSError:
            continue
        if is_there:
            return _read(path, scope)
    return None


def _read(path: Path, scope: ThemeScope) -> FoundTheme:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise ValueError(f"it is longer than {_MOST_BYTES} bytes")
        theme = convert(tomllib.loads(data.decode("utf-8")), ThemeFile)
    except (OSError, ValueError) as error:  # TOML, UTF-8 and msgspec raise kinds of ValueError
        return FoundTheme(name=path.stem, scope=scope, path=path, error=str(error))
    css, renamed = _rename_selectors(theme.css)
    if not renamed:
        return FoundTheme(name=path.stem, scope=scope, path=path, theme=theme)
    changes = ", ".join(f"{old} is now {new}" for old, new in renamed.items())
    notice = f"theme {path.stem!r} uses old names of widgets: {changes}; change them in {path}"
    theme = replace(theme, css=css)
    return FoundTheme(name=path.stem, scope=scope, path=path, theme=theme, notice=notice)


_RENAMED = {
    "AgentScreen": "AgentTerminalView",
    "AskLine": "AskLineScreen",
    "Choice": "FormRadioButton",
    "LeaveTerminal": "LeaveTerminalScreen",
    "Lined": "LineCanvas",
    "Mark": "FormCheckbox",
    "Page": "PanelPage",
    "PastList": "SessionList",
    "Strip": "TabStrip",
    "WatchingPanel": "PolledPanel",
}
"""Widgets that had other names; themes of that time name them in their rules."""
_OLD_NAME = rf"(?<![\w.#$-])({'|'.join(_RENAMED)})(?![\w-])"
_SELECTORS = r"[^{}]*\{"


def _rename_selectors(css: str) -> tuple[str, dict[str, str]]:
    """Rules with the present names of widgets, and which names were old."""
    used: dict[str, str] = {}
    if not css:  # of most themes
        return css, used

    def rename(found: "re.Match[str]") -> str:
        used[found[0]] = _RENAMED[found[0]]
        return _RENAMED[found[0]]

    return re.sub(_SELECTORS, lambda rule: re.sub(_OLD_NAME, rename, rule[0]), css), used
