"""The states of a screen in which a person chooses: a new agent, settings."""

import asyncio
from pathlib import Path

from quarterdeck.fleet.worktrees.api import WorktreeInfo
from quarterdeck.policy.grants import Grant
from quarterdeck.wire.worktrees import Worktree
from quarterdeck.workbench.screens.spawn import SpawnScreen
from quarterdeck.workbench.screens.spawn_model import (
    ModelPrice,
    SpawnAgent,
    SpawnDirectory,
    list_directory_options,
    list_model_options,
)
from quarterdeck.workbench.widgets.select import SelectField, SelectOption

from .staged_workbench import Stage, StagedFleet, state
from .workbench_app import until

__all__ = ["FixedSource", "open_spawn_form"]

HERE = SpawnDirectory(
    head="main", worktrees=("docs",), branches=("main", "next"), mode="ask", effort="medium",
    model="anthropic/claude-sonnet-5-5",
)  # fmt: skip
AGENTS = (
    SpawnAgent(name="native", title="Quarterdeck", is_here=True, version="0.2.0", login="yes"),
    SpawnAgent(
        name="claude", title="Claude Code", is_here=True, version="2.1.325", login="yes",
        vendor="anthropic", options=frozenset(("model", "mode", "limits.seconds")),
    ),
    SpawnAgent(
        name="codex", title="Codex", is_here=True, version="0.166.0", login="no", vendor="openai",
        options=frozenset(("model", "mode", "limits.seconds")),
        modes={"deny-all": "it reads files without asking"},
    ),
    SpawnAgent(name="gemini", title="Gemini CLI", install="npm install -g @google/gemini-cli"),
    SpawnAgent(name="goose", title="Goose", install="https://block.github.io/goose"),
)  # fmt: skip


class FixedSource:
    """What can be chosen is the same on every machine."""

    def __init__(self, known: SpawnDirectory = HERE) -> None:
        self.known = known

    async def look(self, cwd: str) -> SpawnDirectory:
        del cwd
        return self.known

    async def agents(self, *, with_versions: bool) -> tuple[SpawnAgent, ...]:
        del with_versions
        return AGENTS

    async def models(self, agent: SpawnAgent) -> list[SelectOption]:
        names = ("claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-4-5")
        own = agent.name == "native"
        known: dict[str, ModelPrice | None] = {
            f"anthropic/{name}" if own else name: ModelPrice(input=price, output=price * 5)
            for name, price in zip(names, (4.0, 2.0, 1.0), strict=True)
        }
        known["ollama/qwen4-coder" if own else "claude-fable-5-2"] = None
        reported = () if own else (("opus", "the most capable"), ("sonnet", "for daily work"))
        usable = frozenset(name for name in known if "anthropic" in name) if own else None
        return list_model_options(known, reported, usable)

    async def directories(self, typed: str) -> list[SelectOption]:
        below = ("/work/project", "/work/pumps") if typed.startswith("/work/p") else ()
        return list_directory_options(typed, ("/work/project",), ("/work/tides",), below)


async def _refuse(options: object) -> None:
    raise AssertionError(options)


async def open_spawn_form(
    stage: Stage, prompt: str = "Fix the failing test.", **chosen: str
) -> SpawnScreen:
    """The form, with what it offers."""
    form = SpawnScreen("/work/project", prompt, FixedSource(), start=_refuse, chosen=chosen)
    stage.app.push_screen(form)
    await until(stage.pilot, lambda: stage.app.screen is form and form.query("#hint"))
    await until(stage.pilot, lambda: form.query_one("#agent", SelectField).options)
    await until(stage.pilot, lambda: form.query_one("#model", SelectField).options)
    return form


async def _unfold(stage: Stage) -> None:
    """Show all fields of the form; a screen with room for them does so by itself."""
    await stage.until("ctrl+o")
    if "ctrl+o more fields" in stage.text:
        await stage.press("ctrl+o")
    await stage.until("ctrl+o fewer fields")


@state()
async def spawn_form(stage: Stage) -> None:
    await open_spawn_form(stage, "")
    await stage.until("as the settings say · needs your", "our own agent · 0.2.0")


@state()
async def spawn_form_with_agents(stage: Stage) -> None:
    await open_spawn_form(stage)
    await stage.press("down")
    await stage.until("not installed", "0.166.0 · not logged in")


@state()
async def spawn_form_with_models(stage: Stage) -> None:
    await open_spawn_form(stage, agent="claude")
    await stage.press("tab", "tab", *"claude")
    await stage.until("2 $ in · 10 $ out per million", "price unknown")


@state()
async def spawn_form_with_modes(stage: Stage) -> None:
    await open_spawn_form(stage, agent="codex", mode="plan")
    await stage.press("tab", "tab", "tab", "down")
    await stage.until("not with Codex: it reads files")


@state()
async def spawn_form_with_directories(stage: Stage) -> None:
    await open_spawn_form(stage)
    await _unfold(stage)
    await stage.press(*["tab"] * 4, "down")
    await stage.until("/work/tides")


async def worktrees(fleet: StagedFleet, home: Path) -> None:
    worktree = Worktree(path="/state/docs", repository=str(home / "project"), base="1a2b3c4")
    fleet.made_worktrees = [WorktreeInfo(name="docs", worktree=worktree)]


async def _fill_in(stage: Stage) -> None:
    stage.app.context.cwd = str(stage.project)
    await stage.press("ctrl+t")
    await stage.press(*"Fix the failing test.")
    await _unfold(stage)
    await stage.until("none, as the settings say")
    await stage.press(*["tab"] * 6, *"new", "enter")
    await stage.until("which is checked out")


@state(worktrees, files=True)
async def spawn_form_with_a_worktree(stage: Stage) -> None:
    await _fill_in(stage)
    await stage.press("tab", "tab", "space")
    await stage.until("yours stay")


@state(worktrees, files=True)
async def spawn_form_that_was_refused(stage: Stage) -> None:
    await _fill_in(stage)
    await stage.press(*["backspace"] * 3, *"docs", *["tab"] * 6, *"worktree=new", "ctrl+s")
    await stage.until("✗ options: worktree has a field")


# Settings


async def configured(fleet: StagedFleet, home: Path) -> None:
    del fleet
    await asyncio.to_thread(_write_settings, home / "config" / "config.toml")


def _write_settings(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('# mine\nmode = "plan"\n\n[limits]\ncost = 2.5\n')


@state(configured)
async def settings_list(stage: Stage) -> None:
    await stage.command("settings")
    await stage.until("2 changed", "The model of our own agent")
    await stage.press("down")
    await stage.until("What agents may do without asking.", "from your file")


@state(configured)
async def settings_edit_with_an_error(stage: Stage) -> None:
    await stage.command("settings", "limits.cost")
    await stage.until("Cost of one turn")
    await stage.press("enter")
    await stage.until("scope")
    await stage.press(*"much", "enter", "enter")
    await stage.until("✗ expected a number of US dollars")


@state(configured)
async def settings_edit_with_choices(stage: Stage) -> None:
    await stage.command("settings", "what agents may do")
    await stage.until("1 of")
    await stage.press("enter", "down")
    await stage.until("deny-all")


# Permissions

_POLICIES = """
[people.ann]
uid = 1000
[people.bob]
uid = 1001
[permissions]
deny = ["read(.env)"]
allow = ["bash(git log:*)"]
[[permissions.approvers]]
match = "bash(git push:*)"
people = ["ann", "bob"]
needed = 2
"""


async def ruled(fleet: StagedFleet, home: Path) -> None:
    """Rules, people and grants."""
    await asyncio.to_thread(_write_policies, home / "config" / "config.toml")
    for number, pattern in enumerate(("bash(npm test)", "bash(make:*)", "edit(docs/**)")):
        grant = Grant(
            id=f"grt_{number}",
            effect="allow",
            pattern=pattern,
            scope="user",
            by="workbench",
            created=1,
            reason="the release" if number == 1 else None,
            uses=3 if number == 1 else None,
        )
        fleet.granted[grant.id] = grant


def _write_policies(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_POLICIES)


@state(ruled)
async def permissions_list(stage: Stage) -> None:
    await stage.command("permissions")
    await stage.until("needs 2 of ann, bob", "the first answer decides", "never used")
