"""Changes by turn, and of agents that share a directory: what their checkpoints say."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from quarterdeck.agent.checkpoints.errors import NothingToUndoError
from quarterdeck.agent.checkpoints.file_state import SharedPath
from quarterdeck.agent.checkpoints.snapshot import TurnSnapshots
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.fleet.review.api import ReviewSelection
from quarterdeck.fleet.review.errors import ChangedMeanwhileError
from quarterdeck.wire.content import text
from quarterdeck.wire.events import Checkpointed, Event, Prompted, Rewound
from quarterdeck.wire.ids import SessionId, TurnId, new_message_id, new_turn_id
from tests.support.deadlines import SOON
from tests.support.review_project import git, make_repository
from tests.support.scripted_fleet import Casting, fleet_of, places_in, wish

Act = Callable[[], object]


class SharedAgent:
    """An agent whose turns are written to the log by the test."""

    def __init__(
        self, fleet: LocalFleet, tree: Path, session: SessionId, snapshots: TurnSnapshots
    ) -> None:
        self.fleet = fleet
        self.tree = tree
        self.session = session
        self.snapshots = snapshots

    async def turn(self, act: Act, shared: dict[str, tuple[str, ...]] | None = None) -> TurnId:
        """A turn that does something to files."""
        turn = new_turn_id()
        journal = self.fleet.journal
        prompt = Prompted(content=(text("work"),), message=new_message_id())
        record = await journal.append(self.session, prompt, turn=turn)
        for event in await asyncio.to_thread(self._work, turn, act, shared or {}):
            record = await journal.append(self.session, event, turn=turn)
        await journal.durable(record.seq)
        return turn

    def _work(self, turn: TurnId, act: Act, shared: dict[str, tuple[str, ...]]) -> list[Event]:
        events: list[Event] = []
        pending = self.snapshots.begin(turn)
        act()
        for event in self.snapshots.finish(pending):
            if isinstance(event, Checkpointed) and shared:
                manifest = self.snapshots.blobs.get_manifest(event.manifest)
                top = bytes(self.tree.resolve())
                paths = tuple(
                    SharedPath(path=top + b"/" + name.encode(), agents=agents)
                    for name, agents in shared.items()
                )
                digest = self.snapshots.blobs.put_manifest(replace(manifest, shared=paths))
                event = replace(event, manifest=digest)
            events.append(event)
        return events


@pytest.fixture
async def ann(tmp_path: Path) -> AsyncIterator[SharedAgent]:
    tree = tmp_path / "project"
    make_repository(tree, {b"a.txt": b"1\n2\n3\n", b"b.txt": b"b\n"})
    async with fleet_of(tmp_path / "home", Casting()) as fleet:
        info = await fleet.spawn(wish(tree, name="ann", prompt="say hello"))
        await fleet.wait(["ann"], timeout=SOON)
        state = places_in(tmp_path / "home").state
        roots = (str(tree),)
        snapshots = await asyncio.to_thread(TurnSnapshots, state, info.session, roots)
        yield SharedAgent(fleet, tree, info.session, snapshots)


async def test_all_turns_and_single_ones(ann: SharedAgent):
    await ann.turn(lambda: ann.tree.joinpath("a.txt").write_text("one\n2\n3\n"))
    await ann.turn(lambda: None)
    (ann.tree / "b.txt").write_text("a person\n")
    last = await ann.turn(lambda: ann.tree.joinpath("a.txt").write_text("one\n2\n3\n4\n"))
    found = await ann.fleet.changes("ann")
    assert [(one.path, one.added, one.removed) for one in found.files] == [("a.txt", 2, 1)]
    assert found.against == "before its first turn"
    first = await ann.fleet.changes("ann", turn="1")
    assert [(one.added, one.removed) for one in first.files] == [(1, 1)]
    assert first.against == "before turn 1"
    assert not (await ann.fleet.changes("ann", turn="2")).files
    page = await ann.fleet.patch("ann", "a.txt", turn=last, context=0)
    assert page.patch.hunks[0].lines == [("+", "4")]
    with pytest.raises(NothingToUndoError, match="no turn '9'"):
        await ann.fleet.changes("ann", turn="9")


async def test_a_turn_that_was_undone_does_not_count(ann: SharedAgent):
    turn = await ann.turn(lambda: ann.tree.joinpath("a.txt").write_text("x\n"))
    (ann.tree / "a.txt").write_text("1\n2\n3\n")
    await ann.fleet.journal.commit(ann.session, Rewound(to=turn, files=(turn,)))
    assert not (await ann.fleet.changes("ann")).files
    assert (await ann.fleet.changes("ann", turn="1")).files


async def test_what_others_may_have_changed_is_said(ann: SharedAgent):
    def work() -> None:
        (ann.tree / "a.txt").write_text("x\n")
        (ann.tree / "b.txt").write_text("y\n")

    await ann.turn(work, {"b.txt": ("bob",)})
    found = await ann.fleet.changes("ann")
    assert [(one.path, one.shared_with) for one in found.files] == [
        ("a.txt", ()),
        ("b.txt", ("bob",)),
    ]
    assert found.shared_with == ("bob",)


async def test_a_shared_file_is_accepted_and_rejected(ann: SharedAgent):
    await ann.turn(lambda: ann.tree.joinpath("a.txt").write_text("one\n2\n3\n4\n"))
    line = ReviewSelection(file="a.txt", new=((4, 4),))
    await ann.fleet.accept_changes("ann", [line])
    assert git(ann.tree, "show", ":a.txt") == b"1\n2\n3\n4\n"
    await ann.fleet.reject_changes("ann", [line])
    assert (ann.tree / "a.txt").read_text() == "one\n2\n3\n"
    assert git(ann.tree, "show", ":a.txt") == b"1\n2\n3\n"
    await ann.fleet.undo_review("ann")
    (ann.tree / "a.txt").write_text("a person\n")
    with pytest.raises(ChangedMeanwhileError, match=r"a\.txt"):
        await ann.fleet.reject_changes("ann", [ReviewSelection(file="a.txt")])
    assert (ann.tree / "a.txt").read_text() == "a person\n"


async def test_an_agent_without_turns_has_no_changes(ann: SharedAgent):
    found = await ann.fleet.changes("ann")
    assert found.files == () and found.notes == ("no turn has run yet",)
