"""A tool call in words, whatever its agent calls it."""

from typing import Any

import pytest

from quarterdeck.wire.content import text
from quarterdeck.wire.event_text import (
    describe_call,
    describe_event,
    describe_exit,
    find_exit_status,
)
from quarterdeck.wire.events import ToolCallEnded
from quarterdeck.wire.ids import ToolCallId
from quarterdeck.wire.tool_calls import ContentItem

CALL = ToolCallId("call_1")


@pytest.mark.parametrize(
    ("title", "name", "kind", "words"),
    [
        ("Read src/a.py", "read", "read", ("read src/a.py", "reading src/a.py")),
        ("src/a.py", "edit", "edit", ("edited src/a.py", "editing src/a.py")),
        ("edit: src/a.py", "edit", "edit", ("edited src/a.py", "editing src/a.py")),
        ("find . -name x", "bash", "execute", ("find . -name x", "find . -name x")),
        ("Search the web: cats", "web_search", "fetch",
         ("searched the web: cats", "searching the web: cats")),
        ("", "bash", "execute", ("bash", "bash")),
        ("", None, "other", ("", "")),
        ("Reader of all", "x", "other", ("x Reader of all", "x Reader of all")),
        ("scribe", "wait_for", "other", ("wait for scribe", "wait for scribe")),
        ("Read", "Read", "read", ("read", "reading")),
        ("read tides.py", "fake", "read", ("read tides.py", "reading tides.py")),
    ],
)  # fmt: skip
def test_a_call_has_a_verb_and_an_object(title: str, name: Any, kind: str, words: tuple[str, str]):
    over = describe_call(title, name=name, kind=kind)
    running = describe_call(title, name=name, kind=kind, tense="present")
    assert (over.words, running.words) == words


def test_a_call_that_failed_has_done_nothing():
    wanted = describe_call("edit src/a.py", name="edit", kind="edit", tense="wanted")
    assert wanted.words == "edit src/a.py"


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        ({"exit_code": 0}, "0"), ({"exit_code": 2}, "2"), ({"exitCode": -9}, "-9"),
        ({"exit_code": None, "signal": "SIGTERM"}, "SIGTERM"), ({"exit_code": True}, None),
        ({"exit_code": [1]}, None), ("exit 1", None), (None, None), ([1], None),
    ],
)  # fmt: skip
def test_the_end_of_a_call_says_how_its_command_ended(raw: Any, status: str | None):
    assert find_exit_status(ToolCallEnded(call=CALL, status="completed", raw_output=raw)) == status


def test_an_exit_code_in_the_text_of_a_call_that_failed_counts():
    def ended(status: Any, words: str) -> ToolCallEnded:
        return ToolCallEnded(call=CALL, status=status, content=(ContentItem(content=text(words)),))

    assert find_exit_status(ended("failed", "Exit code 127\nnot found")) == "127"
    assert find_exit_status(ended("failed", "it says: Exit code 1")) is None
    assert find_exit_status(ended("completed", "Exit code 1")) is None  # printed, perhaps


@pytest.mark.parametrize(
    ("status", "words"),
    [(None, ""), ("0", ""), ("1", "exit 1"), ("-9", "exit -9"), ("SIGINT",) * 2],
)
def test_only_a_bad_end_has_words(status: str | None, words: str):
    assert describe_exit(status) == words


def test_a_command_that_failed_is_no_success_in_any_output():
    failed = ToolCallEnded(call=CALL, status="completed", raw_output={"exit_code": 1})
    assert describe_event(failed) == ("warning", "call failed, exit 1")
    good = ToolCallEnded(call=CALL, status="completed", raw_output={"exit_code": 0})
    assert describe_event(good) == ("info", "call completed")
