"""Recorded turns of ``codex app-server`` 0.166.0 and ``opencode serve`` 1.18.33."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quarterdeck.drivers.daemon.codex.events import CodexServerReader
from quarterdeck.drivers.daemon.opencode.events import OpencodeServerReader
from quarterdeck.drivers.link import TurnOutcome
from quarterdeck.drivers.tool_calls import ToolCallNormalizer
from quarterdeck.wire.events import (
    Event,
    RateLimited,
    RetryScheduled,
    SessionChanged,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
    UnknownEvent,
)
from quarterdeck.wire.usage import TokenUsage
from tests.support.captures import Replay

CAPTURES = Path(__file__).parents[1] / "captures"
ONE = TokenUsage(input=11, output=7)
TWO = TokenUsage(input=22, output=14)


@dataclass
class Turns:
    """The turns of a recording, each by itself."""

    turns: list[Replay] = field(default_factory=list[Replay])
    ledger: ToolCallNormalizer = field(default_factory=lambda: ToolCallNormalizer("daemon"))

    def begin(self) -> None:
        self.turns.append(Replay())

    def hear(self, event: Event) -> None:
        match event:
            case ToolCallStarted():
                kept: Any = self.ledger.begin(event)
            case ToolCallUpdated():
                kept = self.ledger.update(event)
            case ToolCallEnded():
                kept = self.ledger.end(event)
            case _:
                kept = (event,)
        self.turns[-1].events += kept

    def end(self, outcome: TurnOutcome) -> None:
        self.turns[-1].outcome = outcome
        self.turns[-1].events += self.ledger.close("cancelled", "it did not say")


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (CAPTURES / f"{name}.jsonl").read_text().splitlines()]


def codex(scene: str) -> list[Replay]:
    reader, found = CodexServerReader("codex"), Turns()
    for line in lines(f"codex-0.166.0/daemon/{scene}"):
        said = line.get("msg") or {}
        method, params = said.get("method"), said.get("params") or {}
        if line["dir"] == "c2a" and method == "turn/start":
            found.begin()
            reader.begin_turn()
        elif line["dir"] == "a2c" and method == "turn/completed":
            found.end(reader.outcome(params["turn"]))
        elif line["dir"] == "a2c" and method and "id" not in said and found.turns:
            for event in reader.read(method, params):
                found.hear(event)
    return found.turns


def opencode(scene: str) -> list[Replay]:
    """Each prompt got its id from the server; what is heard before it is heard of is held back."""
    told = lines(f"opencode-1.18.33/daemon/{scene}")
    session = next(
        line["body"]["id"]
        for line in told
        if line["dir"] == "a2c" and line["http"] == ["POST", "/session"]
    )
    reader, found = OpencodeServerReader("opencode", session), Turns()
    for line in told:
        event = line.get("msg") or {}
        kind, said = event.get("type", ""), event.get("properties") or {}
        info = said.get("info") or {}
        is_ours = info.get("role") == "user" and info.get("sessionID") == session
        if kind == "message.updated" and is_ours and "summary" not in info and not reader.has_begun:
            found.begin()
            reader.begin_turn(info["id"])
        for one, _ in reader.read(kind, said):
            if found.turns:
                found.hear(one)
        if reader.is_over:
            found.end(reader.outcome())
            reader.end_turn()
            reader.has_begun = reader.is_over = False
    return found.turns


class TestCodex:
    def test_text_over_several_turns(self):
        turns = codex("text")
        assert turns[0].text == "Hello from the scripted model."
        assert turns[0].outcome == TurnOutcome(stop="end_turn", usage=ONE)
        assert all(turn.outcome.usage in (ONE, TWO) for turn in turns)
        assert not any(turn.all(UnknownEvent) for turn in turns)

    def test_what_was_allowed_ran(self):
        write, shell = codex("approve")
        assert write.calls == [("apply_patch", "edit", "completed")]
        assert shell.calls == [("shell", "execute", "completed")]
        (end,) = shell.all(ToolCallEnded)
        assert end.content[0].content.text == "scripted-output\n"
        (start,) = shell.all(ToolCallStarted)
        assert start.title == "touch made-by-shell.txt && echo scripted-output"
        assert write.outcome.usage == shell.outcome.usage == TWO

    def test_what_was_refused_failed(self):
        write, shell = codex("decline")
        assert [turn.calls[0][2] for turn in (write, shell)] == ["failed", "failed"]

    def test_a_limit_is_told_and_fails_the_turn(self):
        failed, after = codex("e429")
        assert "429" in (failed.outcome.reason or "") and failed.outcome.stop == "failed"
        assert len(failed.all(RateLimited)) == 1
        assert [retry.attempt for retry in failed.all(RetryScheduled)] == [2, 3]
        assert after.outcome == TurnOutcome(stop="end_turn", usage=ONE)

    def test_each_try_is_a_message_of_its_own(self):
        failed = codex("drop")[0]
        assert failed.text == "Before drop. " * 3 and failed.messages == 3

    def test_an_interrupted_call_is_ended_by_us(self):
        turn = codex("interrupt_tool")[0]
        assert turn.outcome.stop == "cancelled"
        assert [call[2] for call in turn.calls] == ["cancelled"]


class TestOpencode:
    def test_text_over_several_turns(self):
        turns = opencode("text")
        assert turns[0].text == "Hello from the scripted model."
        assert turns[0].outcome == TurnOutcome(stop="end_turn", usage=ONE)
        assert any(one.title == "A scripted title" for one in turns[0].all(SessionChanged))
        assert not any(turn.all(UnknownEvent) for turn in turns)

    def test_what_was_allowed_ran(self):
        write, shell = opencode("approve")
        assert write.calls == [("write", "edit", "completed")]
        assert shell.calls == [("bash", "execute", "completed")]
        assert write.text == "I will write a file.Wrote it. Done."
        assert write.outcome.usage == shell.outcome.usage == TWO

    def test_what_was_refused_failed(self):
        write, shell = opencode("reject")
        assert [turn.calls[0][2] for turn in (write, shell)] == ["failed", "failed"]
        assert write.outcome.usage == ONE

    def test_a_turn_is_aborted_and_the_next_runs(self):
        aborted, after = opencode("abort")
        assert aborted.outcome.stop in ("cancelled", "end_turn")
        assert after.text == "Hello from the scripted model."

    def test_retries_are_told(self):
        attempts = [retry.attempt for retry in opencode("e500")[0].all(RetryScheduled)]
        assert attempts == [2, 3, 4, 5, 6]
        broken = opencode("drop")[0]
        assert broken.text == "Before drop. " * 5 and broken.messages == 5

    def test_another_session_is_not_heard(self):
        (turn,) = opencode("two_sessions")
        assert turn.text == "".join(f"tick {number} " for number in range(16))
