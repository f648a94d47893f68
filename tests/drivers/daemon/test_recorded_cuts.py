"""Recorded streams, cut at any place: after a new connection all is told, and all of it once."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import pytest

from quarterdeck.drivers.daemon.codex.events import CodexServerReader
from quarterdeck.drivers.daemon.opencode.events import OpencodeServerReader
from quarterdeck.net.sse import EventDecoder
from tests.drivers.daemon.test_daemon_replay import Turns, lines
from tests.support.captures import Replay

MISSED = (0, 1, 4)
"""How many events go by before there is a new connection."""


class Facts(NamedTuple):
    """What must not change."""

    text: str
    thoughts: int
    calls: tuple[Any, ...]
    outcome: Any


def facts(turn: Replay) -> Facts:
    return Facts(turn.text, turn.messages, tuple(turn.calls), turn.outcome)


class Recorded(NamedTuple):
    """The first turn of a recording of opencode."""

    session: str
    prompt: str
    events: tuple[dict[str, Any], ...]
    frames: tuple[bytes, ...]


@cache
def recorded(scene: str) -> Recorded:
    told = lines(f"opencode-1.18.33/daemon/{scene}")
    session = next(
        line["body"]["id"]
        for line in told
        if line["dir"] == "a2c" and line["http"] == ["POST", "/session"]
    )
    events: list[dict[str, Any]] = []
    prompt = ""
    for line in told:
        event = line.get("msg") or {}
        info = (event.get("properties") or {}).get("info") or {}
        if event.get("type") == "message.updated" and info.get("role") == "user" and not prompt:
            prompt = info["id"]
        if event:
            events.append(event)
        if prompt and event.get("type") == "session.idle":
            break
    frames = [b"data: " + json.dumps(one, ensure_ascii=False).encode() + b"\n\n" for one in events]
    return Recorded(session, prompt, tuple(events), tuple(frames))


def kept(events: tuple[dict[str, Any], ...], session: str) -> list[dict[str, Any]]:
    """What the server has written down after these events: pieces only when they are whole."""
    messages: dict[str, dict[str, Any]] = {}
    for event in events:
        told = event["properties"]
        if told.get("sessionID") != session:
            continue
        if event["type"] == "message.updated":
            entry = messages.setdefault(told["info"]["id"], {"info": {}, "parts": {}})
            entry["info"] = told["info"]
        elif event["type"] == "message.part.updated":
            messages[told["part"]["messageID"]]["parts"][told["part"]["id"]] = told["part"]
    return [
        {"info": one["info"], "parts": list(one["parts"].values())} for one in messages.values()
    ]


def listen(scene: str, cut: int | None = None, missed: int = 0) -> Facts:
    """Hear the turn, cut after so many bytes."""
    record = recorded(scene)
    reader, found = OpencodeServerReader("opencode", record.session), Turns()
    found.begin()
    reader.begin_turn(record.prompt)

    def hear(data: bytes) -> None:
        for event in EventDecoder().feed(data):
            said = json.loads(event.data)
            for one, _ in reader.read(said["type"], said["properties"]):
                found.hear(one)

    stream = b"".join(record.frames)
    hear(stream[:cut])
    if cut is not None:
        resumed, size = 0, 0
        while resumed < len(record.frames) and size < cut:
            size += len(record.frames[resumed])
            resumed += 1
        resumed = min(resumed + missed, len(record.frames))
        reader.gap()
        before = record.events[:resumed]
        for one, _ in reader.catch_up(kept(before, record.session)):
            found.hear(one)
        if any(one["type"] == "session.idle" for one in before):
            reader.is_over = True
        hear(b"".join(record.frames[resumed:]))
    assert reader.is_over
    found.end(reader.outcome())
    return facts(found.turns[0])


@pytest.mark.parametrize("scene", ["text", "approve"])
def test_opencode_cut_anywhere(scene: str):
    whole = listen(scene)
    assert whole.text and whole.outcome.usage is not None
    size = sum(map(len, recorded(scene).frames))
    for cut in range(1, size, 37):
        assert listen(scene, cut, MISSED[cut % 3]) == whole, cut


@pytest.mark.stress
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("scene", ["text", "approve", "reject"])
def test_opencode_cut_at_every_byte(scene: str):
    whole = listen(scene)
    for cut in range(1, sum(map(len, recorded(scene).frames))):
        for missed in MISSED:
            assert listen(scene, cut, missed) == whole, (cut, missed)


def told_by_codex(scene: str) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """The notifications of each turn."""
    turn: list[tuple[str, dict[str, Any]]] | None = None
    for line in lines(f"codex-0.166.0/daemon/{scene}"):
        said = line.get("msg") or {}
        method, params = said.get("method"), said.get("params") or {}
        if line["dir"] == "c2a" and method == "turn/start":
            turn = []
        elif line["dir"] == "a2c" and method and "id" not in said and turn is not None:
            turn.append((method, params))
            if method == "turn/completed":
                yield turn
                turn = None


def listen_to_codex(
    told: list[tuple[str, dict[str, Any]]], cut: int | None = None, missed: int = 0
) -> Facts:
    reader, found = CodexServerReader("codex"), Turns()
    found.begin()
    reader.begin_thread()
    reader.begin_turn()

    def hear(part: list[tuple[str, dict[str, Any]]]) -> None:
        for method, params in part:
            for event in reader.read(method, params):
                found.hear(event)

    *told, (_, completed) = told
    hear(told[:cut])
    if cut is not None:
        resumed = min(cut + missed, len(told))
        reader.gap()
        figures = [params for method, params in told[:resumed] if "tokenUsage" in method]
        hear([("thread/tokenUsage/updated", figures[-1])] if figures else [])
        for method, params in told[:resumed]:
            if method == "item/completed" and params["item"]["type"] != "userMessage":
                for event in reader.catch_up(params["item"]):
                    found.hear(event)
        hear(told[resumed:])
    found.end(reader.outcome(completed["turn"]))
    return facts(found.turns[0])


@pytest.mark.parametrize("scene", ["text", "approve", "decline"])
def test_codex_cut_between_any_two_messages(scene: str):
    for turn in told_by_codex(scene):
        whole = listen_to_codex(turn)
        assert whole.outcome.usage is not None
        for cut in range(len(turn)):
            for missed in (0, 1, 3, 9):
                assert listen_to_codex(turn, cut, missed) == whole, (cut, missed)
