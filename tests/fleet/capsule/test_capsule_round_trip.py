"""A capsule taken in on an empty home and exported again is the same, but for its time."""

import asyncio
import random
import typing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from quarterdeck.fleet.capsule.archive import ArchiveReader, ArchiveWriter, CapsuleLimits, PartSpool
from quarterdeck.fleet.capsule.errors import CapsuleError, CapsuleRefusedError
from quarterdeck.fleet.capsule.reader import open_capsule
from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    Event,
    GrantRevoked,
    MessageChunk,
    ModeChanged,
    PermissionAnswered,
    PermissionAsked,
    PromptQueued,
    SessionChanged,
    SessionOpened,
    SessionSpawned,
    TerminalOutput,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
    WorktreeAssigned,
    WorktreeReleased,
)
from quarterdeck.wire.ids import (
    MessageId,
    RequestId,
    SessionId,
    TerminalId,
    ToolCallId,
    new_session_id,
    new_turn_id,
)
from quarterdeck.wire.permissions import Decider, PermissionOption, Selected
from quarterdeck.wire.session_options import AgentMcpServer, SessionOptions
from quarterdeck.wire.usage import TokenUsage
from quarterdeck.wire.worktrees import Worktree
from tests.support.capsules import Entry, Machine, events_of, files_below, short_session
from tests.support.struct_strategies import values_of

SECRET = "sk-abcdefghijklmnop1234"
MEMBERS = [member for member in typing.get_args(Event) if member is not SessionOpened]
some_events = st.lists(
    st.tuples(st.integers(0, 2), st.one_of([values_of(member) for member in MEMBERS])), max_size=25
)


def tree_of(events: list[tuple[int, Event]]) -> list[Entry]:
    """A session with a child and a grandchild, in which these events happen."""
    ids = [new_session_id() for _ in range(3)]
    entries: list[Entry] = []
    for number, id_ in enumerate(ids):
        parent = ids[number - 1] if number else None
        entries.append((id_, SessionOpened(agent="native", cwd="/w", parent_session=parent), None))
    turn = new_turn_id()
    return [*entries, *((ids[who], event, turn) for who, event in events)]


def check_round_trip(folder: Path, entries: list[Entry], **options: typing.Any) -> None:
    here, there = Machine(folder / "a"), Machine(folder / "b")
    here.record(entries)
    root = entries[0][0]
    first = here.export(folder / "first.capsule", root, **options)
    assert first.logs[0].records == len(entries)
    report = there.take(folder / "first.capsule", is_trusted=True)
    assert report.sessions[0].id == root
    again = there.export(folder / "again.capsule", root, **options)
    places = ("masked", "masked_count", "created")
    assert replace(again, **{name: getattr(first, name) for name in places}) == first
    assert events_of(folder / "again.capsule") == events_of(folder / "first.capsule")


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(some_events, st.booleans())
def test_any_session_comes_back_as_it_was(events: list[tuple[int, Event]], is_masked: bool):
    with TemporaryDirectory() as folder:
        check_round_trip(Path(folder), tree_of(events), is_masked=is_masked)


@pytest.mark.stress
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(some_events, st.booleans())
def test_two_hundred_sessions_come_back_as_they_were(
    events: list[tuple[int, Event]], is_masked: bool
):
    with TemporaryDirectory() as folder:
        check_round_trip(Path(folder), tree_of(events), is_masked=is_masked)


def test_secrets_are_masked_also_in_pieces_and_the_places_are_named(tmp_path: Path):
    machine, file = Machine(tmp_path / "a"), tmp_path / "c"
    entries = short_session("/w", f"the key is {SECRET}")
    id_ = entries[0][0]
    pieces = [MessageChunk(content=text(SECRET[:9])), MessageChunk(content=text(SECRET[9:]))]
    call = ToolCallStarted(call=ToolCallId("c"), title="x", raw_input={"password": "hunter22"})
    variable = MessageChunk(content=text("my word is swordfish!"))
    entries[1:1] = [(id_, one, None) for one in (*pieces, call, variable)]
    machine.record(entries)
    manifest = machine.export(file, id_, secrets={"MY_TOKEN": "swordfish!"})
    data = "".join(map(str, events_of(file)))
    assert manifest.is_masked and manifest.masked_count == 6  # in two pieces: both are others
    assert SECRET not in data and SECRET[9:] not in data and "hunter22" not in data
    assert "swordfish" not in data
    named = {(one.where, one.place) for one in manifest.masked}
    assert (f"events of {id_}", "record 4 /event/raw_input/password") in named

    kept = machine.export(file, id_, is_masked=False)
    assert not kept.is_masked and SECRET in str(events_of(file))


def test_the_manifest_says_what_is_open(tmp_path: Path):
    machine = Machine(tmp_path / "a")
    entries = short_session("/w", "one", agent="claude", theirs="4711")
    id_ = entries[0][0]
    queued = PromptQueued(content=(text("and then this"),), message=MessageId("m"))
    ended = TurnEnded(stop="end_turn", usage=TokenUsage(input=10, output=5))
    entries[-1:] = [(id_, queued, None), (id_, ended, None)]
    machine.record(entries)
    manifest = machine.export(tmp_path / "c", id_)
    session = manifest.sessions[0]
    assert [one.text for one in session.queue] == ["and then this"]
    assert session.usage == TokenUsage(input=10, output=5)
    assert (session.agent, session.agent_session, session.title) == ("claude", "4711", "A session")
    reasons = {one.what: one.why for one in manifest.omitted}
    assert "not on this machine" in reasons["claude session files"]
    assert "'/w' is not in a git repository" in reasons["work tree"]


def powers(id_: SessionId) -> list[Entry]:
    """All that would let an agent do something by itself."""
    option = PermissionOption(
        option_id="session", name="Always", kind="allow_always", meta=_choice(id_)
    )
    asked = PermissionAsked(
        request=RequestId("r"),
        call=ToolCallId("c"),
        title="rm",
        options=(option,),
        name="bash",
        raw_input={"command": "rm x"},
    )
    answered = PermissionAnswered(
        request=RequestId("r"),
        call=ToolCallId("c"),
        outcome=Selected(option_id="session"),
        by=Decider(kind="person", name="ada"),
    )
    options = SessionOptions(
        agent="native",
        cwd="/w",
        mode="full-auto",
        allow=("bash",),
        deny=("fetch",),
        roots=("/",),
        mcp_servers=(AgentMcpServer(name="evil", command=("sh", "-c", "true")),),
    )
    tree = Worktree(path="/home/ada/important", repository="/home/ada", base="0" * 40)
    events: tuple[Event, ...] = (
        SessionSpawned(name="ann", options=options, lead=True),
        SessionOpened(agent="native", cwd="/w", mode="full-auto", roots=("/",)),
        asked,
        answered,
        WorktreeAssigned(worktree=tree),
        SessionChanged(mode="full-auto"),
    )
    return [(id_, event, None) for event in events]


def _choice(id_: SessionId) -> dict[str, typing.Any]:
    meaning = {"effect": "allow", "scope": "session", "session": id_, "patterns": ["bash(rm:*)"]}
    return {"quarterdeck": meaning}


def test_what_has_power_is_taken_in_only_on_request(tmp_path: Path):
    here, there, trusting = (Machine(tmp_path / name) for name in "abd")
    id_ = new_session_id()
    here.record(powers(id_))
    manifest = here.export(tmp_path / "capsule", id_, is_masked=False)
    report = there.take(tmp_path / "capsule")
    events = there.read(id_)
    spawned = next(one for one in events if isinstance(one, SessionSpawned))
    assert spawned.options == SessionOptions(agent="native", cwd="/w", mode="ask", deny=("fetch",))
    assert not spawned.lead
    assert next(one for one in events if isinstance(one, SessionOpened)).roots == ()
    revoked = [one.grant for one in events if isinstance(one, GrantRevoked)]
    assert revoked == [one.id for one in manifest.sessions[0].grants] and len(revoked) == 1
    assert [one.mode for one in events if isinstance(one, ModeChanged)] == ["ask"]
    assert [one.path for one in events if isinstance(one, WorktreeReleased)] == [
        "/home/ada/important"
    ]
    dropped = {one.what for one in report.omitted}
    assert {"grants", "options of its start", "further directories", "worktree"} <= dropped

    trusting.take(tmp_path / "capsule", is_trusted=True)
    assert trusting.read(id_) == [event for _, event, _ in powers(id_)]


def test_a_session_of_the_host_moves_with_the_agents_that_it_led(tmp_path: Path):
    here, there = Machine(tmp_path / "a"), Machine(tmp_path / "b")
    lead, worker, other = (short_session("/w", word) for word in ("lead", "work", "other"))
    worker[0] = (worker[0][0], replace(worker[0][1], parent_session=lead[0][0]), None)  # type: ignore[type-var]
    mixed = [*lead[:2], *worker, *other, *lead[2:]]
    here.record(mixed, in_host=True)
    manifest = here.export(tmp_path / "c", lead[0][0])
    assert [one.id for one in manifest.sessions] == [lead[0][0], worker[0][0]]
    (records,) = events_of(tmp_path / "c")
    assert [one["seq"] for one in records] == list(range(1, len(lead) + len(worker) + 1))
    assert [one["session"] for one in records[2:8]] == [worker[0][0]] * 6
    report = there.take(tmp_path / "c")
    assert report.sessions[0].sub_agents == 1
    assert len(there.read(lead[0][0])) == len(lead)


def test_an_id_that_is_taken_becomes_another_everywhere(tmp_path: Path):
    machine = Machine(tmp_path / "a")
    entries = tree_of([(0, MessageChunk(content=text("x")))])
    root, child = entries[0][0], entries[1][0]
    machine.record(entries)
    machine.export(tmp_path / "c", root)
    report = machine.take(tmp_path / "c")
    new = report.sessions[0].id
    assert new != root and report.sessions[0].original == root
    assert any(one.what == "id" and repr(root) in one.why for one in report.omitted)
    machine.export(tmp_path / "d", new)
    text_ = str(events_of(tmp_path / "d"))
    assert root not in text_ and child not in text_
    assert len(machine.read(new)) == 2 and len(machine.read(root)) == 2


def test_the_same_capsule_again_changes_nothing(tmp_path: Path):
    here, there = Machine(tmp_path / "a"), Machine(tmp_path / "b")
    entries = short_session("/w", "one")
    here.record(entries)
    here.export(tmp_path / "c", entries[0][0])
    first = there.take(tmp_path / "c")
    before = files_below(there.home)
    again = there.take(tmp_path / "c")
    assert [one.was_there for one in first.sessions + again.sessions] == [False, True]
    assert again.sessions[0].id == first.sessions[0].id
    assert files_below(there.home) == before


def test_several_sessions_share_a_capsule(tmp_path: Path):
    here, there = Machine(tmp_path / "a"), Machine(tmp_path / "b")
    sessions = [short_session("/w", word) for word in ("one", "two")]
    for entries in sessions:
        here.record(entries)
    ids = [entries[0][0] for entries in sessions]
    here.export(tmp_path / "c", *ids, ids[0])
    report = there.take(tmp_path / "c")
    assert [one.id for one in report.sessions] == ids
    with pytest.raises(CapsuleError, match="cannot share one --directory"):
        Machine(tmp_path / "d").take(tmp_path / "c", directory=tmp_path)


async def test_an_import_that_is_interrupted_leaves_nothing_and_can_be_run_again(tmp_path: Path):
    def prepare() -> tuple[Machine, SessionId]:
        here = Machine(tmp_path / "a")
        entries = short_session("/w", *(f"{number}" * 9_000 for number in range(40)))
        here.record(entries)
        here.export(tmp_path / "c", entries[0][0])
        return Machine(tmp_path / "b"), entries[0][0]

    there, id_ = await asyncio.to_thread(prepare)
    began = asyncio.Event()
    loop = asyncio.get_running_loop()
    task = loop.create_task(
        there.take_later(tmp_path / "c", progress=lambda *_: began.set()), name="import"
    )
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(files_below, there.home) == set()
    report = await there.take_later(tmp_path / "c")
    assert report.sessions[0].id == id_


def test_what_a_killed_import_left_is_deleted_or_finished(tmp_path: Path):
    here, there = Machine(tmp_path / "a"), Machine(tmp_path / "b")
    one, two = short_session("/w", "one"), short_session("/w", "two")
    for entries in (one, two):
        here.record(entries)
        here.export(tmp_path / entries[0][0], entries[0][0])
    capsules = there.places.state / "capsules"
    half = capsules / "stage-half"
    (half / "sessions").mkdir(parents=True)
    (half / "sessions" / "ses_x.db").write_text("half")
    planned = capsules / "stage-planned"
    planned.mkdir()
    (planned / "log").write_text("whole")
    target = there.places.state / "sessions" / "moved.db"
    plan = f'[{{"kind":"file","source":"{planned / "log"}","target":"{target}"}}]'
    (planned / "plan.json").write_text(plan)
    there.take(tmp_path / one[0][0])
    assert target.read_text() == "whole"
    assert not list(capsules.glob("stage-*"))


def test_only_one_import_runs_at_a_time(tmp_path: Path):
    from quarterdeck.fleet.capsule.import_stage import open_stage

    machine = Machine(tmp_path / "a")
    entries = short_session("/w", "one")
    machine.record(entries)
    machine.export(tmp_path / "c", entries[0][0])
    with open_stage(machine.places), pytest.raises(CapsuleError, match="another capsule"):
        machine.take(tmp_path / "c")


def test_large_numbers_have_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Sizes beyond 32 bits are written and read as zip 64 has them; here the bound is lower."""
    import zipfile

    from quarterdeck.fleet.capsule import archive

    monkeypatch.setattr(archive, "_FULL", 1_000)
    file = tmp_path / "c"
    data = random.Random(7).randbytes(5_000)
    with file.open("wb") as output:
        writer = ArchiveWriter(output)
        for _ in range(2):
            with PartSpool(tmp_path, deflates=False) as spool:
                spool.write(data)
                spool.finish()
                name = archive.part_name(spool.digest) if not writer.written else archive.MANIFEST
                writer.add(name, spool)
        writer.finish()
    monkeypatch.undo()
    # To other programs the marks of large numbers are those of 32 bits.
    raw = file.read_bytes()
    assert b"PK\6\6" in raw and b"PK\6\7" in raw
    with pytest.raises((zipfile.BadZipFile, CapsuleRefusedError)), file.open("rb") as opened:
        ArchiveReader(opened, CapsuleLimits())
    monkeypatch.setattr(archive, "_FULL", 1_000)
    with file.open("rb") as opened:
        reader = ArchiveReader(opened, CapsuleLimits())
        assert [one.size for one in reader.members.values()] == [5_000, 5_000]
        assert reader.read(archive.MANIFEST, 5_000) == data


@pytest.mark.stress
def test_a_part_of_more_than_four_gigabytes_is_streamed(tmp_path: Path):
    import hashlib
    import tracemalloc
    import zipfile

    from quarterdeck.fleet.capsule.archive import MANIFEST, part_name

    block = random.Random(7).randbytes(1 << 20)
    size = (4 << 10) + 8
    file = tmp_path / "c"
    tracemalloc.start()
    with file.open("wb") as output, PartSpool(tmp_path, deflates=False) as spool:
        for _ in range(size):
            spool.write(block)
        spool.finish()
        writer = ArchiveWriter(output)
        writer.add(part_name(spool.digest), spool)
        digest = spool.digest
        with PartSpool(tmp_path) as small:
            small.write(b"{}")
            small.finish()
            writer.add(MANIFEST, small)
        writer.finish()
    with file.open("rb") as opened:
        reader = ArchiveReader(opened, CapsuleLimits())
        found = hashlib.sha256()
        for piece in reader.stream(reader.members[part_name(digest)]):
            found.update(piece)
        assert reader.read(MANIFEST, 10) == b"{}"
    assert found.hexdigest() == digest
    assert tracemalloc.get_traced_memory()[1] < 50_000_000
    tracemalloc.stop()
    with zipfile.ZipFile(file) as container:
        assert container.read(MANIFEST) == b"{}"


def test_memory_is_bounded_whatever_the_session(tmp_path: Path):
    import tracemalloc

    here, there = Machine(tmp_path / "a"), Machine(tmp_path / "b")
    id_ = new_session_id()
    rng = random.Random(3)
    entries: list[Entry] = [(id_, SessionOpened(agent="native", cwd="/w"), None)]
    for number in range(24):
        data = rng.randbytes(250_000).hex()
        call = ToolCallId(f"c{number}")
        entries += [
            (id_, ToolCallStarted(call=call, title="x"), None),
            (id_, ToolCallEnded(call=call, status="completed", raw_output=data), None),
            (id_, TerminalOutput(terminal=TerminalId("t"), data=data[:9_000]), None),
        ]
    here.record(entries)
    del entries
    tracemalloc.start()
    here.export(tmp_path / "c", id_, is_masked=False)
    exported = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    there.take(tmp_path / "c")
    imported = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    with open_capsule(tmp_path / "c") as opened:
        assert opened.size > 12_000_000
    assert max(exported, imported) < 60_000_000, (exported, imported)
