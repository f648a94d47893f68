"""What a person has chosen for the screen: colours, keys, columns; kept over restarts."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.errors import QuarterdeckError

from ..rendering.glyphs import SignLevel
from ..terminal_features import choose_sign_level, has_few_colours, is_light_by_environment
from .keymap import KEY_PLACES, MAIN, Keymap, load_keymap
from .themes.files import DEFAULT, FEW_COLOURS, LIGHT, NO_COLOUR, FoundTheme, ThemeScope, find_theme

if TYPE_CHECKING:
    from quarterdeck.config.places import Places
    from quarterdeck.config.schema import WorkbenchSettings

    from ..custom_widgets.library import WidgetLibrary

__all__ = [
    "Preferences",
    "SavedPreferences",
    "load_preferences",
    "load_workbench_settings",
    "note_first_steps",
]

_MOST_WORKSPACES = 500
_MOST_RECENT = 12
_MOST_DIRECTORIES = 20


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
    recent: tuple[str, ...] = ()
    """Commands that were chosen or typed last, the latest first."""
    directories: tuple[str, ...] = ()
    """Where agents were started, the latest first."""
    spawns: dict[str, dict[str, str]] = {}
    """What was chosen last for a new agent, by the directory of the workbench and the field."""
    group: str | None = None
    """What the agents are grouped by; None: their state."""
    first_steps: tuple[str, ...] = ()
    """Steps of the first run that are done or were skipped."""
    starts: int = 0
    """How often the home screen was shown; chooses its tip."""


class Preferences(Struct, kw_only=True, eq=False):
    """What was chosen, and where to keep it."""

    places: "Places | None" = None
    """None: nothing is read or kept."""
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the terminal and the person say there."""
    cwd: str = ""
    project: Path | None = None
    """The project's folder of settings, if the person trusts it."""
    choices: SavedPreferences = field(default_factory=SavedPreferences)
    keymap: Keymap = field(default_factory=Keymap)
    vim: bool = False
    """Keys of vim in inputs and lists; known soon after the start."""
    has_colours: bool = True
    """The person's terminal is to show colours."""
    has_few_colours: bool = False
    """The person's terminal has no more than 16 colours."""
    is_light: bool | None = None
    """Whether its background is light, as far as the environment says; None: not known."""
    signs: SignLevel = "unicode"
    """Which signs it shows."""
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
        if chosen or not self.has_colours:
            return chosen or NO_COLOUR
        if self.has_few_colours:
            return FEW_COLOURS
        return LIGHT if self.is_light else DEFAULT

    @property
    def wants_background(self) -> bool:
        """Whether the theme depends on the background of the terminal, which is not known."""
        is_chosen = bool(self.choices.workspaces.get(self.cwd) or self.choices.theme)
        is_open = self.has_colours and not self.has_few_colours
        return not is_chosen and is_open and self.is_light is None

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

    def note_command(self, name: str) -> bool:
        """Note that a command was used; False: it was the last one already."""
        if name == "palette" or self.choices.recent[:1] == (name,):
            return False
        others = [one for one in self.choices.recent if one != name]
        self.choices.recent = (name, *others)[:_MOST_RECENT]
        return True

    def note_spawn(self, cwd: str, directory: str, chosen: Mapping[str, str]) -> None:
        """Note what was chosen for a new agent, to be offered again in the same place.

        Args:
            cwd: where the workbench is.
            directory: where the agent works.
            chosen: the values of the form, by field.
        """
        self.choices.spawns.pop(cwd, None)
        self.choices.spawns[cwd] = dict(chosen)
        for old in list(self.choices.spawns)[:-_MOST_WORKSPACES]:
            del self.choices.spawns[old]
        others = (one for one in self.choices.directories if one != directory)
        self.choices.directories = (directory, *others)[:_MOST_DIRECTORIES]

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


def load_workbench_settings(places: "Places", environ: Mapping[str, str]) -> "WorkbenchSettings":
    """The person's settings of the workbench; the defaults if they cannot be read. Blocks."""
    from quarterdeck.config.loader import load_config
    from quarterdeck.config.schema import WorkbenchSettings

    try:
        return load_config(places, environ=environ).settings.workbench
    except QuarterdeckError:
        return WorkbenchSettings()


def load_preferences(places: "Places", cwd: str, environ: Mapping[str, str]) -> Preferences:
    """Read what was chosen; what is wrong with a file is a problem, never an error. Blocks."""
    from ..commands.registry import COMMANDS

    preferences = Preferences(
        places=places, environ=environ, cwd=cwd, project=_trusted_project(places, Path(cwd))
    )
    preferences.has_colours = "NO_COLOR" not in environ and environ.get("TERM") != "dumb"
    preferences.has_few_colours = has_few_colours(environ)
    preferences.is_light = is_light_by_environment(environ)
    preferences.signs = choose_sign_level("auto", environ)
    try:
        data = _choices_file(places).read_bytes()
        preferences.choices = decode_json(data, SavedPreferences)
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
        preferences.choices = decode_json(data, SavedPreferences)
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
