"""What an inbox with a thousand open requests costs: one more request, and all of it drawn.

The floor is what a client cannot do without: reading the inbox from JSON.
"""

import time
from collections.abc import Callable, Iterator

import msgspec

from quarterdeck.fleet.api import InboxItem
from quarterdeck.fleet.permissions.request_groups import (
    RequestPlace,
    group_requests,
    read_traits,
)
from quarterdeck.policy.call import Call
from quarterdeck.policy.decision import decide
from quarterdeck.policy.permission_options import options_for, suggest_grants, suggest_refusal
from quarterdeck.wire.decoders import json_decoder
from quarterdeck.wire.events import PermissionAsked
from quarterdeck.wire.ids import RequestId, SessionId, ToolCallId
from quarterdeck.workbench.panels.inbox import InboxList
from quarterdeck.workbench.stores.inbox import InboxStore

from .size import Size
from .table import Row, Table

CWD = "/work/project"
COMMANDS = (
    *("npm test", "npm run build", "make", "pytest -q tests", "rm -rf build", "git push"),
    *("curl https://example.org", "timeout 5 npm test", "cargo test", "go vet ./..."),
)


def run(size: Size) -> Iterator[Table]:
    """Measure."""
    count, rounds = size.choose((1_000, 15), (1_000, 5), (40, 1))
    many, more = _make_inbox(count), _make_inbox(count * 4)
    apart = _make_inbox(count, are_equal=False)
    decoder, data = json_decoder(list[InboxItem]), msgspec.json.encode(many)
    floor = _least(rounds, lambda: decoder.decode(data))
    grouped = _least(rounds, lambda: group_requests(many))
    grown = _least(rounds, lambda: group_requests(more))
    changed = _least(rounds, lambda: _take(many))
    drawn = _least(rounds, lambda: _draw(apart))
    asked, call = [one.permission for one in many[:10]], _call(COMMANDS[0])
    place = RequestPlace(cwd=CWD, project=CWD)
    decided = _least(rounds, lambda: [decide(call, "ask") for _ in range(10)]) / 10
    read = _least(rounds, lambda: [read_traits(one, place) for one in asked if one]) / 10
    yield Table(
        f"Inbox, {count:,} open requests; CPU time",
        [
            Row("the inbox read from JSON", _milliseconds(floor)),
            _row("grouped", grouped, floor, 0.25),
            _row("a change in the workbench: stored and grouped", changed, floor, 0.25),
            _row(f"{count:,} rows of the panel, none equal", drawn, floor, 1.0),
            _row(f"grouped, {count * 4:,} requests, to {count:,}", grown, grouped, 8.0),
            Row("a command decided by the policy", _milliseconds(decided)),
            _row("a request read for its group, once", read, decided, 5.0),
        ],
        notes=(f"The least of {rounds} rounds; ratios to the line above that has none.",),
    )


def _row(what: str, seconds: float, floor: float, goal: float) -> Row:
    ratio = seconds / floor
    return Row(what, _milliseconds(seconds), f"{ratio:.2f}×", f"≤ {goal:g}×", ratio <= goal)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"


def _least(rounds: int, act: Callable[[], object]) -> float:
    found: list[float] = []
    for _ in range(rounds):
        began = time.process_time()
        act()
        found.append(max(time.process_time() - began, 1e-7))
    return min(found)


def _call(command: str) -> Call:
    return Call(tool="bash", kind="execute", command=command, cwd=CWD, roots=(CWD,), project=CWD)


def _make_inbox(count: int, *, are_equal: bool = True) -> list[InboxItem]:
    place = RequestPlace(cwd=CWD, project=CWD)
    known: dict[str, PermissionAsked] = {}
    items: list[InboxItem] = []
    for number in range(count):
        command = COMMANDS[number % len(COMMANDS)]
        if command not in known:
            known[command] = _ask(command)
        asked = msgspec.structs.replace(known[command], request=RequestId(f"req_{number:06}"))
        traits = read_traits(asked, place)
        if not are_equal:
            traits = msgspec.structs.replace(traits, group=asked.request)
        items.append(
            InboxItem(
                request=asked.request,
                session=SessionId(f"ses_{number:06}"),
                name=f"agent-{number}",
                since=number,
                seq=number,
                permission=asked,
                cwd=CWD,
                traits=traits,
            )
        )
    return items


def _ask(command: str) -> PermissionAsked:
    call = _call(command)
    return PermissionAsked(
        request=RequestId("req"),
        call=ToolCallId("call"),
        title=command,
        name="Bash",
        kind="execute",
        raw_input={"command": command, "description": "Do what has to be done"},
        options=options_for(suggest_grants(call), refusal=suggest_refusal(call), call=call),
        reason=f"{command!r}: no rule matches",
    )


def _take(items: list[InboxItem]) -> None:
    store = InboxStore()
    store.replace(items)
    assert store.groups


def _draw(items: list[InboxItem]) -> None:
    store = InboxStore()
    store.replace(items)
    assert len(InboxList(store, lambda: 0).rows(120)) == len(items)
