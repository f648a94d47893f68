"""The progress of a run, reports and their parts, without a host."""

from pathlib import Path

import pytest

from quarterdeck.plans.check import read_junit
from quarterdeck.plans.conduct import make_agent_name
from quarterdeck.plans.progress import (
    CheckOutcome,
    ContenderReport,
    ProgressLog,
    RunProgress,
    read_entries,
)
from quarterdeck.plans.race_report import (
    make_report_html,
    make_report_markdown,
    make_report_rows,
    rank_contenders,
)
from quarterdeck.plans.turn import TurnOutput
from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    Event,
    MessageChunk,
    PromptDropped,
    Prompted,
    SessionEnded,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.ids import MessageId, SessionId, ToolCallId, TurnId
from quarterdeck.wire.record import Record

GOLDEN = Path(__file__).parents[1] / "fixtures/plans/progress-v1.jsonl"


def test_an_entry_is_written_once_and_a_torn_line_is_dropped(tmp_path: Path):
    path = tmp_path / "progress.jsonl"
    with ProgressLog(path) as log:
        assert log.note("run_started", "run", text="a b")
        assert not log.note("run_started", "run", text="other")
    with path.open("ab") as file:
        file.write(b'{"v":1,"kind":"task_en')
    assert [one.key for one in read_entries(path)] == ["run"]
    seen: list[str] = []
    with ProgressLog(path, lambda entry: seen.append(entry.key)) as log:
        assert log.note("task_ended", "a/end", task="a", state="done")
        assert not log.note("run_started", "run")
    assert [one.key for one in read_entries(path)] == ["run", "a/end"] and seen == ["a/end"]
    assert (path.stat().st_mode & 0o777) == 0o600


def test_the_format_is_that_of_the_golden_file():
    progress = RunProgress(read_entries(GOLDEN))
    assert {key: task.state for key, task in progress.tasks.items()} == {
        "a": "done",
        "b": "failed",
        "c": "gate",
    }
    assert not progress.is_stopped and not progress.is_ended and progress.has_failed
    assert RunProgress(list(read_entries(GOLDEN))[:-1]).is_stopped
    assert progress.tasks["c"].request == "req_1"
    assert progress.notes == ["the plan was changed; tasks that have not begun use it"]
    task = progress.tasks["a"]
    assert (task.winner, task.attempts, task.repeated) == ("pi", 2, 1)
    report = task.reports["pi"]
    assert (report.tokens, report.costs, report.passed_checks) == (110, {"USD": 0.25}, 1)


def record(event: Event, seq: int, turn: str | None = None) -> Record:
    return Record(
        seq=seq,
        time=seq * 1_000_000,
        session=SessionId("s"),
        turn=None if turn is None else TurnId(turn),
        event=event,
    )


OURS, OTHER = MessageId("m1"), MessageId("m0")


def read_turn(*events: tuple[Event, str | None]):
    output = TurnOutput("m1")
    for seq, (event, turn) in enumerate(events, 1):
        if (result := output.take(record(event, seq, turn))) is not None:
            return result
    return None


def test_the_end_of_a_turn_is_that_of_its_own_prompt():
    result = read_turn(
        (Prompted(content=(text("x"),), message=OTHER), None),
        (TurnStarted(prompt=OTHER), "t0"),
        (MessageChunk(content=text("old")), "t0"),
        (TurnEnded(stop="end_turn"), "t0"),
        (Prompted(content=(text("x"),), message=OURS), None),
        (TurnStarted(prompt=OURS), "t1"),
        (MessageChunk(content=text("first")), "t1"),
        (ToolCallStarted(call=ToolCallId("c"), title="x"), "t1"),
        (MessageChunk(content=text("la")), "t1"),
        (MessageChunk(content=text("st")), "t1"),
        (TurnEnded(stop="end_turn"), "t1"),
    )
    assert result is not None
    assert (result.stop, result.output, result.seconds, result.seq) == ("end_turn", "last", 5.0, 11)


def test_a_session_that_ends_tells_whether_the_prompt_still_waits():
    ended = SessionEnded(how="broken", reason="the host was killed")
    waiting = read_turn((ended, None))
    assert waiting is not None and (waiting.stop, waiting.is_queued) == ("gone", True)
    begun = read_turn((Prompted(content=(text("x"),), message=OURS), None), (ended, None))
    assert begun is not None and (begun.stop, begun.is_queued) == ("gone", False)
    dropped = read_turn((PromptDropped(message=OURS, reason="no"), None))
    assert dropped is not None and (dropped.stop, dropped.reason) == ("cancelled", "no")
    assert read_turn((TurnEnded(stop="end_turn"), "t9")) is None


def report(name: str, **fields: object) -> ContenderReport:
    return ContenderReport(contender=name, agent=name, **{"state": "passed", **fields})  # type: ignore[arg-type]


GOOD, BAD = CheckOutcome(name="x", passed=True), CheckOutcome(name="x", passed=False)


def test_contenders_are_ranked_by_the_rules_in_their_order():
    reports = [
        report("failed", state="failed", checks=(GOOD, GOOD)),
        report("large", checks=(GOOD, GOOD), added=9),
        report("small", checks=(GOOD, GOOD), added=1),
        report("unknown", checks=(GOOD, GOOD), added=1, seconds=0.1),
        report("dear", checks=(GOOD, GOOD), added=1, costs={"USD": 2.0}),
        report("cheap", checks=(GOOD, GOOD), removed=1, costs={"USD": 1.0}, seconds=5.0),
    ]
    names = [one.contender for one in rank_contenders(reports, ("checks", "diff", "cost"))]
    assert names == ["cheap", "dear", "small", "unknown", "large", "failed"]
    assert rank_contenders(reports[1:], ("time",))[-1].contender == "cheap"


def test_reports_are_literal():
    evil = "<script>alert(1)</script>|`x`\x1b[2J\n# head"
    reports = [
        report(evil, reason=evil, output=evil, checks=(CheckOutcome(name=evil, passed=True),))
    ]
    page = make_report_html(evil, reports, evil)
    assert "<script>alert" not in page and "&lt;script&gt;" in page and "\x1b" not in page
    words = make_report_markdown(evil, reports, "")
    assert "<script>" not in words.replace("    <script>", "") and "\x1b" not in words
    assert "\n# head" not in words
    assert words.splitlines()[4].count("|") - words.splitlines()[4].count("\\|") == 13
    (row,) = make_report_rows(reports)
    assert not any("\n" in cell or "\x1b" in cell for cell in row)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not XML"),
        (b"<html/>", "not a JUnit report"),
        (b"<testsuite>" * 3, "not XML"),
        (b'<!DOCTYPE a [<!ENTITY b "c">]><testsuite/>', "document type"),
        (b"<?xml version='1.0' encoding='nix'?><testsuite/>", "not XML"),
    ],
)
def test_a_report_that_is_none_is_refused(tmp_path: Path, data: bytes, words: str):
    path = tmp_path / "r.xml"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=words):
        read_junit(path)


def test_a_junit_report_is_read(tmp_path: Path):
    path = tmp_path / "r.xml"
    path.write_text(
        "<testsuites><testsuite><testcase name='a' classname='k'><error/></testcase>"
        "<testcase name='b'><skipped/></testcase></testsuite></testsuites>"
    )
    found = read_junit(path)
    assert (found.tests, found.failed) == (2, ("k.a",))
    link = tmp_path / "link.xml"
    link.symlink_to(path)
    with pytest.raises(ValueError, match="no report"):
        read_junit(link)


def test_names_of_agents_are_short_and_differ():
    long = make_agent_name("abcdef", "t" * 24 + ".12", "opencode")
    other = make_agent_name("abcdef", "t" * 24 + ".12", "openhands")
    assert len(long) <= 40 and long != other and long.endswith("-abcdef")
    assert make_agent_name("abcdef", "fix", "pi") == "fix-pi-abcdef"
