"""Text can be read in every theme of ours, in 16 colours, and without any colour at all."""

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.app import App, ComposeResult

import quarterdeck.workbench
from quarterdeck.workbench.preferences.themes.apply import apply_theme
from quarterdeck.workbench.preferences.themes.files import FEW_COLOURS, FoundTheme, find_themes
from quarterdeck.workbench.widgets.lines_view import ROLES, LineCanvas
from tests.support.all_states import STATES
from tests.support.screen_strips import render_screen
from tests.support.staged_workbench import Stage, staged

LEAST = 4.5
THEMES = find_themes(())
GROUNDS = ("background", "surface", "surface-lighten-1")
SHADES = ("diff-line-added", "diff-line-removed", "diff-word-added", "diff-word-removed")
"""Behind the code of a change."""
SEEN = (
    "many-agents", "permission-for-a-command", "permission-for-a-change", "question-form",
    "spawn-form-with-a-worktree", "review-with-comments", "help-of-everything", "palette",
    "trust-question", "something-went-wrong-is-told", "editor-in-conflict", "usage-by-agent",
)  # fmt: skip
"""States with every kind of widget."""


def contrast(style: Style, system: ColorSystem | None = None) -> float:
    """As the guidelines for the web measure it; ``system``: after a terminal has fewer colours."""
    assert style.color is not None and style.bgcolor is not None
    pair = [style.color, style.bgcolor]
    if system is not None:
        pair = [colour.downgrade(system) for colour in pair]
    light, dark = sorted((_luminance(colour.get_truecolor()) for colour in pair), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(parts: tuple[int, int, int]) -> float:
    shares = [part / 255 for part in parts]
    red, green, blue = (
        one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in shares
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


class Roles(App[None]):
    """A canvas on each ground that panels and dialogs have."""

    CSS_PATH = Path(quarterdeck.workbench.__file__).with_name("workbench.tcss")

    def compose(self) -> ComposeResult:
        for ground in GROUNDS:
            canvas = LineCanvas(id=ground)
            canvas.line_at = lambda y: ((), False)  # pyright: ignore[reportAttributeAccessIssue]
            canvas.styles.height = 2
            yield canvas


def find_poor_roles(app: App[None], system: ColorSystem | None) -> list[str]:
    poor: list[str] = []
    for ground in GROUNDS:
        canvas = app.query_one(f"#{ground}", LineCanvas)
        code = [role for role in ROLES if role.startswith(("text", "faint", "code"))]
        shades = SHADES if ground != "surface-lighten-1" else ()  # no change is shown there
        shaded = [f"{role}/{shade}" for role in code for shade in shades]
        for role in (*(one for one in ROLES if one not in SHADES), *shaded):
            for is_marked in (False, True):
                found = contrast(canvas.look(role, is_marked), system)
                if found < LEAST and not (is_marked and "/" in role):
                    poor.append(f"{role} on {ground}{' marked' * is_marked}: {found:.2f}")
    return poor


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
async def test_every_role_can_be_read_on_every_ground(theme: FoundTheme):
    app = await asyncio.to_thread(Roles)
    async with app.run_test() as pilot:
        apply_theme(app, theme)
        for ground in GROUNDS:
            app.query_one(f"#{ground}").styles.background = app.theme_variables[ground]
        await pilot.pause()
        system = ColorSystem.STANDARD if theme.name == FEW_COLOURS else None
        poor = find_poor_roles(app, system)
        assert not poor, "\n".join(poor)


def find_poor_text(stage: Stage, system: ColorSystem | None) -> Iterator[str]:
    """What is written too faintly; not behind a dialog, where it is dimmed on purpose."""
    screen = stage.app.screen
    is_modal = len(stage.app.screen_stack) > 1
    for y, strip in enumerate(render_screen(stage.app)):
        x = 0
        for segment in strip:
            first = x + len(segment.text) - len(segment.text.lstrip())
            x += segment.cell_length
            if not _is_text(segment):
                continue
            if is_modal and screen.get_widget_at(first, y)[0] is screen:
                continue
            found = contrast(segment.style or Style(), system)
            if found < LEAST:
                yield f"{segment.text.strip()[:40]!r} in line {y}: {found:.2f}"


def _is_text(segment: Segment) -> bool:
    style = segment.style
    is_drawn = style is not None and style.color is not None and style.bgcolor is not None
    return is_drawn and any(character.isalnum() for character in segment.text)


@pytest.fixture
def place() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="qd-", dir="/tmp"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.mark.parametrize("some", [THEMES[:3], THEMES[3:6], THEMES[6:]], ids=["1", "2", "3"])
@pytest.mark.parametrize("name", SEEN)
async def test_what_is_on_the_screen_can_be_read_in_every_theme(
    name: str, some: list[FoundTheme], place: Path
):
    poor: list[str] = []
    async with staged(STATES[name], place, (100, 30)) as stage:
        for theme in some:
            apply_theme(stage.app, theme)
            await stage.pilot.pause()
            system = ColorSystem.STANDARD if theme.name == FEW_COLOURS else None
            poor += [f"{theme.name}: {words}" for words in find_poor_text(stage, system)]
    assert not poor, "\n".join(poor[:40])
