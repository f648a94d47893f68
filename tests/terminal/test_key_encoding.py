"""What keys and pastes are to a program."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.terminal.emulator import TerminalModes
from quarterdeck.terminal.headless_terminal import encode_key, encode_paste, neutralize_controls

PLAIN, BRACKETS = TerminalModes(), TerminalModes(bracketed_paste=True)


@pytest.mark.parametrize(
    ("key", "modes", "data"),
    [
        ("enter", PLAIN, b"\r"),
        ("escape", PLAIN, b"\x1b"),
        ("escape", TerminalModes(kitty_keyboard=5), b"\x1b[27u"),
        ("ctrl+c", PLAIN, b"\x03"),
        ("ctrl+c", TerminalModes(kitty_keyboard=1), b"\x1b[99;5u"),
        ("up", PLAIN, b"\x1b[A"),
        ("up", TerminalModes(application_cursor=True), b"\x1bOA"),
        ("1", PLAIN, b"1"),
        ("é", PLAIN, "é".encode()),
    ],
)
def test_keys(key: str, modes: TerminalModes, data: bytes):
    assert encode_key(key, modes) == data


def test_an_unknown_key_is_named():
    with pytest.raises(ValueError, match="'hyper'"):
        encode_key("hyper", PLAIN)


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=200))
def test_nothing_in_a_paste_can_end_it(text: str):
    data = encode_paste(text, BRACKETS)
    assert data.startswith(b"\x1b[200~") and data.endswith(b"\x1b[201~")
    assert data.count(b"\x1b") == 2
    assert b"\x1b" not in encode_paste(text, PLAIN) and len(neutralize_controls(text)) <= len(text)


def test_plain_text_is_pasted_as_it_is():
    text = "two\nlines\tand 你好 🦀"
    assert encode_paste(text, BRACKETS)[6:-6].decode() == text.replace("\n", "\r")
