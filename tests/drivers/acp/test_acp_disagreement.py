"""What an agent says about one call in several places, and where that does not agree.

The gate decides about what a request says, and an agent may say one thing in its updates, another
in the request and do a third. Where the accounts differ a person is asked and sees them all; what
an agent reports that it did, beyond what was allowed, is a violation.
"""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from quarterdeck.drivers.permissions import FileWrite
from quarterdeck.policy.gate import Gate
from quarterdeck.policy.grammar import parse_rule
from quarterdeck.policy.modes import Mode
from quarterdeck.wire.events import (
    PermissionAsked,
    PermissionViolated,
    ToolCallStarted,
    UnknownEvent,
)
from quarterdeck.wire.tool_calls import Diff
from tests.drivers.rigs.acp import acp_rig
from tests.support.contract import judge
from tests.support.driver_rig import Driven, drive

CALL = "x"


def gate_of(mode: Mode = "ask", *rules: str, **options: Any) -> Gate:
    return Gate(mode=mode, rules=tuple(parse_rule(one) for one in rules), **options)


def announced(**fields: Any) -> dict[str, Any]:
    given = {"toolCallId": CALL, "title": "Run", "kind": "execute", "status": "pending", **fields}
    return {"update": {"sessionUpdate": "tool_call", **given}}


def updated(**fields: Any) -> dict[str, Any]:
    return {"update": {"sessionUpdate": "tool_call_update", "toolCallId": CALL, **fields}}


def requested(*more: str, **fields: Any) -> dict[str, Any]:
    return {"request": {"toolCallId": CALL, **fields}, "more": more}


def shown(words: str) -> list[dict[str, Any]]:
    return [{"type": "content", "content": {"type": "text", "text": words}}]


def changed(path: str, new: str = "x", old: str | None = None) -> dict[str, Any]:
    return {"type": "diff", "path": path, "newText": new, "oldText": old}


def script(*steps: dict[str, Any]) -> str:
    return "forge " + msgspec.json.encode(steps).decode()


async def asked_about(driven: Driven, *steps: dict[str, Any]) -> PermissionAsked | None:
    """What a person was asked for the steps, denied; None: it was decided without."""
    turn = asyncio.create_task(driven.say(script(*steps)))
    asking = asyncio.create_task(driven.seen(PermissionAsked))
    await asyncio.wait([turn, asking], return_when=asyncio.FIRST_COMPLETED)
    if not asking.done():
        asking.cancel()
        await turn
        return None
    asked = await driven.answer("reject_once")
    await turn
    return asked


LS = {"command": "ls"}
RM = {"command": "rm -rf build"}

DIFFERENT = {
    "arguments in the text of a call": (
        announced(title="rm -rf build", content=shown('{"command": "ls"}')),
        requested(title="rm -rf build"),
    ),
    "another title in the request": (
        announced(title="ls", rawInput=LS),
        requested(title="rm -rf build"),
    ),
    "a title that is code": (requested(title="`rm -rf build`", kind="execute", rawInput=LS),),
    "other arguments in the request": (
        announced(title="rm", rawInput=RM),
        requested(rawInput=LS),
    ),
    "other arguments in an update": (
        announced(rawInput=LS),
        updated(rawInput=RM),
        updated(rawInput=LS),
        requested(),
    ),
    "a shell of the project": (
        announced(title="ls", rawInput={"command": "./bash -lc 'ls'"}),
        requested(title="ls", rawInput=LS),
    ),
    "a directory that the request leaves out": (
        announced(rawInput={"command": "ls", "cwd": "/etc"}),
        requested(rawInput=LS),
    ),
    "one id for two calls": (
        announced(title="ls", rawInput=LS),
        announced(title="rm -rf build", rawInput=RM),
        requested(title="ls", rawInput=LS),
    ),
    "a kind that became harmless": (
        announced(title="rm -rf build", kind="execute", rawInput=RM),
        requested(kind="read", rawInput={"path": "a.txt"}),
    ),
    "another tool": (
        announced(title="x", name="bash", rawInput=LS),
        requested(name="ls", rawInput=LS),
    ),
    "a change in a command": (
        requested(title="ls", kind="execute", rawInput=LS, content=[changed(".git/config")]),
    ),
    "a change in a reading": (
        requested(title="a", kind="read", rawInput={"path": "a"}, content=[changed("a")]),
    ),
    "an update after the end": (
        announced(title="ls", rawInput=LS),
        updated(status="completed"),
        updated(rawInput=LS),
        requested(title="rm -rf build", kind="execute"),
    ),
    "network in the title": (
        requested(title="socks5Tcp network access to a.example", kind="execute", rawInput=LS),
    ),
    "network in the text": (
        requested(
            title="ls", kind="execute", rawInput=LS, content=shown("socks5Udp access to a.example")
        ),
    ),
    "input for a running program": (requested(kind="execute", name="write_stdin", rawInput=LS),),
    "two ways to allow it once": (
        requested("allow_once", title="ls", kind="execute", rawInput=LS),
    ),
}


@pytest.mark.parametrize("steps", DIFFERENT.values(), ids=DIFFERENT.keys())
async def test_accounts_that_differ_are_asked_about(steps: tuple[Any, ...], tmp_path: Path):
    (tmp_path / "a.txt").write_text("a")
    async with drive(acp_rig(), tmp_path) as driven:
        asked = await asked_about(driven, *steps)
    assert asked is not None
    # A rule for the exact command does not answer it either.
    gate = gate_of("ask", "allow bash(ls)", "allow bash(cat:*)")
    async with drive(acp_rig(), tmp_path, gate=gate) as driven:
        assert await asked_about(driven, *steps) is not None


async def test_the_person_sees_both_accounts(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        asked = await asked_about(
            driven, announced(title="rm -rf build", rawInput=RM), requested(rawInput=LS)
        )
    assert asked is not None and asked.reason is not None
    assert "rm -rf build" in asked.reason and "rm -rf build" in str(asked.raw_input)
    assert asked.raw_input["command"] == "ls"


async def test_a_deny_rule_may_hold_for_either_account(tmp_path: Path):
    gate = gate_of("full-auto", "deny bash(rm)")
    async with drive(acp_rig(), tmp_path, gate=gate) as driven:
        steps = (announced(title="rm", rawInput=RM), requested(rawInput=LS))
        assert await asked_about(driven, *steps) is not None


ALIKE = {
    "one request": (requested(title="ls", kind="execute", rawInput=LS),),
    "an announcement in full": (
        announced(title="Terminal", rawInput={}),
        updated(title="ls", rawInput=LS),
        requested(title="ls", rawInput=LS),
    ),
    "arguments that grow": (
        announced(rawInput={"command": "l"}),
        updated(rawInput=LS),
        requested(),
    ),
    "a shell that only one of them names": (
        announced(title="ls", rawInput={"command": "/bin/bash -lc 'ls'"}),
        requested(title="ls", rawInput=LS),
    ),
    "a list and a line": (
        announced(title="ls", rawInput={"command": ["bash", "-lc", "ls"]}),
        requested(title="ls", rawInput=LS),
    ),
    "a request that says less": (announced(title="List files", rawInput=LS), requested()),
    "a kind that becomes known": (
        announced(title="Read file 'a'", kind="read"),
        requested(title="ls", kind="execute", rawInput=LS),
    ),
    "a title with more around the command": (
        announced(title="shell"),
        requested(title="`ls`", rawInput=LS),
    ),
}


@pytest.mark.parametrize("steps", ALIKE.values(), ids=ALIKE.keys())
async def test_accounts_that_agree_are_decided(steps: tuple[Any, ...], tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        assert await asked_about(driven, *steps) is None
    assert "permission: yes" in driven.text


async def test_streamed_arguments_count_for_agents_that_stream_them(tmp_path: Path):
    rig = acp_rig(quirks=frozenset(("streams-input",)))
    steps = (
        announced(title="Bash", content=shown("")),
        updated(content=shown('{"command": "l')),
        updated(content=shown('{"command": "ls"}')),
    )
    text = shown("Requesting approval to Running: ls")
    async with drive(rig, tmp_path) as driven:
        assert await asked_about(driven, *steps, requested(title="Bash", content=text)) is None
    other = shown("Requesting approval to Running: rm -rf build")
    async with drive(rig, tmp_path) as driven:
        asked = await asked_about(driven, *steps, requested(title="Bash", content=other))
        assert asked is not None and "rm -rf build" in (asked.reason or "")
    more = updated(content=shown('{"command": "rm -rf build"}'))
    async with drive(rig, tmp_path) as driven:
        assert await asked_about(driven, *steps, more, requested(title="Bash")) is not None


async def test_what_was_said_in_an_earlier_turn_does_not_count(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        await driven.say(script(announced(title="Run", rawInput=LS)))
        asked = await asked_about(driven, requested(title="make all", kind="execute"))
    assert asked is not None and "ls" not in str(asked.raw_input)


async def test_a_request_under_the_id_of_a_call_that_is_over_is_another_call(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        asked = await asked_about(
            driven,
            announced(title="ls", rawInput=LS),
            updated(status="completed"),
            requested(title="make", kind="execute", rawInput={"command": "make"}),
            updated(status="failed"),
        )
        assert asked is not None and asked.call != CALL
        starts = {one.call: one.title for one in driven.all(ToolCallStarted)}
        assert starts == {CALL: "ls", asked.call: "make"}
        assert not driven.all(UnknownEvent)
    judge(driven.heard)


CHANGED = {
    "after the grant": (requested(title="make", kind="execute", rawInput={"command": "make"}),
                        updated(rawInput=RM, status="in_progress"),
                        updated(status="completed")),
    "with its end": (requested(title="make", kind="execute", rawInput={"command": "make"}),
                     updated(rawInput=RM, status="completed")),
    "and reported as failed": (
        requested(title="make", kind="execute", rawInput={"command": "make"}),
        updated(rawInput=RM, status="failed"),
    ),
    "another file": (
        requested(title="Edit", kind="edit", content=[changed("a.txt")]),
        updated(content=[changed("b.txt")], status="completed"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("steps", CHANGED.values(), ids=CHANGED.keys())
async def test_what_changed_after_it_was_allowed_is_a_violation(
    steps: tuple[Any, ...], tmp_path: Path
):
    async with drive(acp_rig(), tmp_path) as driven:
        turn = asyncio.create_task(driven.say(script(*steps)))
        await driven.answer("allow_once")
        await turn
    (violation,) = driven.all(PermissionViolated)
    assert violation.call == CALL and "something else" in violation.reason


async def test_the_same_in_other_words_is_none(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        steps = (
            requested(title="make", kind="execute", rawInput={"command": "make"}),
            updated(title="Made it", rawInput={"command": ["/bin/bash", "-lc", "make"]}),
            updated(status="completed", rawInput={"command": "make", "exit_code": 0}),
        )
        turn = asyncio.create_task(driven.say(script(*steps)))
        await driven.answer("allow_once")
        await turn
    assert not driven.all(PermissionViolated)


async def test_a_write_of_something_else_than_was_shown_is_asked_about(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n")
    edit = requested(title="Edit", kind="edit", content=[changed(str(path), "2", "two")])
    async with drive(acp_rig(), tmp_path) as driven:
        write = {"write": [str(path), "one\n2\n"]}
        turn = asyncio.create_task(driven.say(script(edit, write)))
        await driven.answer("allow_once")
        await turn
        assert len(driven.all(PermissionAsked)) == 1 and path.read_text() == "one\n2\n"
        write = {"write": [str(path), "one\nevil\n2\n"]}
        again = requested(title="Edit", kind="edit", content=[changed(str(path), "3", "2")])
        turn = asyncio.create_task(driven.say(script(again, write)))
        await driven.answer("allow_once")
        asked = await driven.answer("reject_once")
        await turn
    assert "evil" in str(asked.content) and path.read_text() == "one\n2\n"


@pytest.mark.parametrize(
    ("before", "changes", "after", "fits"),
    [
        ("", (), "anything", True),
        ("", ((None, "new"),), "new\n", True),
        ("", (("", "new"),), "new", True),
        ("", (("", "new"),), "new and more", False),
        ("old", ((None, "new"),), "new", True),
        ("old", ((None, "new"),), "old new", False),
        ("a b c", (("b", "x"), ("c", "y")), "a x y", True),
        ("a b b", (("b", "x"),), "a x b", True),
        ("a b b", (("b", "x"),), "a x x", True),
        ("a b", (("z", "x"),), "a x", False),
        ("a\r\nb", (("b", "x"),), "a\nx", True),
    ],
)
def test_what_a_change_makes_of_a_file(
    before: str, changes: tuple[tuple[str | None, str], ...], after: str, fits: bool
):
    diffs = [Diff(path="a", old_text=old, new_text=new) for old, new in changes]
    assert FileWrite(before, after).is_result_of(diffs) is fits


async def test_more_than_the_command_is_asked_about_whatever_is_allowed(tmp_path: Path):
    gate = gate_of("full-auto", "allow bash", "allow *")
    for more in (
        {"additionalPermissions": {"network": {"enabled": True}}},
        {"sandbox_permissions": "require_escalated"},
        {"with_escalated_permissions": True},
        {"grantRoot": str(tmp_path)},
    ):
        async with drive(acp_rig(), tmp_path, gate=gate) as driven:
            asked = await asked_about(driven, requested(kind="execute", rawInput={**LS, **more}))
            assert asked is not None and "also grant" in (asked.reason or "")
    async with drive(acp_rig(), tmp_path, gate=gate) as driven:
        quiet = {**LS, "with_escalated_permissions": False, "sandbox_permissions": "use_default"}
        assert await asked_about(driven, requested(kind="execute", rawInput=quiet)) is None
