"""Every option of a session can be set in the form that starts an agent."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Label

from quarterdeck.config.places import Places
from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.fleet.worktrees.api import WorktreeInfo
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.session_options import SessionLimits, SessionOptions, list_set
from quarterdeck.wire.worktrees import Worktree, WorktreeOptions
from quarterdeck.workbench.app import Workbench
from quarterdeck.workbench.screens.spawn import SpawnScreen
from quarterdeck.workbench.screens.spawn_lookup import look_at_directory
from quarterdeck.workbench.screens.spawn_model import (
    OptionTextError,
    SpawnAgent,
    SpawnDirectory,
    parse_option_text,
    parse_worktree_choice,
)
from quarterdeck.workbench.widgets.select import SelectOption
from tests.support.memory_fleet import FakeFleet
from tests.support.work_trees import git, new_repository
from tests.support.workbench_app import opened, screen_text, until

FIELDS = {"agent": "claude", "cwd": "/w", "model": "m", "mode": "plan"}
TEXT = (
    "effort=high transport=acp agent_mode=plan resume=0b1d fork=true system_prompt='Be brief.' "
    "roots=/a roots='/b c' allow='bash(git log:*)' deny=fetch tools=read tools=bash "
    "denied_tools=fetch limits.cost=0.5 limits.tokens=10 limits.model_calls=3 limits.seconds=4 "
    "environment.TOKEN=a=b worktree=docs worktree.base=main worktree.carry=true"
)


def test_a_text_sets_every_option():
    options = parse_option_text(TEXT, **FIELDS)
    assert options == SessionOptions(
        **FIELDS,
        effort="high",
        transport="acp",
        agent_mode="plan",
        resume="0b1d",
        fork=True,
        system_prompt="Be brief.",
        roots=("/a", "/b c"),
        allow=("bash(git log:*)",),
        deny=("fetch",),
        tools=("read", "bash"),
        denied_tools=("fetch",),
        limits=SessionLimits(cost=0.5, tokens=10, model_calls=3, seconds=4.0),
        environment={"TOKEN": "a=b"},
        worktree=WorktreeOptions(name="docs", base="main", carry=True),
    )
    unset = set(SessionOptions.__struct_fields__) - {"limits"} - set(list_set(options))
    assert unset == {"mcp_servers"}  # too much for a line of text


@pytest.mark.parametrize(
    ("text", "worktree"),
    [
        ("worktree=yes", WorktreeOptions()),
        ("worktree=no", WorktreeOptions(is_off=True)),
        ("worktree.path=/w/x", WorktreeOptions(path="/w/x")),
    ],
)
def test_a_worktree_is_asked_for_by_a_word(text: str, worktree: WorktreeOptions):
    assert parse_option_text(text).worktree == worktree


def test_no_text_sets_nothing():
    assert parse_option_text("", cwd="/w", model=None) == SessionOptions(cwd="/w")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("colour=red", "there is no 'colour'"),
        ("effort", "'effort' as name=value"),
        ("limits.cost=much", "limits.cost"),
        ("limits.days=2", "there is no 'limits.days'"),
        ("environment.=2", "there is no 'environment.'"),
        ("fork=perhaps", "fork"),
        ("allow='bash", "no closing quotation"),
    ],
)
def test_what_is_not_understood_is_named(text: str, told: str):
    with pytest.raises(OptionTextError) as caught:
        parse_option_text(text)
    assert told in str(caught.value)


HERE = SpawnDirectory(head="main", worktrees=("docs",), branches=("main", "next"))
ALWAYS = SpawnDirectory(head="main", has_default=True)
NOWHERE = SpawnDirectory(problem="the directory is not in a git repository")


@pytest.mark.parametrize(
    ("choice", "base", "carry", "known", "worktree"),
    [
        ("", "", False, HERE, None),
        ("", "", False, NOWHERE, None),
        ("", "", False, ALWAYS, None),
        ("", "next", False, ALWAYS, WorktreeOptions(base="next")),
        ("", "", True, ALWAYS, WorktreeOptions(carry=True)),
        ("none", "", False, ALWAYS, WorktreeOptions(is_off=True)),
        ("none", "", False, NOWHERE, WorktreeOptions(is_off=True)),
        ("new", "", False, HERE, WorktreeOptions()),
        ("new", "next", True, HERE, WorktreeOptions(base="next", carry=True)),
        ("tides", "next", False, HERE, WorktreeOptions(name="tides", base="next")),
        ("docs", "", False, HERE, WorktreeOptions(path="docs")),
        ("../other", "", False, HERE, WorktreeOptions(path="/w/../other")),
        ("/w/x", "", False, NOWHERE, WorktreeOptions(path="/w/x")),
    ],
)
def test_the_fields_ask_for_a_worktree(
    choice: str, base: str, carry: bool, known: SpawnDirectory, worktree: WorktreeOptions | None
):
    assert parse_worktree_choice(choice, base, carry, known, "/w") == worktree


@pytest.mark.parametrize(
    ("choice", "base", "carry", "known", "told"),
    [
        ("", "next", False, HERE, "base: needs a worktree"),
        ("none", "", True, HERE, "carry: needs a worktree"),
        ("docs", "next", False, HERE, "base: only for a new worktree"),
        ("/w/x", "", True, HERE, "carry: only for a new worktree"),
        ("new", "", False, NOWHERE, "worktree: the directory is not in a git repository"),
        ("tides", "", False, NOWHERE, "not in a git repository"),
    ],
)
def test_fields_that_do_not_fit_are_refused(
    choice: str, base: str, carry: bool, known: SpawnDirectory, told: str
):
    with pytest.raises(OptionTextError) as caught:
        parse_worktree_choice(choice, base, carry, known)
    assert told in str(caught.value)


class Desk:
    """The form, and what it starts."""

    def __init__(self, app: Workbench, pilot: Pilot[None], known: SpawnDirectory = HERE) -> None:
        self.app, self.pilot, self.known = app, pilot, known
        self.given: list[SpawnOptions] = []
        self.refuses: QuarterdeckError | None = None
        self.form = SpawnScreen("/w", "go", self, start=self._start)

    async def look(self, cwd: str) -> SpawnDirectory:
        return self.known if cwd == "/w" else NOWHERE

    async def agents(self, *, with_versions: bool) -> list[SpawnAgent]:
        del with_versions
        return [SpawnAgent(name="native", is_here=True), SpawnAgent(name="claude", is_here=True)]

    async def models(self, agent: SpawnAgent) -> list[SelectOption]:
        del agent
        return []

    async def directories(self, typed: str) -> list[SelectOption]:
        del typed
        return []

    async def _start(self, options: SpawnOptions) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.given.append(options)

    async def open(self) -> None:
        self.app.push_screen(self.form)
        await until(self.pilot, lambda: self.app.screen is self.form and self.form.query("#hint"))

    def field(self, name: str) -> Any:
        return self.form.query_one(f"#{name}", Input)

    @property
    def hint(self) -> str:
        return str(self.form.query_one("#hint", Label).render())

    async def shows(self, words: str) -> None:
        await until(self.pilot, lambda: words in screen_text(self.app))


@asynccontextmanager
async def desk(home: Path, known: SpawnDirectory = HERE) -> AsyncGenerator[Desk]:
    async with opened(FakeFleet(), home / "drafts") as (app, pilot):
        made = Desk(app, pilot, known)
        await made.open()
        await pilot.press("ctrl+o")
        yield made


async def test_the_form_sets_effort_and_other_options(tmp_path: Path):
    async with desk(tmp_path) as at:
        at.field("effort").value = "high"
        at.field("more").value = "limits.cost=much"
        await at.pilot.press("ctrl+s")
        await at.shows("✗ options: Expected")
        assert at.app.focused is at.field("more") and not at.given
        at.field("more").value = "limits.cost=2 tools=read"
        await at.pilot.press("ctrl+s")
        await until(at.pilot, lambda: at.given)
        await until(at.pilot, lambda: at.app.screen is not at.form)
    assert at.given[0].options == SessionOptions(
        cwd="/w", effort="high", tools=("read",), limits=SessionLimits(cost=2.0)
    )


async def test_a_worktree_is_chosen_with_keys_alone(tmp_path: Path):
    async with desk(tmp_path) as at:
        await at.shows("none, as the settings say")
        assert at.field("base").disabled
        await until(at.pilot, lambda: len(at.field("agent").options) == 2)
        await at.pilot.press("down")  # the next agent
        await at.pilot.press(*["tab"] * 7)
        assert at.app.focused is at.field("worktree")
        await at.pilot.press("down", "enter")
        assert at.field("worktree").value == "new"
        await at.shows("main, which is checked out")
        await at.pilot.press("tab", "up", "tab", "space", "enter", "space", "ctrl+s")
        await until(at.pilot, lambda: at.given)
    (request,) = at.given
    assert request.options.agent == "claude"
    assert request.options.worktree == WorktreeOptions(base="next", carry=True)


async def test_a_worktree_that_exists_takes_no_base(tmp_path: Path):
    async with desk(tmp_path, ALWAYS) as at:
        await at.shows("new, as the settings say")
        at.field("base").value = "next"
        at.known = HERE
        at.field("cwd").value = "/w "
        await at.shows("none, as the settings say")
        at.field("worktree").value = "docs"
        await until(at.pilot, lambda: at.field("base").disabled)
        await at.pilot.press("ctrl+s")
        await until(at.pilot, lambda: at.given)
    assert at.given[0].options.worktree == WorktreeOptions(path="docs")


async def test_what_is_refused_stays_in_the_form_with_the_reason(tmp_path: Path):
    async with desk(tmp_path) as at:
        await at.shows("none, as the settings say")
        at.field("worktree").value = "new"
        at.field("base").value = "nonsense"
        at.refuses = QuarterdeckError("there is no commit 'nonsense'")
        await at.pilot.press("ctrl+s")
        await at.shows("✗ there is no commit 'nonsense'")
        assert at.app.focused is at.field("base")
        at.refuses = None
        at.field("base").value = "next"
        await until(at.pilot, lambda: "✗" not in at.hint)
        await at.pilot.press("ctrl+s")
        await until(at.pilot, lambda: at.given)
    assert at.given[0].options.worktree == WorktreeOptions(base="next")


async def test_a_directory_without_git_is_told_before_anything_starts(tmp_path: Path):
    async with desk(tmp_path) as at:
        at.field("cwd").value = "/elsewhere"
        await at.shows("none: the directory is not in a git repository")
        at.field("worktree").value = "new"
        await at.pilot.press("ctrl+s")
        await at.shows("✗ worktree: the directory is not in a git repository")
        assert not at.given and at.app.focused is at.field("worktree")


async def test_a_worktree_is_asked_for_once(tmp_path: Path):
    async with desk(tmp_path) as at:
        await at.shows("none, as the settings say")
        at.field("worktree").value = "new"
        at.field("more").value = "worktree=docs"
        await at.pilot.press("ctrl+s")
        await at.shows("✗ options: worktree has a field of its own")
        assert not at.given


async def test_a_repository_tells_its_branches_worktrees_and_default(tmp_path: Path):
    project = new_repository(tmp_path / "project", {"a.txt": "1\n"})
    git(project, "branch", "next")
    places = Places.find({"QUARTERDECK_HOME": str(tmp_path / "home")})
    fleet = FakeFleet()
    worktree = Worktree(path="/s/docs", repository=str(project), base="1a2b")
    fleet.made_worktrees = [
        WorktreeInfo(name="docs", worktree=worktree),
        WorktreeInfo(name="gone", worktree=worktree, problem="it is gone"),
    ]
    async with opened(fleet, tmp_path / "drafts") as (app, _):
        app.context.discovery.places = places
        found = await look_at_directory(app.context, str(project))
        assert found == replace(HERE, mode="ask", effort="medium")
        places.config_file.parent.mkdir(parents=True, exist_ok=True)
        places.config_file.write_text("[worktrees]\ndefault = true\n")
        assert (await look_at_directory(app.context, str(project))).has_default
        assert "no directory" in (await look_at_directory(app.context, "/none/such")).problem
        assert (await look_at_directory(app.context, "/")).problem == NOWHERE.problem
