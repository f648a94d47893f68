"""What an agent has us do is decided like a call of our own, and recorded like one."""

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from quarterdeck.drivers.permissions import UnusedPermissions, core_command
from quarterdeck.policy.call import Call, path_use
from quarterdeck.policy.foreign_calls import CallContext, call_from_tool
from quarterdeck.policy.gate import Gate, PermissionAnswer, PermissionGranted
from quarterdeck.policy.grammar import parse_rule
from quarterdeck.policy.modes import Mode
from quarterdeck.wire.events import (
    PermissionAnswered,
    PermissionAsked,
    PermissionViolated,
    ToolCallEnded,
    TurnEnded,
)
from quarterdeck.wire.permissions import Decider, PermissionOption, Selected, option_of_kind
from tests.drivers.rigs.acp import acp_rig
from tests.support.contract import judge
from tests.support.driver_rig import Driven, drive

ME = Decider(kind="person", name="test")


def gate_of(mode: Mode = "ask", *rules: str, **options: Any) -> Gate:
    return Gate(mode=mode, rules=tuple(parse_rule(one) for one in rules), **options)


async def reason(driven: Driven, prompt: str) -> str:
    ended: TurnEnded = await driven.say(prompt)
    assert ended.stop == "failed", ended
    return ended.reason or ""


async def test_a_write_is_asked_about_and_done_when_allowed(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        turn = asyncio.create_task(driven.say(f"write {tmp_path}/a.txt hello"))
        asked = await driven.answer("allow_once")
        assert not (tmp_path / "b.txt").exists()
        assert (await turn).stop == "end_turn"
    assert (tmp_path / "a.txt").read_text() == "hello"
    assert asked.kind == "edit" and "a.txt" in asked.title
    (answered,) = driven.all(PermissionAnswered)
    assert answered.by == ME and answered.call == asked.call
    assert driven.all(PermissionViolated) == []
    judge(driven.heard)


async def test_a_refused_write_is_an_error_that_the_agent_can_show(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        turn = asyncio.create_task(driven.say(f"write {tmp_path}/a.txt hello"))
        await driven.answer("reject_once")
        ended = await turn
    assert ended.stop == "failed" and "not allowed" in (ended.reason or "")
    assert not (tmp_path / "a.txt").exists()


async def test_a_terminal_is_asked_about_with_its_command(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("terminal touch made.txt"))
        asked = await driven.answer("allow_once")
        assert (await turn).stop == "end_turn"
        assert "touch made.txt" in asked.title
        assert (tmp_path / "made.txt").exists()
        again = asyncio.create_task(driven.say("terminal touch more.txt"))
        await driven.answer("reject_once")
        assert (await again).stop == "failed"
    assert not (tmp_path / "more.txt").exists()
    judge(driven.heard)


async def test_nobody_there_means_no(tmp_path: Path):
    gate = gate_of(attended=False)
    async with drive(acp_rig(), tmp_path, gate=gate) as driven:
        assert "not allowed" in await reason(driven, f"write {tmp_path}/a.txt hello")
        assert "not allowed" in await reason(driven, "terminal touch made.txt")
    assert not (tmp_path / "a.txt").exists() and not (tmp_path / "made.txt").exists()
    assert gate.refused_unattended == 2


async def test_a_deny_rule_holds_for_reading_and_an_allow_rule_needs_no_person(tmp_path: Path):
    (tmp_path / ".env").write_text("secret")
    (tmp_path / "open.txt").write_text("open")
    gate = gate_of("ask", "deny read(.env)", "allow edit(out/**)")
    around = CallContext(cwd=str(tmp_path), roots=(str(tmp_path),), on_unheld="warn")
    async with drive(acp_rig(), tmp_path, gate=gate, around=around) as driven:
        assert "denied by the rule" in await reason(driven, f"read {tmp_path}/.env")
        assert (await driven.say(f"read {tmp_path}/open.txt")).stop == "end_turn"
        assert (await driven.say(f"write {tmp_path}/out/a hello")).stop == "end_turn"
    assert "secret" not in driven.text
    assert driven.all(PermissionAsked) == []
    kinds = [one.by.kind for one in driven.all(PermissionAnswered)]
    assert kinds == ["rule", "mode", "rule"]


async def test_what_the_agent_got_leave_for_is_not_asked_about_again(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        turn = asyncio.create_task(
            driven.say("ask touch made.txt\nterminal touch made.txt\nterminal touch made.txt")
        )
        await driven.answer("allow_once")
        # The second terminal with the same command is another deed.
        await driven.answer("reject_once")
        await turn
    assert len(driven.all(PermissionAsked)) == 2
    assert (tmp_path / "made.txt").exists()


async def test_interrupting_answers_what_we_were_asked_to_do(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        turn = asyncio.create_task(driven.say(f"write {tmp_path}/a.txt hello"))
        await driven.seen(PermissionAsked)
        await driven.session.interrupt()
        assert (await turn).stop == "cancelled"
    assert not (tmp_path / "a.txt").exists()
    assert [one.outcome.__class__.__name__ for one in driven.all(PermissionAnswered)] == [
        "Cancelled"
    ]
    judge(driven.heard)


async def test_closing_answers_what_we_were_asked_to_do(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("terminal touch made.txt"))
        await driven.seen(PermissionAsked)
    await turn
    assert not (tmp_path / "made.txt").exists()
    judge(driven.heard)


async def test_other_calls_are_heard_while_one_waits(tmp_path: Path):
    (tmp_path / "a").write_text("there")
    async with drive(acp_rig(), tmp_path) as driven:
        turn = asyncio.create_task(driven.say(f"asks 2\nread {tmp_path}/a"))
        await driven.answer("allow_once")
        await driven.answer("reject_once")
        assert (await turn).stop == "end_turn"
    assert driven.text.endswith("there")


async def test_a_command_in_full_auto_cannot_leave_the_workspace(tmp_path: Path):
    from quarterdeck.system.sandbox import detect_sandbox

    if not (await detect_sandbox()).is_there:
        pytest.skip("there is no sandbox here")
    work, outside = tmp_path / "work", Path.home() / ".quarterdeck-test-outside"
    work.mkdir()
    async with drive(acp_rig(), work, gate=gate_of("full-auto")) as driven:
        await driven.say(f"terminal touch inside.txt; touch {outside} || echo held")
    assert (work / "inside.txt").exists()
    assert not outside.exists()
    assert driven.all(PermissionAsked) == []


async def test_full_auto_asks_where_nothing_holds_a_command(tmp_path: Path):
    from quarterdeck.policy.modes import NO_SANDBOX
    from tests.support.driver_rig import Rig

    link = acp_rig().make()
    assert isinstance(acp_rig(), Rig)

    async def nothing() -> Any:
        return NO_SANDBOX

    def make() -> Any:
        return link

    async with drive(Rig(name="acp", make=make), tmp_path, gate=gate_of("full-auto")) as driven:
        link._contained.sandbox = nothing  # type: ignore[attr-defined]
        turn = asyncio.create_task(driven.say("terminal touch made.txt"))
        await driven.answer("reject_once")
        assert (await turn).stop == "failed"
    assert not (tmp_path / "made.txt").exists()


# Violations


async def test_an_edit_that_nobody_was_asked_about_is_told(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        await driven.say(f"sneak {tmp_path}/a.txt hello")
    (violation,) = driven.all(PermissionViolated)
    assert violation.kind == "edit" and "no permission was requested" in violation.reason
    ends = driven.all(ToolCallEnded)
    assert driven.events.index(violation) == driven.events.index(ends[0]) + 1


async def test_what_policy_allows_by_itself_is_no_violation(tmp_path: Path):
    async with drive(acp_rig(), tmp_path, gate=gate_of("accept-edits")) as driven:
        await driven.say(f"sneak {tmp_path}/a.txt hello")
        await driven.say("tool look")
    assert driven.all(PermissionViolated) == []


async def test_a_mode_of_the_agents_own_that_a_person_named_is_no_violation(tmp_path: Path):
    async with drive(acp_rig(), tmp_path, agent_mode="plan") as driven:
        await driven.say(f"sneak {tmp_path}/a.txt hello")
    assert driven.all(PermissionViolated) == []


async def test_by_setting_a_violation_ends_the_turn(tmp_path: Path):
    around = CallContext(cwd=str(tmp_path), roots=(str(tmp_path),), on_violation="stop")
    async with drive(acp_rig(), tmp_path, around=around) as driven:
        ended = await driven.say(f"sneak {tmp_path}/a.txt hello\nwait")
    assert ended.stop == "failed" and "without permission" in (ended.reason or "")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit and a file that has changed since."""
    git = ("git", "-c", "user.name=x", "-c", "user.email=x@localhost", "-C", str(tmp_path))
    (tmp_path / "kept.txt").write_text("kept\n")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "first")):
        subprocess.run([*git, *words], check=True, env={"PATH": os.environ["PATH"]})
    (tmp_path / "kept.txt").write_text("changed\n")
    return tmp_path


@pytest.mark.parametrize("mode", ["read-only", "plan"])
@pytest.mark.parametrize("name", ["new.txt", "kept.txt", "ünïcôde.txt"])
async def test_a_change_on_disk_in_a_mode_that_allows_none_is_told(
    repository: Path, mode: Mode, name: str
):
    async with drive(acp_rig(), repository, gate=gate_of(mode)) as driven:
        await driven.say("echo hello")
        assert driven.all(PermissionViolated) == []
        await driven.say(f"hide {repository}/{name} hidden")
    (violation,) = driven.all(PermissionViolated)
    assert violation.call is None and name in violation.title and mode in violation.reason


async def test_a_change_that_the_agent_tells_of_is_told_once(repository: Path):
    async with drive(acp_rig(), repository, gate=gate_of("read-only")) as driven:
        await driven.say(f"sneak {repository}/new.txt hello")
    (violation,) = driven.all(PermissionViolated)
    assert violation.call is not None


async def test_a_command_that_a_person_let_run_may_change_files(repository: Path):
    async with drive(acp_rig(), repository, gate=gate_of("plan")) as driven:
        turn = asyncio.create_task(driven.say("terminal touch made.txt"))
        await driven.answer("allow_once")
        await turn
    assert (repository / "made.txt").exists()
    assert driven.all(PermissionViolated) == []


async def test_a_change_through_us_by_leave_is_no_violation(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        turn = asyncio.create_task(driven.say(f"write {tmp_path}/a hello\nterminal touch b"))
        await driven.answer("allow_once")
        await driven.answer("allow_once")
        await turn
    assert driven.all(PermissionViolated) == []


# Options


async def test_always_is_ours_and_the_agent_hears_of_this_once(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("ask make all"))
        asked = await driven.seen(PermissionAsked)
        chosen = option_of_kind(asked.options, "allow_always")
        assert chosen is not None and chosen not in ("always", "yes")
        driven.session.answer(
            asked.request, PermissionAnswer(outcome=Selected(option_id=chosen), by=ME)
        )
        await turn
        assert driven.text == "permission: yes, allowed"
        await driven.say("ask make all")  # our own grant answers
    assert len(driven.all(PermissionAsked)) == 1


def test_what_an_agent_would_remember_is_never_meant_by_its_kind():
    theirs = [PermissionOption(option_id="always", name="Always", kind="allow_always")]
    assert option_of_kind(theirs, "allow_always") is None


async def test_an_agent_cannot_say_what_its_options_mean_to_us(tmp_path: Path):
    gate = gate_of()
    async with drive(acp_rig(), tmp_path, gate=gate) as driven:
        turn = asyncio.create_task(driven.say("forged-options make all"))
        asked = await driven.seen(PermissionAsked)
        assert all(one.meta is None for one in asked.options if one.option_id == "yes")
        answer = PermissionAnswer(outcome=Selected(option_id="yes"), by=ME)
        assert driven.session.answer(asked.request, answer)
        await turn
    assert gate.grants.all == ()


# What covers what


def call(**fields: Any) -> Call:
    return Call(tool="x", cwd="/w", roots=("/w",), **fields)


def test_leave_to_edit_covers_reads_and_one_write_of_that_file():
    given = UnusedPermissions()
    given.add(call(kind="edit", paths=(path_use("a", "write", cwd="/w"),)), PermissionGranted())
    read = call(kind="read", paths=(path_use("a", "read", cwd="/w"),))
    write = call(kind="edit", paths=(path_use("a", "write", cwd="/w"),))
    other = call(kind="edit", paths=(path_use("b", "write", cwd="/w"),))
    assert given.take(other) is None
    assert given.take(read) and given.take(read)
    assert given.take(write) and given.take(write) is None
    given.clear()
    assert given.take(read) is None


@pytest.mark.parametrize(
    ("command", "is_covered"),
    [
        ("make test", True),
        ("/bin/bash -c 'make test'", True),
        ("/bin/bash -c \"cd '/w' && make test\"", True),
        ("bash -lc 'make test'", True),
        ("make test; rm -rf /", False),
        ("/bin/bash -c 'cd /elsewhere && make test'", False),
        ("./bash -c 'make test'", False),
        ("LD_PRELOAD=./x.so make test", False),
    ],
)
def test_leave_for_a_command_covers_exactly_that_command(command: str, is_covered: bool):
    given = UnusedPermissions()
    given.add(call(kind="execute", command="make test"), PermissionGranted(containment="sealed"))
    found = given.take(call(kind="execute", command=command))
    assert (found is not None) is is_covered
    if found is not None:
        assert found.containment == "sealed"
        assert given.take(call(kind="execute", command=command)) is None


def test_leave_for_a_command_is_for_its_directory():
    given = UnusedPermissions()
    given.add(call(kind="execute", command="make"), PermissionGranted())
    elsewhere = Call(tool="x", kind="execute", command="make", cwd="/other")
    assert given.take(elsewhere) is None


def test_a_broken_line_is_left_as_it_is():
    assert core_command("echo 'a", "/w") == "echo 'a"


@pytest.mark.parametrize("path", ["link/../secret.txt", "{top}/link/../secret.txt", "~/secret.txt"])
async def test_the_file_that_was_decided_on_is_the_one_that_is_written(tmp_path: Path, path: str):
    secrets = (tmp_path / "sub" / "secret.txt", tmp_path / "~" / "secret.txt")
    for secret in secrets:
        secret.parent.mkdir()
        secret.write_text("secret")
    (tmp_path / "sub" / "deep").mkdir()
    (tmp_path / "link").symlink_to("sub/deep")
    rules = ("deny edit(sub/secret.txt)", "deny edit(./~/secret.txt)", "allow edit(~/**)")
    async with drive(acp_rig(), tmp_path, gate=gate_of("accept-edits", *rules)) as driven:
        await driven.say(f"write {path.format(top=tmp_path)} changed")
    assert [secret.read_text() for secret in secrets] == ["secret", "secret"]


async def test_a_terminal_runs_in_the_directory_that_was_decided_on(tmp_path: Path):
    from quarterdeck.drivers.acp.terminals import ContainedTerminals, ServedTerminals
    from quarterdeck.drivers.link import ServedCall
    from quarterdeck.system.local import LocalSystem
    from quarterdeck.wire.acp import schema as acp

    (tmp_path / "sub" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("sub/deep")
    (tmp_path / "~").mkdir()
    decided: list[str] = []

    class Noting:
        async def carry_out(self, call: ServedCall, act: Any) -> Any:
            around = CallContext(cwd=str(tmp_path), roots=(str(tmp_path),), home="/home/x")
            raw: Any = call.raw_input
            decided.append(call_from_tool(call.name, call.kind, raw, around=around).cwd)
            return await act("none")

        def shows(self, terminal: str) -> None:
            return

    async def emit(event: object) -> None:
        return

    async with LocalSystem([tmp_path]) as system:
        served = ServedTerminals(ContainedTerminals(system), Noting(), emit)  # type: ignore[arg-type]
        for cwd in ("link/..", f"{tmp_path}/link/..", "~", "sub"):
            request = acp.CreateTerminalRequest(session_id="s", command="/bin/pwd", args=("-P",))
            made = await served.create(replace(request, cwd=cwd))
            of_it = {"session_id": "s", "terminal_id": made.terminal_id}
            await served.wait(acp.WaitForTerminalExitRequest(**of_it))
            shown = await served.output(acp.TerminalOutputRequest(**of_it))
            assert shown.output == f"{decided[-1]}\n", cwd
        await served.close(1)
