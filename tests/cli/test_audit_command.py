"""``quarterdeck audit``: export with and without masking, and what verification says."""

import asyncio
import json
from pathlib import Path

import pytest

from quarterdeck.config.places import Places
from quarterdeck.journal import Journal
from quarterdeck.wire.events import PermissionAnswered, PermissionAsked
from quarterdeck.wire.ids import RequestId, SessionId, ToolCallId
from quarterdeck.wire.permissions import Decider, PermissionOption, Selected

ANN = SessionId("ses_ann")
SECRET = "sk-abcdefghijklmnop1234"


async def write_log(places: Places, *commands: str) -> None:
    async with Journal.open(places.journal_file) as journal:
        for number, command in enumerate(commands):
            request, call = RequestId(f"req_{command}"), ToolCallId(f"call_{number}")
            option = PermissionOption(option_id="yes", name="Allow", kind="allow_once")
            asked = PermissionAsked(
                request=request,
                call=call,
                title=command,
                options=(option,),
                kind="execute",
                name="Bash",
                raw_input={"command": command},
            )
            by = Decider(kind="person", name="ada")
            outcome = Selected(option_id="yes")
            answered = PermissionAnswered(request=request, call=call, outcome=outcome, by=by)
            await journal.append(ANN, asked)
            await journal.append(ANN, answered)


@pytest.fixture
def places(environ: dict[str, str]) -> Places:
    found = Places.find(environ)
    asyncio.run(write_log(found, "make test", f"curl -H 'Authorization: Bearer {SECRET}' x"))
    return found


def test_an_export_is_verified_by_its_head_also_when_masked_and_when_the_log_has_grown(
    run, work: Path, places: Places
):
    done = run("audit", "export", "--out", "a.jsonl")
    assert (done.returncode, done.stdout) == (0, "")
    head = done.stderr.strip().rpartition(" ")[2]
    assert done.stderr == f"2 records, head {head}\n"
    assert (work / "a.jsonl").stat().st_mode & 0o077 == 0
    good = run("audit", "verify", "a.jsonl", "--head", head)
    assert (good.returncode, good.stdout.splitlines()[1]) == (0, f"head {head}")

    masked = run("audit", "export", "--mask")
    assert SECRET not in masked.stdout
    assert masked.stderr == done.stderr
    asyncio.run(write_log(places, "make more"))
    run("audit", "export", "-o", "later.jsonl", "--mask")
    later = run("audit", "verify", "later.jsonl", "--head", head)
    assert (later.returncode, "head is that of record 2" in later.stdout) == (0, True)


def test_a_change_is_named_and_a_foreign_file_refused(run, work: Path, places: Places):
    lines = run("audit", "export").stdout.splitlines(keepends=True)
    (work / "bad.jsonl").write_text("".join([lines[0], *lines[2:]]))
    bad = run("audit", "verify", "bad.jsonl", "--json")
    assert bad.returncode == 1
    assert "record 1 is missing" in json.loads(bad.stdout)["problems"][0]
    (work / "odd").write_bytes(b"\x1b[2J\xff\n")
    odd = run("audit", "verify", "odd", "--head", "00")
    assert (odd.returncode, "not the first line" in odd.stdout) == (1, True)
    assert run("audit", "verify", "nothing").returncode == 2


def test_without_a_log_the_error_names_it(run):
    missing = run("audit", "export")
    assert missing.returncode == 1
    assert "journal.db" in missing.stderr
