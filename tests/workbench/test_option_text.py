"""Every option of a session can be set in the form that starts an agent."""

from pathlib import Path

import pytest
from textual.widgets import Input

from quarterdeck.wire.session_options import SessionLimits, SessionOptions, list_set
from quarterdeck.wire.worktrees import WorktreeOptions
from quarterdeck.workbench.screens.spawn import OptionTextError, SpawnScreen, parse_option_text
from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import opened, until

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


async def test_the_form_sets_effort_and_other_options(tmp_path: Path):
    given: list[SessionOptions | None] = []
    async with opened(FakeFleet(), tmp_path / "drafts") as (app, pilot):
        form = SpawnScreen("/w", "go", ["native"])
        app.push_screen(form, lambda wish: given.append(wish and wish.options))
        await until(pilot, lambda: app.screen is form and form.query("#more"))
        form.query_one("#effort", Input).value = "high"
        form.query_one("#more", Input).value = "limits.cost=much"
        await pilot.press("ctrl+s")
        await pilot.pause()
        assert app.screen is form and not given
        form.query_one("#more", Input).value = "limits.cost=2 tools=read"
        await pilot.press("ctrl+s")
        await until(pilot, lambda: given)
    assert given == [
        SessionOptions(cwd="/w", effort="high", tools=("read",), limits=SessionLimits(cost=2.0))
    ]
