"""Calls that certain people have to allow: who they are is certain, and every approval is kept."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from quarterdeck.agent.environment import approvers_of
from quarterdeck.config.loader import load_config
from quarterdeck.fleet.client import HostClient
from quarterdeck.fleet.errors import NotAnApproverError
from quarterdeck.fleet.host.methods import WEB_CLIENT
from quarterdeck.fleet.host.peer_credentials import PeerCredentials
from quarterdeck.fleet.host.server import FleetServer
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.fleet.permissions.approvers import ClientCredentials, answer_for_client
from quarterdeck.fleet.permissions.audit import AUDIT_EVENTS, AuditExport, verify_audit
from quarterdeck.policy.approvers import approvals_for, describe_approvals, is_approved
from quarterdeck.policy.call import Call
from quarterdeck.policy.errors import RuleError
from quarterdeck.policy.gate import Gate, PermissionAnswer
from quarterdeck.wire.events import (
    Event,
    PermissionAnswered,
    PermissionApproved,
    PermissionAsked,
)
from quarterdeck.wire.ids import RequestId, ToolCallId, new_session_id
from quarterdeck.wire.permissions import ApprovalRule, Cancelled, Decider, Selected
from quarterdeck.wire.record import event_type
from quarterdeck.wire.rpc import ByteStream, connect_unix
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import events_of, fleet_of, new_agent, places_in

ROOT = Path(__file__).parents[3]
ANN, BOB, EVE = os.getuid(), os.getuid() + 1, os.getuid() + 2
PEOPLE = f"[people.ann]\nuid = {ANN}\n[people.bob]\nuid = {BOB}\n[people.eve]\nuid = {EVE}\n"
TWO = """
[[permissions.approvers]]
match = "bash(git push:*)"
people = ["ann", "bob"]
needed = 2
"""


def write_settings(home: Path, text: str) -> None:
    file = places_in(home).config_file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@asynccontextmanager
async def asked(
    tmp_path: Path, settings: str = PEOPLE + TWO, *lines: str
) -> AsyncGenerator[LocalFleet]:
    """A fleet in which agents ask, ``git push`` if nothing else is said."""
    home = tmp_path / "home"
    write_settings(home, settings)
    async with fleet_of(home) as fleet:
        for number, line in enumerate(lines or ("git push",)):
            agent = new_agent(tmp_path, name=f"a{number}", prompt=f"ask {line}")
            await fleet.spawn(agent)
            await fleet.wait([f"a{number}"], timeout=SOON)
        yield fleet


def as_person(uid: int) -> Any:
    return answer_for_client(ClientCredentials(uid=uid))


async def test_two_people_allow_a_call_and_only_then_it_runs(tmp_path: Path):
    async with asked(tmp_path) as fleet:
        (item,) = await fleet.inbox()
        assert item.permission is not None
        assert item.permission.approvals == (
            ApprovalRule(people=("ann", "bob"), needed=2, match="bash(git push:*)"),
        )
        assert await fleet.answer(item.request, "allow_once", by="cli")
        (item,) = await fleet.inbox()  # still open
        assert item.approved == ("ann",) and item.permission is not None
        assert describe_approvals(item.permission.approvals, item.approved) == (
            "1 of 2: ann allowed"
        )
        again = await fleet.answer_group((item.request,), "allow_once")
        assert again.waiting == (item.request,)  # the same person is no second one
        with as_person(BOB):
            done = await fleet.answer_group((item.request,), "allow_once")
        assert done.answered == (item.request,) and not await fleet.inbox()
        events = await events_of(fleet, "a0")
        approved = [one for one in events if isinstance(one, PermissionApproved)]
        assert [one.by.name for one in approved] == ["ann", "bob"]
        (answer,) = [one for one in events if isinstance(one, PermissionAnswered)]
        assert (answer.by.name, answer.kind) == ("ann, bob", "allow_once")


async def test_a_denial_by_one_of_them_denies(tmp_path: Path):
    async with asked(tmp_path) as fleet:
        (item,) = await fleet.inbox()
        await fleet.answer(item.request, "allow_once")
        with as_person(BOB):
            assert await fleet.answer(item.request, "reject_once", feedback="not today")
        (answer,) = [
            one for one in await events_of(fleet, "a0") if isinstance(one, PermissionAnswered)
        ]
        assert (answer.by.name, answer.kind, answer.feedback) == (
            "bob", "reject_once", "not today",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("uid", "by", "words"),
    [
        (EVE, "cli", "'eve' cannot answer this request; it needs ann or bob"),
        (EVE + 1, "bob", rf"user {EVE + 1} is no person in the settings"),
        (None, "bob", "a client without a user is no person"),
        (ANN, "agent", "an agent cannot answer"),
    ],
)
@pytest.mark.parametrize("choice", ["allow_once", "reject_once"])
async def test_no_one_else_answers_whatever_they_call_themselves(
    tmp_path: Path, uid: int | None, by: str, words: str, choice: str
):
    async with asked(tmp_path) as fleet:
        (item,) = await fleet.inbox()
        name = new_session_id() if by == "agent" else by
        with answer_for_client(ClientCredentials(uid=uid)):
            with pytest.raises(NotAnApproverError, match=words):
                await fleet.answer(item.request, choice, by=name)
            with pytest.raises(NotAnApproverError, match=words):
                await fleet.answer_group((item.request,), choice, by=name)
        (left,) = await fleet.inbox()
        assert left.approved == ()


async def test_a_policy_for_every_call_names_one_person(tmp_path: Path):
    policy = '[[permissions.approvers]]\npeople = ["bob"]\n'
    async with asked(tmp_path, PEOPLE + policy, "npm test") as fleet:
        (item,) = await fleet.inbox()
        assert item.permission is not None
        assert describe_approvals(item.permission.approvals, ()) == "needs bob"
        with pytest.raises(NotAnApproverError, match="'ann' cannot"):
            await fleet.answer(item.request, "allow_once")
        with as_person(BOB):
            assert await fleet.answer(item.request, "allow-session-1")
        assert not await fleet.inbox()
        await fleet.wait(["a0"], timeout=SOON)
        assert [one.by for one in await fleet.grants()] == ["bob"]


async def test_people_who_choose_otherwise_agree_on_this_call_only(tmp_path: Path):
    policy = '[[permissions.approvers]]\npeople = ["ann", "bob"]\nneeded = 2\n'
    async with asked(tmp_path, PEOPLE + policy, "npm test", "npm run x") as fleet:
        for number, item in enumerate(await fleet.inbox()):
            await fleet.answer(item.request, "allow-session-1")
            with as_person(BOB):
                await fleet.answer(item.request, ("allow_once", "allow-session-1")[number])
        await fleet.wait(["a0", "a1"], timeout=SOON)
        assert [one.pattern for one in await fleet.grants()] == ["bash(npm run x)"]


async def test_other_calls_need_the_first_answer(tmp_path: Path):
    async with asked(tmp_path, PEOPLE + TWO, "git pull") as fleet:
        (item,) = await fleet.inbox()
        assert item.permission is not None and item.permission.approvals == ()
        with as_person(EVE):
            assert await fleet.answer(item.request, "allow_once")


async def test_a_group_is_approved_by_each_and_then_answered(tmp_path: Path):
    async with asked(tmp_path, PEOPLE + TWO, "git push", "git push") as fleet:
        (group,) = await fleet.inbox_groups()
        assert (await fleet.answer_group(group.requests, "allow_once")).waiting == group.requests
        with as_person(BOB):
            done = await fleet.answer_group(group.requests, "allow_once")
        assert done.answered == group.requests
        approved = [
            one
            for name in ("a0", "a1")
            for one in await events_of(fleet, name)
            if isinstance(one, PermissionApproved | PermissionAnswered)
        ]
        assert len(approved) == 6 and {one.group for one in approved} == {group.first}


async def test_two_people_at_the_very_same_moment_are_two(tmp_path: Path):
    async with asked(tmp_path) as fleet:
        (item,) = await fleet.inbox()

        async def allow(uid: int) -> bool:
            with as_person(uid):
                return await fleet.answer(item.request, "allow_once")

        assert await asyncio.gather(allow(ANN), allow(BOB)) == [True, True]
        assert not await fleet.inbox()


async def test_the_host_knows_people_by_the_connection_and_not_by_what_they_say(
    tmp_path: Path,
):
    connections = iter((1, 2))
    users = {1: ANN, 2: BOB}

    def credentials(stream: ByteStream) -> PeerCredentials:
        return PeerCredentials(uid=os.getuid(), pid=next(connections))

    def identify(who: PeerCredentials) -> ClientCredentials:
        return ClientCredentials(uid=users[who.pid or 0])

    path = tmp_path / "sockets" / "s"
    async with asked(tmp_path) as fleet:
        server = FleetServer(fleet, stop=lambda: None, credentials=credentials, identify=identify)
        async with server.serve(path):
            ann, bob = (HostClient.create(lambda: connect_unix(path), "test") for _ in "ab")
            (item,) = await ann.inbox()
            assert (await ann.answer_group((item.request,), "allow_once", by="bob")).waiting
            # Whatever name it gives, it is the same person.
            assert (await ann.answer_group((item.request,), "allow_once", by="cleo")).waiting
            (item,) = await bob.inbox()
            assert item.approved == ("ann",)
            assert (await bob.answer_group((item.request,), "allow_once", by="ann")).answered
            await ann.disconnect()
            await bob.disconnect()


async def test_a_device_of_the_browser_interface_is_not_the_user_of_its_server(tmp_path: Path):
    path = tmp_path / "sockets" / "s"
    async with asked(tmp_path) as fleet:
        server = FleetServer(
            fleet, stop=lambda: None, identify=lambda _: ClientCredentials(uid=ANN)
        )
        async with server.serve(path):
            page = HostClient.create(lambda: connect_unix(path), WEB_CLIENT)
            (item,) = await page.inbox()
            with pytest.raises(NotAnApproverError, match=r"devices do not answer for 'ann'"):
                await page.answer(item.request, "allow_once", by="ann (phone)")
            (left,) = await page.inbox()
            assert left.approved == ()
            await page.disconnect()


async def test_a_device_answers_for_its_person_where_the_settings_say_so(tmp_path: Path):
    path = tmp_path / "sockets" / "s"
    people = "[people.ann]\ndevices = true\n[people.bob]\ndevices = true\n"
    async with asked(tmp_path, people + TWO) as fleet:
        server = FleetServer(fleet, stop=lambda: None)
        async with server.serve(path):
            page = HostClient.create(lambda: connect_unix(path), WEB_CLIENT)
            other = HostClient.create(lambda: connect_unix(path), "test")
            (item,) = await page.inbox()
            for by in ("eve (bob)", "eve (x) bob (phone)", "ann", "bob (phone)"):
                with pytest.raises(NotAnApproverError):  # what a client calls itself is no device
                    await other.answer(item.request, "allow_once", by=by)
            for by in ("eve (bob)", "bobby (phone)", " bob (phone)"):
                with pytest.raises(NotAnApproverError, match="is no person in the settings"):
                    await page.answer(item.request, "allow_once", by=by)
            for device in ("phone", "laptop"):  # two devices of one person are one person
                done = await page.answer_group((item.request,), "allow_once", by=f"ann ({device})")
                assert done.waiting == (item.request,)
            done = await page.answer_group((item.request,), "allow_once", by="bob (tablet)")
            assert done.answered == (item.request,)
            await page.disconnect()
            await other.disconnect()


async def test_the_audit_has_each_approval(tmp_path: Path):
    async with asked(tmp_path) as fleet:
        (item,) = await fleet.inbox()
        await fleet.answer(item.request, "allow_once")
        with as_person(BOB):
            await fleet.answer(item.request, "allow_once")
        records = await fleet.journal.read(0, limit=1_000)
    export = AuditExport(bytes(32))
    kept = [one for one in records if event_type(one.event) in AUDIT_EVENTS]
    lines = [export.start(), *export.add(kept), export.finish()]
    assert verify_audit(lines).is_sound
    told = [msgspec.json.decode(line) for line in lines[1:-1]]
    assert [
        (one["type"], one["values"]["by/name"]["value"])
        for one in told
        if one["type"].startswith("permission")
    ] == [
        ("permission_approved", "ann"),
        ("permission_approved", "bob"),
        ("permission_answered", "ann, bob"),
    ]
    approved = next(one for one in told if one["type"] == "permission_approved")
    assert approved["values"]["shown/input/command"]["value"] == "git push"


HOST = """
import asyncio, sys
from pathlib import Path
from tests.fleet.permissions.test_approvers import *

async def main(folder):
    async with asked(folder) as fleet:
        (item,) = await fleet.inbox()
        await fleet.answer(item.request, "allow_once")
        print("approved", flush=True)
        await asyncio.sleep(60)

asyncio.run(main(Path(sys.argv[1])))
"""


async def test_an_approval_that_was_reported_survives_a_kill_of_the_host(tmp_path: Path):
    host = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HOST, str(tmp_path)), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert host.stdout is not None
    try:
        assert await asyncio.wait_for(host.stdout.readline(), SOON) == b"approved\n"
    finally:
        host.kill()
        await host.wait()
    async with fleet_of(tmp_path / "home") as fleet:
        events = await events_of(fleet, "a0")
        (approved,) = [one for one in events if isinstance(one, PermissionApproved)]
        assert approved.by == Decider(kind="person", name="ann")
        # The agent is gone, and its request with it; nothing was allowed.
        (answer,) = [one for one in events if isinstance(one, PermissionAnswered)]
        assert isinstance(answer.outcome, Cancelled) and not await fleet.inbox()


# Policies


def test_a_pattern_is_taken_at_its_broadest():
    (policy,) = _policies('match = "bash(git push:*)"\npeople = ["ann"]\n')

    def holds(command: str) -> bool:
        call = Call(tool="bash", kind="execute", command=command, cwd="/w", roots=("/w",))
        return bool(approvals_for((policy,), call))

    assert holds("git push") and holds("make && git -C x push origin") and holds("eval $x")
    assert not holds("git pull") and not holds("ls")
    assert approvals_for((policy,), None) == ()


def _policies(table: str) -> Any:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        write_settings(home, f"{PEOPLE}[[permissions.approvers]]\n{table}")
        return approvers_of(load_config(places_in(home), environ={}))


def test_a_pattern_that_cannot_be_read_is_an_error():
    with pytest.raises(RuleError, match="character"):
        _policies('match = "bash("\npeople = ["ann"]\n')


def test_every_policy_that_holds_has_to_be_satisfied():
    rules = (ApprovalRule(people=("ann",)), ApprovalRule(people=("bob", "cleo", "dan"), needed=2))
    assert not is_approved(rules, ("ann", "bob"))
    assert not is_approved(rules, ("bob", "cleo"))
    assert is_approved(rules, ("ann", "bob", "dan"))
    assert is_approved((), ())
    assert describe_approvals(rules, ("ann",)) == "1 of 1: ann allowed; needs 2 of bob, cleo, dan"


async def test_a_session_without_a_host_cannot_allow_what_certain_people_have_to():
    (policy,) = await asyncio.to_thread(_policies, 'people = ["ann"]\n')
    gate = Gate(mode="ask", approvers=(policy,))
    emitted: list[Event] = []

    async def emit(event: Event) -> None:
        emitted.append(event)
        if isinstance(event, PermissionAsked):
            assert event.approvals == (policy.rule,)
            outcome = Selected(option_id="allow-once")
            answer = PermissionAnswer(outcome=outcome, by=Decider(kind="person"))
            asyncio.get_running_loop().call_soon(gate.answer, event.request, answer)

    call = Call(tool="bash", kind="execute", command="npm test", cwd="/w", roots=("/w",))
    question = PermissionAsked(
        request=RequestId("r"), call=ToolCallId("c"), title="npm test", options=()
    )
    refused = await gate.permit(emit, question, call)
    assert not getattr(refused, "cancelled", True) and "ann" in getattr(refused, "reason", "")
    (answered,) = [one for one in emitted if isinstance(one, PermissionAnswered)]
    assert isinstance(answered.outcome, Cancelled)
