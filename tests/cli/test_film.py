"""A film: what appears when, keys, and nothing that acts on a terminal or in a browser."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

from quarterdeck.cli.replay.film import (
    FilmFrame,
    FilmPlayer,
    make_frames,
    write_asciicast,
    write_html,
)
from quarterdeck.wire.content import text
from quarterdeck.wire.events import MessageChunk, Prompted, TurnEnded, TurnStarted
from quarterdeck.wire.ids import MessageId, SessionId
from quarterdeck.wire.record import Record

FRAMES = [FilmFrame(float(n), f"{n}\n") for n in range(0, 20, 4)]


def records(*events: object, step: int = 500_000) -> list[Record]:
    return [
        Record(seq=n + 1, time=10_000_000 + n * step, session=SessionId("ses_x"), event=event)  # type: ignore[arg-type]
        for n, event in enumerate(events)
    ]


def test_frames_keep_the_times_and_cut_long_pauses():
    said = (MessageChunk(content=text("Hel")), MessageChunk(content=text("lo\x1b[31m")))
    events = (Prompted(content=(text("hi"),), message=MessageId("m")), TurnStarted(), *said)
    frames = make_frames(records(*events, TurnEnded(stop="end_turn")))
    assert [frame.time for frame in frames] == [0.0, 0.5, 1.0, 1.5, 2.0]
    whole = "".join(frame.text for frame in frames)
    assert "hi" in whole and "Hello" in whole and "\x1b" not in whole
    slow = make_frames(records(*events, step=60_000_000))
    assert slow[-1].time == 6.0


def test_keys_pause_seek_and_change_the_speed():
    player = FilmPlayer(FRAMES)
    assert player.advance(0.0) == "0\n"
    assert player.wait() == 4.0
    assert player.advance(4.0) == "4\n"
    player.press(" ")
    assert player.wait() is None
    assert player.advance(100.0) == ""
    player.press(" ")
    assert player.press("right") == "8\n"
    assert player.press("left").endswith("0\n4\n")
    player.press("up")
    assert player.speed == 2.0 and player.wait() == 2.0
    player.press("down")
    player.press("down")
    assert player.speed == 0.5
    assert not player.is_over
    assert player.press("end") == "8\n12\n16\n"
    assert player.is_over
    assert FilmPlayer([]).is_over


def test_what_was_recorded_does_nothing_in_a_page():
    evil = "</script><img src=x onerror=alert(1)>&\u2028"
    frames = make_frames(records(MessageChunk(content=text(evil))))
    page = write_html(frames, title="<b>")
    assert page.count("<script>") == page.count("</script>") == 1
    assert "<img" not in page and "<b>" not in page
    header, event = write_asciicast(frames, title="x", began=5_000_000)
    assert json.loads(header)["timestamp"] == 5
    assert json.loads(event)[1:] == ["o", evil.replace("\u2028", "\\u2028")] or "\x1b" not in event


def test_a_terminal_plays_until_q(tmp_path: Path):
    code = (
        "import sys\n"
        "from quarterdeck.cli.replay.film import FilmFrame, play_film\n"
        "frames = [FilmFrame(0.0, 'first\\n'), FilmFrame(1e6, 'never\\n')]\n"
        "write = lambda t: (sys.stdout.write(t), sys.stdout.flush())\n"
        "play_film(frames, 1.0, write)\n"
        "print('done')\n"
    )
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=theirs, stdout=theirs, stderr=theirs, cwd=tmp_path
    )
    os.close(theirs)
    try:
        seen = b""
        while b"first" not in seen:
            seen += os.read(ours, 1000)
        os.write(ours, b" \x1b[D\x1b[Aq")
        while b"done" not in seen:
            seen += os.read(ours, 1000)
        assert child.wait(30) == 0
        assert b"never" not in seen
    finally:
        child.kill()
        child.wait()
        os.close(ours)
