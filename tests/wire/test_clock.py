"""One module reads and writes wall time."""

import ast
import time
from datetime import timedelta
from pathlib import Path

import pytest

import quarterdeck
from quarterdeck.wire.clock import (
    format_iso_time,
    format_local_time,
    format_utc_time,
    read_wall_clock,
    read_wall_seconds,
)

READERS = {"time_ns", "strftime", "localtime", "gmtime", "fromtimestamp", "utcnow"}
HOME = "wire/clock.py"
OTHERS = {
    "testing/model_server.py": "seconds in the log of requests, as vendors write them",
}
_MOMENT = 1_700_000_000_123_456


def test_nothing_else_reads_or_formats_wall_time():
    package = Path(quarterdeck.__file__).parent
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if reads_wall_time(path.read_text(encoding="utf-8"))
    }
    assert HOME in found
    assert found - {HOME} <= OTHERS.keys()


def reads_wall_time(code: str) -> bool:
    if "time" not in code and not any(name in code for name in READERS):
        return False
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Attribute(attr=name) if name in READERS:
                return True
            case ast.Call(func=ast.Attribute(value=ast.Name(id="time"), attr="time"), args=[]):
                return True
            case ast.Call(func=ast.Attribute(value=ast.Name(id="datetime"), attr="now")):
                return True
            case ast.ImportFrom(module="time", names=names):
                if READERS & {each.name for each in names}:
                    return True
            case _:
                pass
    return False


def test_the_clock_counts_microseconds_since_the_epoch():
    before = time.time_ns() // 1_000
    assert before <= read_wall_clock() <= time.time_ns() // 1_000
    assert abs(read_wall_seconds() - before / 1_000_000) < 60


def test_times_are_written_in_utc():
    assert format_utc_time(_MOMENT) == "2023-11-14 22:13:20"
    assert format_iso_time(_MOMENT) == "2023-11-14T22:13:20.123456Z"
    assert format_iso_time(_MOMENT - 123_456) == "2023-11-14T22:13:20Z"


def test_times_are_written_where_the_user_is(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        shifted = _MOMENT + timedelta(hours=9) // timedelta(microseconds=1)
        assert format_local_time(_MOMENT, "%d %H:%M") == format_utc_time(shifted, "%d %H:%M")
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("moment", [10**20, -(10**20)])
def test_a_moment_of_no_calendar_is_empty(moment: int):
    assert format_utc_time(moment) == ""
    assert format_local_time(moment) == ""
