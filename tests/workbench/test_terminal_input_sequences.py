"""What a key or the mouse sends to the program in a terminal."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._xterm_parser import XTermParser
from textual.events import Key

from quarterdeck.terminal.emulator.api import TerminalModes
from quarterdeck.workbench.launch import register_alt_keys
from quarterdeck.workbench.terminal.input_sequences import (
    MouseAction,
    MouseKind,
    encode_key,
    encode_mouse,
)

PLAIN, CURSOR = TerminalModes(), TerminalModes(application_cursor=True)
KITTY, ALL = TerminalModes(kitty_keyboard=1), TerminalModes(kitty_keyboard=1 | 8 | 16)


@pytest.mark.parametrize(
    ("key", "character", "modes", "sent"),
    [
        ("a", "a", PLAIN, b"a"),
        ("A", "A", PLAIN, b"A"),
        ("full_stop", ".", PLAIN, b"."),
        ("ü", "ü", PLAIN, "ü".encode()),
        ("你", "你", PLAIN, "你".encode()),
        ("space", " ", PLAIN, b" "),
        ("enter", "\r", PLAIN, b"\r"),
        ("tab", "\t", PLAIN, b"\t"),
        ("shift+tab", None, PLAIN, b"\x1b[Z"),
        ("escape", "\x1b", PLAIN, b"\x1b"),
        ("backspace", "\x7f", PLAIN, b"\x7f"),
        ("backspace", "\x08", PLAIN, b"\x08"),
        ("alt+backspace", None, PLAIN, b"\x1b\x7f"),
        ("ctrl+a", "\x01", PLAIN, b"\x01"),
        ("ctrl+a", None, PLAIN, b"\x01"),
        ("ctrl+j", "\n", PLAIN, b"\n"),
        ("ctrl+@", "\x00", PLAIN, b"\x00"),
        ("ctrl+space", None, PLAIN, b"\x00"),
        ("ctrl+backslash", "\x1c", PLAIN, b"\x1c"),
        ("ctrl+right_square_bracket", "\x1d", PLAIN, b"\x1d"),
        ("ctrl+circumflex_accent", "\x1e", PLAIN, b"\x1e"),
        ("ctrl+underscore", "\x1f", PLAIN, b"\x1f"),
        ("ctrl+slash", None, PLAIN, b"\x1f"),
        ("alt+x", "x", PLAIN, b"\x1bx"),
        ("alt+full_stop", None, PLAIN, b"\x1b."),
        ("alt+shift+x", "X", PLAIN, b"\x1bX"),
        ("alt+ctrl+b", None, PLAIN, b"\x1b\x02"),
        ("shift+enter", None, PLAIN, b"\r"),
        ("alt+enter", None, PLAIN, b"\x1b\r"),
        ("up", None, PLAIN, b"\x1b[A"),
        ("up", None, CURSOR, b"\x1bOA"),
        ("shift+up", None, CURSOR, b"\x1b[1;2A"),
        ("ctrl+left", None, PLAIN, b"\x1b[1;5D"),
        ("home", None, PLAIN, b"\x1b[H"),
        ("end", None, CURSOR, b"\x1bOF"),
        ("pageup", None, PLAIN, b"\x1b[5~"),
        ("delete", None, PLAIN, b"\x1b[3~"),
        ("ctrl+delete", None, PLAIN, b"\x1b[3;5~"),
        ("f1", None, PLAIN, b"\x1bOP"),
        ("shift+f1", None, PLAIN, b"\x1b[1;2P"),
        ("f5", None, PLAIN, b"\x1b[15~"),
        ("f12", None, PLAIN, b"\x1b[24~"),
        ("ctrl+f12", None, PLAIN, b"\x1b[24;5~"),
        ("f13", None, PLAIN, b"\x1b[25~"),
        ("left_shift", None, PLAIN, b""),
        ("media_play", None, PLAIN, b""),
        ("a", "a", KITTY, b"a"),
        ("escape", "\x1b", KITTY, b"\x1b[27u"),
        ("enter", "\r", KITTY, b"\r"),
        ("shift+enter", None, KITTY, b"\x1b[13;2u"),
        ("shift+tab", None, KITTY, b"\x1b[9;2u"),
        ("ctrl+i", None, KITTY, b"\x1b[105;5u"),
        ("ctrl+c", "\x03", KITTY, b"\x1b[99;5u"),
        ("alt+x", "x", KITTY, b"\x1b[120;3u"),
        ("f3", None, KITTY, b"\x1b[13~"),
        ("f1", None, KITTY, b"\x1b[P"),
        ("f13", None, KITTY, b"\x1b[57376u"),
        ("up", None, TerminalModes(kitty_keyboard=1, application_cursor=True), b"\x1b[A"),
        ("a", "a", ALL, b"\x1b[97;;97u"),
        ("A", "A", ALL, b"\x1b[97;2;65u"),
        ("enter", "\r", ALL, b"\x1b[13u"),
        ("caps_lock", None, KITTY, b"\x1b[57358u"),
    ],
)
def test_a_key_is_sent_as_the_program_asked(
    key: str, character: str | None, modes: TerminalModes, sent
):
    assert encode_key(key, character, modes) == sent


def parsed(sequence: str) -> list[Key]:
    """What Textual makes of what a plain terminal sends."""
    keys = list(XTermParser()._sequence_to_key_events(sequence))
    return [key for key in keys if key.key != "<ignore>"]


def test_what_a_plain_terminal_sends_arrives_as_it_was_sent():
    same = [chr(code) for code in range(1, 127) if chr(code) != "\x1b"]
    same += ["\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D", "\x1b[H", "\x1b[F", "\x1b[Z", "\x1b[5~"]
    same += ["\x1b[6~", "\x1b[2~", "\x1b[3~", "\x1bOP", "\x1bOQ", "\x1bOR", "\x1bOS", "\x1b[15~"]
    same += [f"\x1b[{n}~" for n in (17, 18, 19, 20, 21, 23, 24)]
    same += [f"\x1b[1;{n}A" for n in range(2, 9)]
    for sequence in same:
        keys = parsed(sequence)
        sent = b"".join(encode_key(key.key, key.character, PLAIN) for key in keys)
        assert sent == sequence.encode(), (sequence, keys)


NAMES = sorted(
    {key.value for keys in ANSI_SEQUENCES_KEYS.values() if isinstance(keys, tuple) for key in keys}
)
MODES = st.builds(
    TerminalModes,
    application_cursor=st.booleans(),
    kitty_keyboard=st.integers(0, 31),
    focus=st.booleans(),
)
ANY_KEY = st.one_of(
    st.sampled_from(NAMES),
    st.text(min_size=1, max_size=12),
    st.builds(
        "+".join, st.lists(st.sampled_from(["ctrl", "alt", "shift", "super", "x", "f1", ""]))
    ),
)


@settings(deadline=None, max_examples=300)
@given(ANY_KEY, st.none() | st.characters(), MODES)
def test_any_key_becomes_one_whole_sequence_or_nothing(key: str, character, modes: TerminalModes):
    sent = encode_key(key, character, modes)
    text = sent.decode("utf-8", "strict")
    whole = r"|.|\x1b.|\x1b?[\x00-\x1f\x7f]|\x1bO[A-S]|\x1b\[[0-9;:]*[A-HP-SZu~]"
    assert re.fullmatch(whole, text, re.DOTALL), (key, text)


def test_keys_with_alt_are_known_at_once_also_two_in_a_row(monkeypatch: pytest.MonkeyPatch):
    table = dict(ANSI_SEQUENCES_KEYS)
    monkeypatch.setattr("textual._ansi_sequences.ANSI_SEQUENCES_KEYS", table)
    monkeypatch.setattr("textual._xterm_parser.ANSI_SEQUENCES_KEYS", table)
    register_alt_keys()
    written = "\x1bd\x1bd\x1b.\x1bX\x1b[A"
    keys = [one for one in XTermParser().feed(written) if isinstance(one, Key)]
    assert [key.key for key in keys] == ["alt+d", "alt+d", "alt+full_stop", "alt+shift+x", "up"]
    assert b"".join(encode_key(k.key, k.character, PLAIN) for k in keys) == written.encode()


def mouse(kind: MouseKind, column=4, row=2, **more) -> MouseAction:
    return MouseAction(kind=kind, column=column, row=row, **more)


def test_the_mouse_is_told_as_the_program_asked():
    sgr = TerminalModes(mouse="press", mouse_sgr=True)
    assert encode_mouse(mouse("press", button=1), sgr) == b"\x1b[<0;5;3M"
    assert encode_mouse(mouse("release", button=3), sgr) == b"\x1b[<2;5;3m"
    assert encode_mouse(mouse("up"), sgr) == b"\x1b[<64;5;3M"
    assert encode_mouse(mouse("down", ctrl=True, shift=True), sgr) == b"\x1b[<85;5;3M"
    assert encode_mouse(mouse("move", button=1), sgr) == b""
    drag = TerminalModes(mouse="drag", mouse_sgr=True)
    assert encode_mouse(mouse("move", button=1), drag) == b"\x1b[<32;5;3M"
    assert encode_mouse(mouse("move"), drag) == b""
    assert (
        encode_mouse(mouse("move"), TerminalModes(mouse="any", mouse_sgr=True)) == b"\x1b[<35;5;3M"
    )
    assert encode_mouse(mouse("press", button=1), TerminalModes()) == b""
    old = TerminalModes(mouse="press")
    assert encode_mouse(mouse("press", button=2), old) == b"\x1b[M\x21\x25\x23"
    assert encode_mouse(mouse("release", button=2), old) == b"\x1b[M\x23\x25\x23"
    assert encode_mouse(mouse("press", column=400, button=1), old) == b""


@settings(deadline=None, max_examples=200)
@given(
    st.builds(
        MouseAction,
        kind=st.sampled_from(["press", "release", "move", "up", "down", "left", "right"]),
        column=st.integers(0, 1000),
        row=st.integers(0, 1000),
        button=st.integers(0, 3),
        shift=st.booleans(),
        alt=st.booleans(),
        ctrl=st.booleans(),
    ),
    st.builds(
        TerminalModes, mouse=st.sampled_from(["", "press", "drag", "any"]), mouse_sgr=st.booleans()
    ),
)
def test_any_deed_of_the_mouse_is_one_sequence_or_nothing(deed: MouseAction, modes: TerminalModes):
    sent = encode_mouse(deed, modes)
    old = len(sent) == 6 and sent[:3] == b"\x1b[M" and min(sent[3:]) >= 32
    assert not sent or old or re.fullmatch(rb"\x1b\[<\d+;\d+;\d+[Mm]", sent)
    assert modes.mouse or not sent
