import asyncio
import json
import os
import select
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from quarterdeck.cli.testing import FAKES
from quarterdeck.journal import Journal
from quarterdeck.wire.content import TextContent
from quarterdeck.wire.events import MessageChunk, SessionOpened, SessionSpawned
from quarterdeck.wire.ids import MessageId, SessionId
from quarterdeck.wire.session_options import SessionOptions
from tests.support.run_logs import own_log, write_run

SCRIPT = Path(sys.executable).parent / "quarterdeck"


@pytest.fixture
def log(environ: dict[str, str]) -> Path:
    """The user's own log, with two sessions."""
    path = Path(environ["HOME"]) / ".local/state/quarterdeck/journal.db"

    async def fill() -> None:
        async with Journal.open(path) as journal:
            for number, text in enumerate(("the quick fox", "the lazy dog", "an owl")):
                event = MessageChunk(
                    content=TextContent(text=text), message=MessageId(f"msg_{number}")
                )
                await journal.append(SessionId(f"ses_{number % 2}"), event)

    asyncio.run(fill())
    return path


def test_a_healthy_log_passes(run, log: Path):
    done = run("journal", "check")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"3 events in {log}\nNo problems found.\n"
    told = json.loads(run("journal", "check", "--json").stdout)
    assert (told["healthy"], told["events"]) == (True, 3)


def test_events_are_exported_as_lines(run, log: Path):
    lines = [json.loads(line) for line in run("journal", "export").stdout.splitlines()]
    assert [line["seq"] for line in lines] == [1, 2, 3]
    assert len(run("journal", "export", "--session", "ses_0").stdout.splitlines()) == 2
    assert len(run("journal", "export", "--after", "2").stdout.splitlines()) == 1


def test_sessions_of_run_are_exported_and_found_too(run, log: Path):
    one = asyncio.run(write_run(log.parent, "a quick heron"))
    lines = [json.loads(line) for line in run("journal", "export").stdout.splitlines()]
    assert {line["session"] for line in lines} == {"ses_0", "ses_1", one}
    assert len(run("journal", "export", "--after", "2").stdout.splitlines()) == 1
    assert len(run("journal", "--file", str(log), "export").stdout.splitlines()) == 3
    hits = json.loads(run("journal", "search", "--json", "quick").stdout)["hits"]
    assert [hit["session"] for hit in hits] == [one, one, "ses_0"]
    log.unlink()
    own_log(log.parent, "ses_" + "0" * 26).write_bytes(b"no database")
    done = run("journal", "export")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 6)
    assert "not exported: " in done.stderr
    assert len(json.loads(run("journal", "search", "--json", "heron").stdout)["hits"]) == 2


def test_text_is_found(run, log: Path):
    done = run("journal", "search", "lazy", "dog")
    assert done.returncode == 0
    assert "lazy dog" in done.stdout
    hits = json.loads(run("journal", "search", "--json", "owl").stdout)["hits"]
    assert [hit["session"] for hit in hits] == ["ses_0"]
    assert run("journal", "search", "nowhere").stdout == ""


def test_a_log_is_salvaged_into_a_new_one(run, log: Path, work: Path):
    target = work / "saved.db"
    done = run("journal", "salvage", str(target))
    assert done.stdout.startswith("3 events of 2 sessions")
    assert run("journal", "--file", str(target), "check").returncode == 0
    again = run("journal", "salvage", str(target))
    assert again.returncode == 1
    assert "Traceback" not in again.stderr


def test_tables_are_computed_anew(run, log: Path):
    async def open_session() -> None:
        async with Journal.open(log) as journal:
            await journal.append(SessionId("ses_0"), SessionOpened(agent="native", cwd="/"))

    def lose(table: str) -> None:
        with closing(sqlite3.connect(log)) as database, database:
            assert database.execute(f"DELETE FROM {table}").rowcount == 1

    asyncio.run(open_session())
    lose("sessions")
    done = run("journal", "rebuild")
    assert (done.returncode, done.stderr) == (0, "")
    names = [line.removesuffix(": computed anew") for line in done.stdout.splitlines()]
    assert names == ["sessions", "fleet", "inbox", "session_grants"]
    lose("sessions")
    assert run("journal", "rebuild", "sessions").stdout == "sessions: computed anew\n"
    lose("sessions")
    done = run("journal", "--file", str(log), "rebuild")
    assert done.stdout == "sessions: computed anew\n"
    lose("sessions")


def test_a_table_that_is_not_there_is_named(run, log: Path):
    done = run("journal", "rebuild", "inbox", "nothing", "больше")
    assert done.returncode == 2
    assert "no such table: nothing, больше; there are: sessions, fleet, inbox" in done.stderr


def test_tables_of_a_log_in_use_are_not_touched(run, log: Path):
    async def try_meanwhile() -> None:
        async with Journal.open(log):
            done = await asyncio.to_thread(run, "journal", "rebuild")
            assert (done.returncode, done.stdout) == (1, "")
            assert f"is being written by process {os.getpid()}" in done.stderr

    asyncio.run(try_meanwhile())


def test_what_cannot_be_computed_is_reported(run, log: Path):
    async def write_entry() -> None:
        async with Journal.open(log) as journal:
            options = SessionOptions(agent="native", cwd="/")
            await journal.append(SessionId("ses_0"), SessionSpawned(options=options, name="ann"))

    asyncio.run(write_entry())
    with closing(sqlite3.connect(log)) as database:
        database.execute("CREATE VIEW fleet AS SELECT 1")
    done = run("journal", "rebuild")
    assert done.returncode == 1
    assert "fleet" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "command", [["check"], ["export"], ["search", "x"], ["rebuild"], ["salvage", "new"]]
)
def test_a_log_that_is_not_there_or_no_log_is_told(run, work: Path, command: list[str]):
    done = run("journal", *command)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("quarterdeck: ")
    assert "journal.db" in done.stderr
    (work / "text").write_text("no log" * 1000)
    done = run("journal", "--file", "text", *command)
    assert "Traceback" not in done.stderr
    if command[0] != "salvage":
        assert done.returncode == 1


def test_an_export_that_nobody_reads_is_quiet(log: Path, environ: dict[str, str]):
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [SCRIPT, "journal", "export"], stdout=write, stderr=subprocess.PIPE, env=environ
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_the_fakes_run_as_commands(environ: dict[str, str]):
    process = subprocess.Popen(
        [SCRIPT, "testing", "acp-agent"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environ,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        question = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
        question["params"] = {"protocolVersion": 1, "clientCapabilities": {}}
        process.stdin.write(json.dumps(question).encode() + b"\n")
        process.stdin.flush()
        assert select.select([process.stdout], [], [], 15)[0]
        assert json.loads(process.stdout.readline())["result"]["protocolVersion"] == 1
        process.stdin.close()
        process.wait(10)


def test_the_fakes_are_listed(run):
    assert "acp-agent" in run("testing", "--help").stdout


@pytest.mark.parametrize("name", FAKES)
def test_every_fake_has_help(run, name: str):
    shown = run("testing", name, "--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.lower().startswith("usage:") and "--" in shown.stdout


def test_damage_is_told_by_check_export_and_lists(run, log: Path):
    data = bytearray(log.read_bytes())
    data[data.index(b"the lazy dog") + 4] ^= 1
    log.write_bytes(data)
    done = run("journal", "check")
    assert done.returncode == 1
    assert "changed after they were written: 2\n" in done.stdout
    assert "session ses_1: damaged, unreadable records: 1\n" in done.stdout
    assert "quarterdeck journal salvage TARGET" in done.stdout
    done = run("journal", "export")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 3)
    assert "1 record is damaged" in done.stderr
    told = json.loads(run("journal", "check", "--json").stdout)
    assert (told["changed"], told["damaged"]) == ([2], {"ses_1": 1})


@pytest.mark.parametrize("place", [0, 16, 20, 44, 56, 60, 68, 100, 4096])
def test_a_damaged_beginning_is_reported_and_never_a_crash(run, log: Path, place: int):
    data = bytearray(log.read_bytes())
    data[place : place + 8] = b"\xff" * 8
    log.write_bytes(data)
    for command in (("check",), ("export",), ("search", "fox"), ("check", "--json")):
        done = run("journal", *command)
        assert "unexpected error" not in done.stderr
        assert done.returncode in (0, 1)
    assert not list(log.parent.glob("logs/*"))


def test_a_secret_in_several_pieces_is_masked_in_lines(run, environ: dict[str, str]):
    path = Path(environ["HOME"]) / ".local/state/quarterdeck/journal.db"
    pieces = ["use sk-an", "t-api03-abcdef", "ghijklmnop and", " password=hun", "ter2 now"]

    async def fill() -> None:
        async with Journal.open(path) as journal:
            for piece in pieces:
                for session in ("ses_0", "ses_1"):
                    event = MessageChunk(content=TextContent(text=piece), message=None)
                    await journal.append(SessionId(session), event)

    asyncio.run(fill())
    lines = [json.loads(line) for line in run("journal", "export").stdout.splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, 11))
    for session in ("ses_0", "ses_1"):
        own = [line for line in lines if line["session"] == session]
        said = "".join(line["event"]["content"]["text"] for line in own)
        assert said == "use … and password=… now"
