"""What a client writes to the host's socket, byte for byte, for every method of the fleet."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from quarterdeck import __version__
from quarterdeck.fleet.api import HandoverOptions, SpawnOptions
from quarterdeck.fleet.client import HostClient
from quarterdeck.fleet.host.methods import PROTOCOL
from quarterdeck.fleet.landing.api import LandingOptions
from quarterdeck.fleet.review.api import ReviewSelection
from quarterdeck.fleet.terminals.api import FleetTerminalOptions
from quarterdeck.wire.budgets import BudgetLimit
from quarterdeck.wire.content import text
from quarterdeck.wire.errors import QuarterdeckError, RpcError
from quarterdeck.wire.ids import MessageId, RequestId, SessionId
from quarterdeck.wire.rpc import ByteStream, memory_pair
from quarterdeck.wire.session_options import SessionOptions
from tests.support.deadlines import SOON

GOLDEN = Path(__file__).parents[2] / "fixtures" / "fleet" / f"requests-v{PROTOCOL}.jsonl"
ANN, MESSAGE, REQUEST = SessionId("ses_ann"), MessageId("msg_1"), RequestId("req_1")
WORDS = (text("hello ✓"),)


async def _no_screen(name: str, arguments: dict[str, Any], by: str) -> Any:
    raise AssertionError(name)


async def _attach(client: HostClient) -> None:
    async with client.attach_screen(_no_screen, cwd="/w"):
        pass


CALLS: tuple[Callable[[HostClient], Awaitable[object]], ...] = (
    lambda c: c.stop_host(),
    lambda c: c.spawn(SpawnOptions(options=SessionOptions(cwd="/w"))),
    lambda c: c.spawn(
        SpawnOptions(
            options=SessionOptions(cwd="/w", allow=("bash",)), name="ann", prompt="go", lead=True
        )
    ),
    lambda c: c.agents(),
    lambda c: c.agents(archived=True, parent=ANN),
    lambda c: c.agent("ann"),
    lambda c: c.send("ann", WORDS),
    lambda c: c.send("ann", WORDS, origin="agent", sender=ANN),
    lambda c: c.edit("ann", MESSAGE, WORDS),
    lambda c: c.edit("ann", MESSAGE, None),
    lambda c: c.interrupt("ann"),
    lambda c: c.interrupt("ann", keep_queue=False),
    lambda c: c.kill("ann"),
    lambda c: c.kill("ann", reason="enough"),
    lambda c: c.close("ann"),
    lambda c: c.archive("ann"),
    lambda c: c.archive("ann", archived=False),
    lambda c: c.delete("ann"),
    lambda c: c.resume("ann"),
    lambda c: c.fork("ann"),
    lambda c: c.fork("ann", name="bob", prompt="go"),
    lambda c: c.import_session("claude", "1", {"HOME": "/h"}),
    lambda c: c.import_session("claude", "1", {"HOME": "/h"}, "ann", "/w"),
    lambda c: c.import_session(agent="claude", id="1", homes={}, cwd="/w", name="ann"),
    lambda c: c.rename("ann", "bob"),
    lambda c: c.set_option("ann", "mode", "plan"),
    lambda c: c.set_option("ann", "fast", True),
    lambda c: c.inbox(),
    lambda c: c.answer(REQUEST, "allow_once"),
    lambda c: c.answer(REQUEST, "allow_once", by="ada", feedback="good"),
    lambda c: c.reply(REQUEST, "accept"),
    lambda c: c.reply(REQUEST, "accept", by="ada", content={"b": 1, "a": [None]}),
    lambda c: c.grants(),
    lambda c: c.revoke("req_1.1"),
    lambda c: c.revoke("req_1.1", by="ada"),
    lambda c: c.read(None),
    lambda c: c.read("ann", after=3, limit=10),
    lambda c: c.read("ann", before=9),
    lambda c: anext(c.follow()),
    lambda c: anext(c.follow(3, agent="ann")),
    lambda c: c.wait(["ann", "bob"]),
    lambda c: c.wait(("ann",), until="any", timeout=1.5),
    lambda c: c.search("words"),
    lambda c: c.search("words", limit=3),
    lambda c: c.status(),
    lambda c: c.call_screen("open", {"path": "/w/a"}),
    lambda c: c.call_screen("open", {}, by=ANN),
    _attach,
    lambda c: c.open_terminal(FleetTerminalOptions(cwd="/w")),
    lambda c: c.open_terminal(FleetTerminalOptions(cwd="/w", command=("vi", "a"), rows=30)),
    lambda c: c.terminals(),
    lambda c: anext(c.watch_terminal("term-1")),
    lambda c: c.write_terminal("term-1", b"ls\r\xff"),
    lambda c: c.paste_terminal("term-1", "ls"),
    lambda c: c.resize_terminal("term-1", 80, 24),
    lambda c: c.close_terminal("term-1"),
    lambda c: c.steer("ann", WORDS),
    lambda c: c.steer("ann", WORDS, origin="agent", sender=ANN),
    lambda c: c.turns("ann"),
    lambda c: c.turn_changes("ann"),
    lambda c: c.turn_changes("ann", turn="2", lines=10),
    lambda c: c.undo("ann"),
    lambda c: c.undo("ann", turn="2", files=False, force=True),
    lambda c: c.redo("ann"),
    lambda c: c.redo("ann", force=True),
    lambda c: c.rewind("ann", "2"),
    lambda c: c.rewind("ann", "2", conversation=False, force=True),
    lambda c: c.changes("ann", turn="3"),
    lambda c: c.patch("ann", "a.py", since="viewed", after=10, limit=5, tree="t"),
    lambda c: c.patch_text("ann", ["a.py"], binary=True),
    lambda c: c.mark_files("ann", ["a.py"]),
    lambda c: c.accept_changes("ann", [ReviewSelection(file="a.py", content="c", new=((1, 2),))]),
    lambda c: c.reject_changes("ann", [ReviewSelection(file="a.py", old=((3, 3),))], turn="1"),
    lambda c: c.undo_review("ann"),
    lambda c: c.comments("ann", all=True),
    lambda c: c.comment("ann", "a.py", 3, "why?", end_line=4, is_old=True, author=ANN),
    lambda c: c.edit_comment("ann", "com_1", "why not?"),
    lambda c: c.drop_comment("ann", "com_1"),
    lambda c: c.resolve_comments("ann", ["com_1"], changed=True),
    lambda c: c.send_comments("ann", note="Please."),
    lambda c: c.preview_landing("ann", LandingOptions()),
    lambda c: c.land("ann", LandingOptions(method="rebase", into="main", trailers=("A: b",))),
    lambda c: c.queue_landings(["ann", "bob"], LandingOptions(check="make test", batch=True)),
    lambda c: c.landings(),
    lambda c: c.wait_landing("req_1"),
    lambda c: c.wait_landing("req_1", seen=3, timeout=1.5),
    lambda c: c.cancel_landing("req_1"),
    lambda c: c.draft_pull_request("ann", LandingOptions()),
    lambda c: c.conflicts(),
    lambda c: c.conflicts("/w"),
    lambda c: c.worktrees(repository="/w", measure=True),
    lambda c: c.remove_worktree("docs", keep_branch=True),
    lambda c: c.discard_worktree("docs"),
    lambda c: c.trash(),
    lambda c: c.restore_worktree("docs"),
    lambda c: c.recreate_worktree("ann"),
    lambda c: c.prune_worktrees(dry_run=True),
    lambda c: c.run_command("ann", "git status"),
    lambda c: c.end_command("term-1"),
    lambda c: c.usage(),
    lambda c: c.usage("day", since="2026-11-09", agent="ann", runs=True),
    lambda c: c.back_test(("allow bash(ls)",)),
    lambda c: c.back_test(("allow bash(ls)",), since=1, project="/w", limit=5),
    lambda c: c.suggest_rules(),
    lambda c: c.suggest_rules(since=1, project="/w", limit=5),
    lambda c: c.budgets(),
    lambda c: c.budgets(agent="ann"),
    lambda c: c.set_budget("all", "", BudgetLimit(unit="usd", amount=5.0)),
    lambda c: c.set_budget("tree", "ann", BudgetLimit(unit="calls", amount=5.0), add=True, by=ANN),
    lambda c: c.remove_budget("day", "2026-11-09", "tokens"),
    lambda c: c.meter(),
    lambda c: c.inbox_groups(),
    lambda c: c.answer_group((REQUEST, RequestId("req_2")), "allow_once"),
    lambda c: c.answer_group((REQUEST,), "o1", by="ada", feedback="no"),
    lambda c: c.ask_approval("ann", REQUEST, "work"),
    lambda c: c.ask_approval("ann", REQUEST, "work", reason="a gate", text="2 files"),
    lambda c: c.send("ann", WORDS, resume=False),
    lambda c: c.steer("ann", WORDS, resume=False),
    lambda c: c.standalone_sessions(),
    lambda c: c.standalone_sessions(cwd="/w", limit=5),
    lambda c: c.adopt_session(ANN),
    lambda c: c.adopt_session(ANN, name="ann"),
    lambda c: c.hand_over("ann", HandoverOptions(to="codex")),
    lambda c: c.hand_over("ann", HandoverOptions(to="codex", prompt="go", keep=True)),
    lambda c: c.handover_brief("ann"),
)


async def _refuse_all(stream: ByteStream, lines: list[bytes]) -> None:
    """A host that welcomes the client, and refuses whatever else it asks for."""
    rest = b""
    while data := await stream.receive():
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            lines.append(line)
            asked = json.loads(line)
            answer: dict[str, Any] = {"jsonrpc": "2.0", "id": asked["id"]}
            if asked["method"] == "host/hello":
                answer["result"] = {"version": __version__, "protocol": PROTOCOL, "pid": 1}
            else:
                answer["error"] = {"code": 1, "message": "no"}
            await stream.send(json.dumps(answer).encode() + b"\n")


async def test_every_request_is_written_as_its_version_has_it():
    ours, theirs = memory_pair()
    lines: list[bytes] = []

    async def dial() -> ByteStream:
        return ours

    host = asyncio.create_task(_refuse_all(theirs, lines))
    client = HostClient.create(dial, "test")
    async with asyncio.timeout(SOON):
        for call in CALLS:
            with suppress(QuarterdeckError, RpcError):
                await call(client)
        await client.disconnect()
        await host
    hello, *asked = lines
    assert json.loads(hello)["method"] == "host/hello"
    told = [line.replace(b',"idle":' + _idle(line), b"") for line in asked]
    assert told == GOLDEN.read_bytes().splitlines()


def _idle(line: bytes) -> bytes:
    """The seconds in a request, which no two runs share."""
    idle = json.loads(line).get("params", {}).get("idle")
    return b"" if idle is None else line.rpartition(b'"idle":')[2].rstrip(b"}")
