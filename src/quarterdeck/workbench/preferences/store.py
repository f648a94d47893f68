"""What a person has chosen for the screen: colours, keys, columns; kept over restarts."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from quarterdeck.wire.errors import QuarterdeckError

from .keymap import KEY_PLACES, MAIN, Keymap, load_keymap
from .themes.files import DEFAULT, NO_COLOUR, FoundTheme, ThemeScope, find_theme

if TYPE_CHECKING:
    from quarterdeck.config.places import Places

    from ..custom_widgets.library import WidgetLibrary

__all__ = ["Preferences", "SavedPreferences", "load_preferences", "note_first_steps"]

_MOST_WORKSPACES = 500


class SavedPreferences(Struct, kw_only=True):
    """What is kept in the file; fields that a newer program wrote are lost with the next change."""

    v: int = 1
    theme: str | None = None
    """For every project that has none of its own."""
    workspaces: dict[str, str] = {}
    """Themes by the directory that the workbench was opened in."""
    columns: tuple[str, ...] = ()
    """Of the table of agents; none: as many as there is room for."""
    sort: str | None = None
    group: str | None = None
    """What the agents are grouped by; None: their state."""
    first_steps: tuple[str, ...] = ()
    """Steps of the first run that are done or were skipped."""
    starts: int = 0
    """How often the home screen was shown; chooses its tip."""


@dataclass(kw_only=True)
class Preferences:
    """What was chosen, and where to keep it."""

    places: "Places | None" = None
    """None: nothing is read or kept."""
    cwd: str = ""
    project: Path | None = None
    """The project's folder of settings, if the person trusts it."""
    choices: SavedPreferences = field(default_factory=SavedPreferences)
    keymap: Keymap = field(default_factory=Keymap)
    has_colours: bool = True
    """The person's terminal is to show colours."""
    theme: FoundTheme | None = None
    """What is put on at the start."""
    problems: list[str] = field(default_factory=list[str])
    """What was wrong with the files, for the person."""
    _library: "WidgetLibrary | None" = None

    @property
    def library(self) -> "WidgetLibrary | None":
        """Custom widgets; None: none are kept."""
        if self._library is None and self.places is not None:
            from ..custom_widgets.library import WidgetLibrary

            self._library = WidgetLibrary(self.places)
        return self._library

    @property
    def theme_folders(self) -> list[tuple[ThemeScope, Path]]:
        """Where themes are looked for, the strongest last."""
        folders: list[tuple[ThemeScope, Path]] = []
        if self.places is not None:
            folders.append(("user", self.places.config / "themes"))
        if self.project is not None:
            folders.append(("project", self.project / "themes"))
        return folders

    @property
    def keys_file(self) -> Path | None:
        """The person's keys."""
        return self.places.config / "keys.toml" if self.places is not None else None

    @property
    def chosen_theme(self) -> str:
        """The name that counts here."""
        chosen = self.choices.workspaces.get(self.cwd) or self.choices.theme
        return chosen or (DEFAULT if self.has_colours else NO_COLOUR)

    def choose_theme(self, name: str, *, here: bool) -> None:
        """Note a theme for this directory, or for all that have none."""
        if not here:
            self.choices.theme = name
            self.choices.workspaces.pop(self.cwd, None)
            return
        self.choices.workspaces.pop(self.cwd, None)
        self.choices.workspaces[self.cwd] = name
        for old in list(self.choices.workspaces)[:-_MOST_WORKSPACES]:
            del self.choices.workspaces[old]

    def note_step(self, step: str) -> None:
        """Note that a step of the first run is done or was skipped; it is not shown again."""
        if step not in self.choices.first_steps:
            self.choices.first_steps = (*self.choices.first_steps, step)

    def save(self) -> None:
        """Keep the choices. Blocks.

        Raises:
            OSError: they cannot be written.
        """
        from quarterdeck.wire.private_files import write_private

        if self.places is not None:
            text = msgspec.json.format(msgspec.json.encode(self.choices)).decode()
            write_private(_choices_file(self.places), text + "\n")


def load_preferences(places: "Places", cwd: str, environ: Mapping[str, str]) -> Preferences:
    """Read what was chosen; what is wrong with a file is a problem, never an error. Blocks."""
    from ..commands.registry import COMMANDS

    preferences = Preferences(places=places, cwd=cwd, project=_trusted_project(places, Path(cwd)))
    preferences.has_colours = "NO_COLOR" not in environ and environ.get("TERM") != "dumb"
    try:
        data = _choices_file(places).read_bytes()
        preferences.choices = msgspec.json.decode(data, type=SavedPreferences)
    except FileNotFoundError:
        pass
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        preferences.problems.append(f"cannot read {_choices_file(places)}: {error}")
    keys = places.config / "keys.toml"
    names = [command.name for command in COMMANDS]
    preferences.keymap, problems = load_keymap(keys, names, {MAIN, *KEY_PLACES})
    preferences.problems += problems
    if (places.config / "widgets").is_dir() and preferences.library is not None:
        preferences.library.scan()
    preferences.theme = find_theme(preferences.chosen_theme, preferences.theme_folders)
    if preferences.theme is None:
        preferences.problems.append(
            f"theme {preferences.chosen_theme!r} no longer exists; press f9 for the list"
        )
    elif preferences.theme.notice is not None:
        preferences.problems.append(preferences.theme.notice)
    return preferences


def note_first_steps(places: "Places", steps: Iterable[str]) -> None:
    """Note steps of the first run in the file, for the next workbench. Blocks.

    Raises:
        OSError: the file cannot be written.
    """
    preferences = Preferences(places=places)
    try:
        data = _choices_file(places).read_bytes()
        preferences.choices = msgspec.json.decode(data, type=SavedPreferences)
    except FileNotFoundError:
        pass
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return  # the workbench tells what is wrong with it
    for step in steps:
        preferences.note_step(step)
    preferences.save()


def _choices_file(places: "Places") -> Path:
    return places.state / "workbench" / "looks.json"


def _trusted_project(places: "Places", cwd: Path) -> Path | None:
    """The project's folder, if it has themes and is trusted."""
    from quarterdeck.config.workspace import FOLDER, find_workspace

    with suppress(OSError, QuarterdeckError):
        workspace = find_workspace(cwd)
        folder = workspace.project / FOLDER
        if (folder / "themes").is_dir():
            from quarterdeck.config.trust import TrustStore

            if TrustStore(places.trust_file).is_trusted(workspace.project):
                return folder
    return None
