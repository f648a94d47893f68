"""Grants for so many calls: each is counted once, durably, before the call may run."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from quarterdeck.policy.call import Call
from quarterdeck.policy.gate import Gate, HookAdvice, PermissionGranted, PermissionRefused
from quarterdeck.policy.grants import Grant, GrantStore, grants_from_json
from quarterdeck.testing.installed_programs import INSTALLED
from quarterdeck.wire.events import Event, GrantUsed, PermissionAnswered, PermissionAsked
from quarterdeck.wire.ids import RequestId, ToolCallId
from quarterdeck.wire.permissions import Decider

CWD = "/home/dev/app"


def call(command: str, session: str = "s1") -> Call:
    return Call(
        tool="bash",
        kind="execute",
        command=command,
        cwd=CWD,
        roots=(CWD,),
        home="/home/dev",
        project="app",
        session=session,
        programs=INSTALLED,
    )


def grant(**changes: object) -> Grant:
    facts = {"id": "g", "pattern": "bash(make:*)", "scope": "user", "created": 0, "by": "dev"}
    return Grant(**(facts | changes))  # pyright: ignore[reportArgumentType]


class Desk:
    """A gate that no person attends, and what it reported."""

    def __init__(self, path: Path | None = None, **options: object) -> None:
        self.store = GrantStore(path)
        self.gate = Gate(mode="ask", grants=self.store, attended=False, **options)  # pyright: ignore[reportArgumentType]
        self.events: list[Event] = []
        self.asked = 0

    async def emit(self, event: Event) -> None:
        self.events.append(event)

    async def permit(self, command: str, urge: HookAdvice | None = None) -> bool:
        self.asked += 1
        question = PermissionAsked(
            request=RequestId(f"req_{self.asked}"),
            call=ToolCallId(f"call_{self.asked}"),
            title=command,
            options=(),
            kind="execute",
        )
        decided = await self.gate.permit(self.emit, question, call(command), urge)
        assert isinstance(decided, PermissionGranted | PermissionRefused)
        return isinstance(decided, PermissionGranted)

    def of(self, kind: type[Event]) -> list[Event]:
        return [one for one in self.events if isinstance(one, kind)]


def stored(path: Path) -> dict[str, int | None]:
    return {one.id: one.uses for one in grants_from_json(path.read_bytes())}


async def test_each_call_that_it_allows_is_counted_and_then_it_is_over(tmp_path: Path):
    path = tmp_path / "grants.json"
    desk = Desk(path)
    await desk.store.add([grant(uses=2)])
    assert [await desk.permit("make") for _ in range(3)] == [True, True, False]
    assert stored(path) == {"g": 0}
    assert [one.grants for one in desk.events if isinstance(one, GrantUsed)] == [("g",), ("g",)]
    again = Desk(path)
    await again.store.load()
    assert not await again.permit("make")


async def test_a_use_is_reported_before_the_decision(tmp_path: Path):
    desk = Desk(tmp_path / "grants.json")
    await desk.store.add([grant(uses=1), grant(id="never", effect="deny", pattern="bash(rm)")])
    assert await desk.permit("make")
    assert not await desk.permit("rm x")
    assert [type(one) for one in desk.events] == [GrantUsed, PermissionAnswered] * 2
    assert desk.events[2] == GrantUsed(
        request=RequestId("req_2"), call=ToolCallId("call_2"), grants=("never",)
    )


async def test_what_the_log_does_not_take_is_not_given(tmp_path: Path):
    desk = Desk(tmp_path / "grants.json")
    await desk.store.add([grant(uses=1)])

    async def fail(event: Event) -> None:
        raise OSError("the disk is full")

    question = PermissionAsked(
        request=RequestId("r"), call=ToolCallId("c"), title="make", options=(), kind="execute"
    )
    with pytest.raises(OSError, match="full"):
        await desk.gate.permit(fail, question, call("make"))
    assert not await desk.permit("make")


async def test_what_cannot_be_counted_is_not_allowed(tmp_path: Path):
    path = tmp_path / "state" / "grants.json"
    desk = Desk(path)
    await desk.store.add([grant(uses=5)])
    fresh = path.with_suffix(".new")
    fresh.mkdir()  # the file cannot be written
    assert not await desk.permit("make")
    fresh.rmdir()
    assert await desk.permit("make")
    assert stored(path) == {"g": 4}


async def test_only_a_call_that_it_allows_uses_it(tmp_path: Path):
    path = tmp_path / "grants.json"
    desk = Desk(path)
    await desk.store.add([grant(uses=1)])
    hook = Decider(kind="hook", name="guard")
    assert not await desk.permit("make && cargo build")
    assert not await desk.permit("make", HookAdvice(effect="ask", by=hook, reason="look"))
    assert type(await desk.gate.judge(call("make"))).__name__ == "Ask"
    assert stored(path) == {"g": 1}
    assert await desk.permit("make && make test")
    assert stored(path) == {"g": 0}


async def test_one_that_is_used_up_meanwhile_makes_room_for_another(tmp_path: Path):
    path = tmp_path / "grants.json"
    desk = Desk(path)
    await desk.store.add([grant(uses=1), grant(id="h", uses=1)])
    assert [await desk.permit("make") for _ in range(3)] == [True, True, False]
    assert stored(path) == {"g": 0, "h": 0}


async def test_agents_that_race_do_not_use_one_twice(tmp_path: Path):
    path = tmp_path / "grants.json"
    desks = [Desk(path) for _ in range(12)]
    await desks[0].store.add([grant(uses=7)])
    found = await asyncio.gather(*(desk.permit("make") for desk in desks for _ in range(2)))
    assert sum(found) == 7
    assert stored(path) == {"g": 0}
    reported = [one for desk in desks for one in desk.of(GrantUsed)]
    assert len(reported) == sum(found)


_SPENDER = """
import asyncio, sys
from pathlib import Path
from quarterdeck.policy.grants import GrantStore

async def main():
    store = GrantStore(Path(sys.argv[1]))
    while not await store.spend(["g"], 1):
        print("used", flush=True)

asyncio.run(main())
"""


def test_processes_that_are_killed_use_none_twice(tmp_path: Path):
    path = tmp_path / "grants.json"
    asyncio.run(GrantStore(path).add([grant(uses=400)]))
    command = [sys.executable, "-c", _SPENDER, str(path)]
    used = 0
    for _ in range(2):
        spenders = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        for spender in spenders:
            assert spender.stdout is not None
            seen = [spender.stdout.readline() for _ in range(5)]
            spender.send_signal(signal.SIGKILL)
            rest = spender.communicate()[0]
            used += sum(line == "used\n" for line in seen) + rest.count("used\n")
    # A use may be counted and not reported by the one that was killed, never the other way round.
    left = stored(path)["g"]
    assert left is not None and 400 - 4 <= left + used <= 400


async def test_a_tree_holds_below_its_lead_as_long_as_that_is_live():
    leads = ["lead"]
    desk = Desk(find_leads=lambda: ("s1", *leads))
    await desk.store.add([grant(tree="lead")])
    assert await desk.permit("make")
    leads.clear()
    assert not await desk.permit("make")
    outside = Desk()
    await outside.store.add([grant(tree="lead")])
    assert not await outside.permit("make")


async def test_a_denial_for_a_tree_holds_for_searches_too():
    desk = Desk(find_leads=lambda: ("s1", "lead"))
    await desk.store.add([grant(tree="lead", effect="deny", pattern="read(.env)")])
    found = desk.gate.granted_rules(project="app", session="s1", agent=None)
    assert [one.effect for one in found] == ["deny"]
    desk.gate.find_leads = lambda: ("s1",)
    assert desk.gate.granted_rules(project="app", session="s1", agent=None) == ()
