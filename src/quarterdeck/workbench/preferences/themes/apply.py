"""Putting a theme on, and taking it off again if it does not fit."""

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from textual.app import App
from textual.color import Color, ColorParseError
from textual.css.errors import StylesheetError
from textual.css.stylesheet import Stylesheet, StylesheetParseError
from textual.css.tokenizer import TokenError
from textual.filter import Monochrome
from textual.theme import Theme

from quarterdeck.wire.errors import QuarterdeckError

from ...sanitize import sanitize_text
from ...terminal_features import BACKGROUND_QUERY, SignFilter, choose_sign_level
from .files import DEFAULT, LIGHT, find_theme

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual.css.model import RuleSet

    from quarterdeck.config.places import Places

    from ...rendering.glyphs import SignLevel
    from ..store import Preferences
    from .files import FoundTheme, Palette, ThemeFile

__all__ = ["AppTheme", "ThemeError", "apply_theme", "set_initial_theme"]

_PLACE = ("theme", "css")
"""Where the style sheet believes that a theme's rules come from."""
_APPEARANCE_RULES = frozenset(
    {
        "color", "background", "background_tint", "tint", "text_style",
        "text_opacity",
        "border_title_color", "border_title_background", "border_title_style",
        "border_subtitle_color", "border_subtitle_background", "border_subtitle_style",
        "border_title_align", "border_subtitle_align", "text_align", "hatch", "keyline",
        "link_color", "link_background", "link_style", "link_color_hover",
        "link_background_hover", "link_style_hover",
    }
)  # fmt: skip
_FAMILIES = ("border_", "outline_", "scrollbar_color", "scrollbar_background", "scrollbar_corner")
_LEAST_CONTRAST = 1.3
_FAINT = {"text-muted": "auto 76%", "text-disabled": "auto 76%"}
"""Faint text can still be read: Textual's own shares give a contrast of 1.9 to 4."""


class ThemeError(QuarterdeckError):
    """A theme that cannot be put on; everything looks as it did before."""


class AppTheme:
    """The theme that a person chose, on an application.

    Args:
        app: the application; it does not run yet.
        preferences: what was chosen.
    """

    def __init__(self, app: "App[Any]", preferences: "Preferences") -> None:
        self._app = app
        self._preferences = preferences
        self._signs: SignFilter | None = None
        self._add_filters()
        default = find_theme(DEFAULT, ())
        assert default is not None
        self._default = default
        try:
            set_initial_theme(app, preferences.theme or default)
        except ThemeError as error:
            preferences.problems.append(str(error))
            preferences.theme = default
            set_initial_theme(app, default)

    def _add_filters(self) -> None:
        filters = self._app._filters  # pyright: ignore[reportPrivateUsage]
        if not self._preferences.has_colours and not any(
            isinstance(one, Monochrome) for one in filters
        ):
            filters.append(Monochrome())
        self.draw_signs(self._preferences.signs)

    def draw_signs(self, level: "SignLevel") -> None:
        """Draw all signs, or their replacements in ASCII, from now on."""
        filters = self._app._filters  # pyright: ignore[reportPrivateUsage]
        if self._signs is not None:
            filters.remove(self._signs)
        self._signs = SignFilter(level) if level != "unicode" else None
        if self._signs is not None:
            filters.append(self._signs)
        self._preferences.signs = level

    async def _read_setting(self, places: "Places") -> None:
        """Follow what the person's file says about signs; a file with errors says nothing."""
        from ..store import load_workbench_settings

        environ = self._preferences.environ
        settings = await asyncio.to_thread(load_workbench_settings, places, environ)
        level = choose_sign_level(settings.signs, environ)
        if level != self._preferences.signs:
            self.draw_signs(level)
            self._app.refresh_css(animate=False)

    def ask_background(self) -> None:
        """Ask the terminal for its background; ``take_background`` gets the answer, if any."""
        driver = self._app._driver  # pyright: ignore[reportPrivateUsage]
        if self._preferences.wants_background and driver is not None:
            driver.write(BACKGROUND_QUERY)

    async def take_background(self, is_light: bool) -> None:
        """Put on the light theme on a light terminal, unless the person has chosen one."""
        if not is_light or not self._preferences.wants_background:
            return
        self._preferences.is_light = True
        light = await asyncio.to_thread(find_theme, LIGHT, self._preferences.theme_folders)
        if light is None or light.theme is None:
            return
        try:
            apply_theme(self._app, light)
        except ThemeError as error:
            self._show_problem(str(error))
        else:
            self._preferences.theme = light

    def finish(self) -> None:
        """Apply what needs the style sheet, and show what was wrong with the preferences."""
        wanted = self._preferences.theme
        if wanted is not None and wanted.scope != "built-in":
            try:
                apply_theme(self._app, wanted)
            except ThemeError as error:
                self._preferences.problems.append(str(error))
                apply_theme(self._app, self._default)
        if self._preferences.places is not None:
            self._app.run_worker(partial(self._read_setting, self._preferences.places))
        problems, self._preferences.problems = self._preferences.problems, []
        for problem in problems:
            self._show_problem(problem)

    def change_directory(self, found: "Preferences") -> None:
        """Apply the theme that was chosen for another directory; one that is wrong is reported."""
        self._preferences.cwd, self._preferences.project = found.cwd, found.project
        if found.theme is None or found.theme == self._preferences.theme:
            return
        try:
            apply_theme(self._app, found.theme)
        except ThemeError as error:
            self._show_problem(str(error))
        else:
            self._preferences.theme = found.theme

    def _show_problem(self, problem: str) -> None:
        self._app.notify(sanitize_text(problem), severity="error", timeout=12, markup=False)


def set_initial_theme(app: "App[Any]", found_theme: "FoundTheme") -> None:
    """Put on a theme before the application runs: colours alone, nothing is drawn yet.

    Raises:
        ThemeError: the file or a colour of it is wrong.
    """
    # Variables could break any rule; they come with ``apply_theme``, which can be undone.
    theme = replace(_made(found_theme), variables=dict(_FAINT))
    app.register_theme(theme)
    app.set_reactive(App.theme, theme.name)
    app.stylesheet.set_variables(app.get_css_variables())
    if found_theme.scope == "built-in" and found_theme.theme is not None and found_theme.theme.css:
        app.stylesheet.add_source(found_theme.theme.css, read_from=_PLACE)


def apply_theme(app: "App[Any]", found_theme: "FoundTheme") -> None:
    """Put a theme on a running application; all of it, or nothing.

    Raises:
        ThemeError: it cannot be; the message says where it is wrong.
    """
    theme = _made(found_theme)
    css = found_theme.theme.css if found_theme.theme is not None else ""
    _try_on(app, theme, css)
    before = (app.current_theme, app.stylesheet.source.get(_PLACE))
    try:
        _put(app, theme, css)
        _look_at(app)
    except Exception as error:
        _undo(app, *before)
        raise ThemeError(f"theme {found_theme.name!r}: {_describe_error(error)}") from error


def _undo(app: "App[Any]", theme: Theme, source: Any) -> None:
    _put(app, theme, source.content if source is not None else "")


def _put(app: "App[Any]", theme: Theme, css: str) -> None:
    app.register_theme(theme)
    app.stylesheet.source.pop(_PLACE, None)
    if css.strip():
        # As if it were read last: the order decides between rules that are equally exact.
        app.stylesheet.add_source(css, read_from=_PLACE)
    app.theme = theme.name
    app.refresh_css(animate=False)


def _made(found_theme: "FoundTheme") -> Theme:
    file = found_theme.theme
    if file is None:
        raise ThemeError(f"theme {found_theme.name!r}: {found_theme.error}")
    if found_theme.scope == "built-in":  # tests have made sure; to do it again costs 5 ms
        return _theme(found_theme.name, file)
    for name, value in _colours(file.palette):
        _colour(found_theme.name, name, value)
    try:
        theme = _theme(found_theme.name, file)
        _check_contrast(theme)
        _check_variables(theme, file.variables)
    except (ValueError, ColorParseError) as error:
        raise ThemeError(f"theme {found_theme.name!r}: {error}") from error
    return theme


def _theme(name: str, file: "ThemeFile") -> Theme:
    palette = {field: value for field, value in _colours(file.palette) if value is not None}
    return Theme(name=name, dark=file.dark, variables={**_FAINT, **file.variables}, **palette)


def _check_variables(theme: Theme, variables: "Mapping[str, str]") -> None:
    """Colours alone: anything else could break the rules of a widget that is shown much later."""
    known = replace(theme, variables={}).to_color_system().generate()
    for name, value in variables.items():
        if name not in known or not _is_colour(known[name]):
            raise ValueError(f"variables.{name}: unknown colour variable")
        if not _is_colour(value):
            raise ValueError(f"variables.{name}: {value!r} is not a colour")


def _is_colour(value: str) -> bool:
    colour, _, share = value.strip().partition(" ")
    try:
        Color.parse(colour)
    except ColorParseError:
        return False
    return not share or (share.endswith("%") and share[:-1].isdecimal())


def _colours(palette: "Palette") -> list[tuple[str, Any]]:
    return [(name, getattr(palette, name)) for name in palette.__struct_fields__]


def _colour(theme: str, name: str, value: str | None) -> None:
    try:
        if value is not None and Color.parse(value).a < 1:
            raise ThemeError(f"theme {theme!r}: palette.{name} {value!r} is transparent")
    except ColorParseError as error:
        raise ThemeError(f"theme {theme!r}: palette.{name} {value!r} is not a colour") from error


def _check_contrast(theme: Theme) -> None:
    made = theme.to_color_system().generate()
    for background in ("background", "surface"):
        if _is_alike(Color.parse(made["foreground"]), Color.parse(made[background])):
            raise ValueError(f"foreground is unreadable on {background}")


def _is_alike(one: Color, other: Color) -> bool:
    """Whether one cannot be read on the other, as the guidelines for the web measure it."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05) < _LEAST_CONTRAST


def _luminance(colour: Color) -> float:
    parts = [part / 255 for part in colour.rgb]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _try_on(app: "App[Any]", theme: Theme, css: str) -> None:
    """Read every rule that there is with the theme's variables, in a style sheet of its own."""
    variables = {**app.get_css_variables(), **theme.to_color_system().generate(), **theme.variables}
    trial = Stylesheet(variables=variables)
    for place, source in app.stylesheet.source.items():
        if place != _PLACE:
            content, is_default, tie_breaker, scope = source
            trial.add_source(
                content, place, is_default_css=is_default, tie_breaker=tie_breaker, scope=scope
            )
    known = len(trial.source)
    if css.strip():
        trial.add_source(css, read_from=_PLACE)
    try:
        trial.parse()
        alone = Stylesheet(variables=variables)
        if len(trial.source) > known:
            alone.add_source(css, read_from=_PLACE)
        for rule in alone.rules:
            _check_rule(rule)
    except (StylesheetError, StylesheetParseError, TokenError, ValueError) as error:
        raise ThemeError(f"theme {theme.name!r}: {_describe_error(error)}") from error


def _check_rule(rule: "RuleSet") -> None:
    rules = cast("dict[str, Any]", rule.styles.get_rules())
    for name in rules:
        plain = name.removeprefix("auto_")
        if plain not in _APPEARANCE_RULES and not plain.startswith(_FAMILIES):
            shown = name.replace("_", "-")
            raise ValueError(
                f"{rule.selectors} sets {shown!r}; themes may set only colours, "
                "borders and text styles"
            )
    ink, background = rules.get("color"), rules.get("background")
    if (
        ink is not None
        and background is not None
        and background.a == 1
        and _is_alike(ink, background)
    ):
        raise ValueError(f"{rule.selectors}: its text is unreadable")
    if rules.get("text_opacity", 1.0) < 0.3:
        raise ValueError(f"{rule.selectors}: its text is invisible")


def _look_at(app: "App[Any]") -> None:
    """Raises ValueError: what a person needs cannot be seen any more."""
    from ...widgets.chat_input import ChatInput

    for chat in app.screen_stack[0].query(ChatInput):
        _, _, background, ink = chat.colors
        if _is_alike(background.blend(ink, ink.a, alpha=1), background):
            raise ValueError("the input is unreadable")


def _describe_error(error: Exception) -> str:
    """What is wrong with CSS, in a line: Textual's own errors are made for a screen."""
    if isinstance(error, TokenError):
        line, column = error.start
        return f"css, line {line}, column {column}: {error.args[0] if error.args else error}"
    if isinstance(error, StylesheetParseError):
        for rule in error.errors.rules:
            for token, words in rule.errors:
                line, _ = token.location
                summary = getattr(words, "summary", words)
                return f"css, line {line + 1}: {summary}"
    return " ".join(str(error).split())
