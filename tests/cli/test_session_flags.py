"""What ``run`` can set, ``spawn``, ``lead`` and a lead's tool can set too."""

from typing import Any

import click
import pytest

from quarterdeck.cli.fleet.spawn import lead, spawn
from quarterdeck.cli.headless.command import run
from quarterdeck.cli.session_flags import make_session_options
from quarterdeck.fleet.mcp.lead_tools import SpawnArguments
from quarterdeck.wire.session_options import SessionOptions, list_set
from quarterdeck.wire.worktrees import WorktreeOptions

OF_A_RUN = {
    *("prompt", "format_", "quiet", "output_schema"),  # what is printed
    *("goal", "max_minutes", "max_turns"),  # what it does, in place of one prompt
    *("record", "cassette"),  # the meter of a run alone
    "continue_",  # sessions of ``run`` have no host; ``quarterdeck resume`` is for the others
}
ALL = [
    *("-a", "claude", "-C", "/", "--root", "/tmp", "--transport", "acp", "-m", "big"),
    *("--effort", "high", "--mode", "plan", "--agent-mode", "plan", "--allow", "bash(ls)"),
    *("--deny", "fetch", "--tool", "read", "--deny-tool", "bash", "--system-prompt", "Be brief."),
    *("-e", "TOKEN=s3cret", "--max-cost", "1.5", "--max-tokens", "9", "--max-calls", "3"),
    *("--max-seconds", "4", "--resume", "0b1d", "--fork"),
]


def names(command: click.Command) -> set[str]:
    return {one.name or "" for one in command.params}


def test_spawn_and_lead_have_every_flag_of_run():
    for command in (spawn, lead):
        theirs = {"resume" if name == "session" else name for name in names(command)}
        assert names(run) - OF_A_RUN - theirs == set(), command.name


@pytest.mark.parametrize("command", [run, spawn, lead], ids=lambda one: one.name)
def test_the_flags_set_every_option_but_servers(command: click.Command):
    given = [*ALL, *(() if command is run else ("--worktree=docs",))]
    values: dict[str, Any] = command.make_context(command.name, given).params
    options = make_session_options(values, resume=values.get("session", values.get("resume")))
    limits = {"limits.cost", "limits.tokens", "limits.model_calls", "limits.seconds"}
    every = {*SessionOptions.__struct_fields__, *limits} - {"limits", "mcp_servers"}
    if command is run:  # a worktree is the fleet's to make
        every -= {"worktree"}
    assert set(list_set(options)) == every
    assert (options.effort, options.environment) == ("high", {"TOKEN": "s3cret"})


@pytest.mark.parametrize("command", [spawn, lead], ids=lambda one: one.name)
@pytest.mark.parametrize(
    ("flags", "worktree"),
    [
        ((), None),
        (("--worktree",), WorktreeOptions()),
        (
            ("--worktree=docs", "--base", "main", "--carry"),
            WorktreeOptions(name="docs", base="main", carry=True),
        ),
        (("-w=docs",), WorktreeOptions(name="docs")),
        (("-w=",), WorktreeOptions()),
        (("--no-worktree",), WorktreeOptions(is_off=True)),
        (("--in-worktree", "/tmp"), WorktreeOptions(path="/tmp")),
        (("--in-worktree", "docs"), WorktreeOptions(path="docs")),
    ],
)
def test_a_worktree_is_asked_for(
    command: click.Command, flags: tuple[str, ...], worktree: WorktreeOptions | None
):
    values: dict[str, Any] = command.make_context(command.name, list(flags)).params
    assert make_session_options(values, resume=None).worktree == worktree


@pytest.mark.parametrize("flag", ["-w", "--worktree"])
def test_what_follows_the_flag_is_the_prompt(flag: str):
    values: dict[str, Any] = spawn.make_context("spawn", [flag, "fix it"]).params
    assert (values["prompt"], values["worktree"]) == ("fix it", "")
    values = spawn.make_context("spawn", ["--", flag]).params
    assert (values["prompt"], values["worktree"]) == (flag, None)


@pytest.mark.parametrize(
    "flags",
    [
        ("--base", "main"),
        ("--carry",),
        ("--worktree", "--no-worktree"),
        ("--in-worktree", "x", "--base", "main"),
    ],
)
def test_flags_for_worktrees_that_exclude_each_other(flags: tuple[str, ...]):
    values: dict[str, Any] = spawn.make_context("spawn", list(flags)).params
    with pytest.raises(click.UsageError):
        make_session_options(values, resume=None)


def test_a_lead_can_set_for_its_agents_what_a_person_can_but_what_is_not_its_to_give():
    flags = {
        *("cwd", "roots", "transport", "model", "effort", "mode", "agent_mode", "allow", "deny"),
        *("tools", "denied_tools", "budget", "max_cost", "max_tokens", "max_calls", "max_seconds"),
    }
    assert {"worktree", "base"} <= set(SpawnArguments.__struct_fields__)
    assert flags <= set(SpawnArguments.__struct_fields__)
    kept_back = {"variables", "resume", "fork"}
    assert kept_back.isdisjoint(SpawnArguments.__struct_fields__)
    assert names(run) - OF_A_RUN - kept_back - flags == {"agent", "system_prompt"}
