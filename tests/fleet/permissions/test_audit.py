"""The audit: every decision in a chain of hashes; whatever is done to an export is found."""

import json
import random
from pathlib import Path

import pytest

from quarterdeck.fleet.permissions.audit import (
    AuditError,
    AuditExport,
    load_audit_key,
    verify_audit,
)
from quarterdeck.wire.events import (
    Event,
    GrantRevoked,
    PermissionAnswered,
    PermissionAsked,
    PermissionViolated,
    SessionSpawned,
    ToolCallStarted,
    UnknownEvent,
)
from quarterdeck.wire.ids import RequestId, SessionId, ToolCallId
from quarterdeck.wire.permissions import Cancelled, Decider, PermissionOption, Selected
from quarterdeck.wire.record import Record
from quarterdeck.wire.session_options import SessionOptions

KEY = bytes(range(32))
SECRET = "sk-abcdefghijklmnop1234"
OPTIONS = (
    PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
    PermissionOption(option_id="no", name="Deny", kind="reject_once"),
)


def ask(number: int, command: str, answer: str | None, feedback: str | None = None) -> list[Event]:
    request, call = RequestId(f"req_{number}"), ToolCallId(f"call_{number}")
    asked = PermissionAsked(
        request=request,
        call=call,
        title=command,
        options=OPTIONS,
        kind="execute",
        name="Bash",
        raw_input={"command": command, "env": {"API_TOKEN": "hunter22"}, "deep/er": [1, None, {}]},
        reason="no rule matches",
    )
    outcome = Cancelled() if answer is None else Selected(option_id=answer)
    by = Decider(kind="person", name="ada")
    answered = PermissionAnswered(
        request=request, call=call, outcome=outcome, by=by, feedback=feedback
    )
    return [asked, answered]


EVENTS: list[Event] = [
    SessionSpawned(name="ann ✓", options=SessionOptions(agent="claude", cwd="/w")),
    *ask(1, "make test", "yes"),
    *ask(2, f"curl -H 'Authorization: Bearer {SECRET}' x", "no", "not with the key"),
    ToolCallStarted(
        call=ToolCallId("c"), title="ls", name="Bash", kind="execute", raw_input={"command": "ls"}
    ),
    PermissionAnswered(
        request=RequestId("req_c"),
        call=ToolCallId("c"),
        outcome=Selected(option_id="allow"),
        by=Decider(kind="rule", name="allow bash(ls)"),
        kind="allow_once",
    ),
    PermissionViolated(request=RequestId("v"), title="rm x", reason="it was refused"),
    GrantRevoked(grant="grt_1", by=Decider(kind="person", name="ada")),
    *ask(3, "make\x1b[2J", None),
    UnknownEvent(origin="log", raw={}, reason="damaged"),
]
RECORDS = [
    Record(seq=3 * place, time=1_000 + place, session=SessionId("ses_ann"), event=event)
    for place, event in enumerate(EVENTS, 1)
]


def export(records: list[Record] = RECORDS, *, mask: bool = False, key: bytes = KEY) -> list[bytes]:
    made = AuditExport(key, mask=mask)
    return [made.start(), *made.add(records), made.finish()]


def head_of(lines: list[bytes]) -> str:
    return json.loads(lines[-1])["head"]


def problems(data: bytes | list[bytes], head: str | None = None) -> list[str]:
    lines = data if isinstance(data, list) else data.splitlines(keepends=True)
    return verify_audit(lines, head).problems


def test_every_decision_is_in_it_as_it_was_shown():
    lines = export()
    assert problems(lines, head_of(lines)) == []
    whole = [json.loads(line) for line in lines[1:-1]]
    assert [one["record"] for one in whole] == [1, 2, 3, 4, 5, 6, 7]
    values = [{path: leaf["value"] for path, leaf in one["values"].items()} for one in whole]
    assert values[0]["agent"] == "ann ✓"
    assert values[0]["decision"] == "allow"
    assert values[0]["by/kind"] == "person"
    assert values[0]["shown/input/command"] == "make test"
    assert values[0]["shown/reason"] == "no rule matches"
    assert values[0]["shown/options/1/name"] == "Deny"
    assert (values[1]["decision"], values[1]["feedback"]) == ("deny", "not with the key")
    assert (values[2]["decision"], values[2]["by/name"]) == ("allow", "allow bash(ls)")
    assert values[2]["shown/input/command"] == "ls"
    assert values[3]["reason"] == "it was refused"
    assert values[5]["decision"] == "none"
    assert values[6]["damaged"] == "damaged"


def test_the_same_log_gives_the_same_chain_and_a_longer_one_goes_on_with_it():
    lines = export()
    assert export() == lines
    earlier = export(RECORDS[:5])
    found = verify_audit(lines, head_of(earlier))
    assert (found.is_sound, found.head_record, found.records) == (True, 2, 7)
    assert problems(earlier, head_of(lines)) != []
    assert head_of(export(key=bytes(32))) != head_of(lines)
    empty = export([])
    assert problems(empty, head_of(empty)) == []
    assert verify_audit(lines, head_of(empty).upper()).head_record == 0


def test_masking_leaves_secrets_out_and_keeps_the_chain():
    plain, masked = export(), export(mask=True)
    assert SECRET in b"".join(plain).decode()
    text = b"".join(masked).decode()
    assert SECRET not in text
    assert "hunter22" not in text
    assert "make test" in text
    found = verify_audit(masked, head_of(plain))
    assert (found.is_sound, found.masked > 0) == (True, True)


def test_a_changed_dropped_or_moved_record_is_named():
    lines = export()
    changed = [*lines]
    changed[2] = changed[2].replace(b'"deny"', b'"allow"')
    assert problems(changed) == [
        "record 2 (line 3, 15 in the log) was changed: its content is not what its hash says"
    ]
    (dropped, *_) = problems([*lines[:3], *lines[4:]])
    assert dropped.startswith("record 3 is missing before record 4 (line 4")
    moved = problems([*lines[:2], lines[3], lines[2], *lines[4:]])
    assert any("record 2 (line 4, 15 in the log) stands where" in one for one in moved)
    cut = problems(lines[:-2])
    assert cut == ["the end is missing: records after record 6 may have been cut off"]
    (twice, *_) = problems([*lines[:3], *lines[2:]])
    assert "stands where record 3 should be" in twice
    assert problems([]) == ["the file is empty"]


def test_who_computes_all_hashes_anew_is_found_by_the_head():
    forged = [*RECORDS]
    forged[4] = Record(
        seq=15, time=1_005, session=SessionId("ses_ann"), event=ask(2, "x", "yes")[1]
    )
    lines = export(forged)
    assert problems(lines) == []
    assert problems(lines, head_of(export())) != []


@pytest.mark.parametrize("mask", [False, True])
def test_any_single_byte_that_changes_is_found(mask: bool):
    check_bytes(mask, 400, 1)


@pytest.mark.stress
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mask", [False, True])
def test_every_single_byte_that_changes_is_found(mask: bool):
    check_bytes(mask, None, 2)


def check_bytes(mask: bool, most: int | None, seed: int) -> None:
    data = b"".join(export(mask=mask))
    rng = random.Random(seed)
    places = range(len(data)) if most is None else rng.sample(range(len(data)), most)
    for place in places:
        other = bytes([rng.choice([one for one in range(256) if one != data[place]])])
        for new in (other, b"", other + data[place : place + 1]):
            changed = data[:place] + new + data[place + 1 :]
            if changed != data:
                assert problems(changed) != [], (place, new)


def test_the_key_is_made_once_and_a_damaged_one_is_refused(tmp_path: Path):
    path = tmp_path / "state" / "audit.key"
    key = load_audit_key(path)
    assert load_audit_key(path) == key
    assert path.stat().st_mode & 0o077 == 0
    path.write_text("no key")
    with pytest.raises(AuditError, match=r"audit\.key"):
        load_audit_key(path)
    path.write_text("ab" * 5)
    with pytest.raises(AuditError, match="32 bytes"):
        load_audit_key(path)
