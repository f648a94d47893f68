"""What a terminal does, case by case, by the manuals of the VT100, the VT220 and xterm.

Each case: what is written to an empty screen of 10 columns and 4 rows, and what is to be seen, or
answered. ``avt`` says why the second emulator does something else.
"""

# A table: a case is a line.
# ruff: noqa: E501

from dataclasses import dataclass, field
from typing import Any

from quarterdeck.terminal.emulator import Style

__all__ = ["CASES", "COLUMNS", "ROWS", "Case"]

COLUMNS, ROWS = 10, 4
FILL = b"0123456789\r\nabcdefghij\r\nABCDEFGHIJ\r\nklmnopqrst"
DIGITS = "0123456789"


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    written: bytes
    rows: list[str] | None = None
    """From the top; what is missing is blank."""
    cursor: tuple[int, int] | None = None
    """Column and row, from 0."""
    answer: bytes | None = None
    style: Style | None = None
    """Of the first character."""
    modes: dict[str, Any] = field(default_factory=dict[str, Any])
    title: str | None = None
    above: list[str] | None = None
    avt: str = ""


def case(name: str, written: bytes, rows: list[str] | None = None, **more: Any) -> Case:
    return Case(name=name, written=written, rows=rows, **more)


MOVING = [
    case("CUP", b"\x1b[2;3Hx", ["", "  x"], cursor=(3, 1)),
    case("CUP without numbers is home", b"abc\x1b[HX", ["Xbc"]),
    case("CUP stops at the edges", b"\x1b[99;99Hx", ["", "", "", " " * 9 + "x"]),
    case("CUP takes 0 for 1", b"\x1b[0;0Hx", ["x"]),
    case("HVP", b"\x1b[2;3fx", ["", "  x"]),
    case("CUU", b"\x1b[4;1H\x1b[2Ax", ["", "x"]),
    case("CUD", b"\x1b[2Bx", ["", "", "x"]),
    case("CUF", b"\x1b[3Cx", ["   x"]),
    case("CUB", b"abc\x1b[2DX", ["aXc"]),
    case("CUU stops at the top", b"\x1b[99Ax", ["x"]),
    case("CNL", b"abc\x1b[2Ex", ["abc", "", "x"]),
    case("CPL", b"\x1b[3;5H\x1b[2Fx", ["x"]),
    case("CHA", b"abc\x1b[6Gx", ["abc  x"]),
    case("VPA", b"abc\x1b[3dx", ["abc", "", "   x"]),
    case("HPR", b"a\x1b[3ax", ["a   x"]),
    case("VPR", b"\x1b[2ex", ["", "", "x"]),
    case("HPA", b"abc\x1b[6`x", ["abc  x"]),
    case("BS stops at the left", b"a\b\b\bX", ["X"]),
    case("CR and LF", b"abc\rX\nY", ["Xbc", " Y"]),
    case("VT and FF are line feeds", b"a\x0bb\x0cc", ["a", " b", "  c"]),
    case("LF at the end scrolls", FILL + b"\nx", ["abcdefghij", "ABCDEFGHIJ", "klmnopqrst", " " * 9 + "x"], avt="it goes on waiting to wrap"),
    case("IND", b"a\x1bDb", ["a", " b"]),
    case("NEL", b"a\x1bEb", ["a", "b"]),
    case("RI", b"\r\na\x1bMb", [" b", "a"]),
    case("RI at the top scrolls down", b"a\r\nb\x1b[H\x1bMx", ["x", "a", "b"]),
]  # fmt: skip

WRAPPING = [
    case("the last column waits", b"0123456789", [DIGITS], cursor=(9, 0)),
    case("the next character wraps", b"0123456789x", [DIGITS, "x"], cursor=(1, 1)),
    case("CR ends the wait", b"0123456789\rX", ["X123456789"]),
    case("BS ends the wait, one to the left", b"0123456789\bX", ["01234567X9"]),
    case("CUP ends the wait", b"0123456789\x1b[1;10HX", ["012345678X"]),
    case("a colour does not end the wait", b"0123456789\x1b[31mx", [DIGITS, "x"]),
    case("erasing ends the wait", b"0123456789\x1b[KX", ["012345678X"], avt="it goes on waiting"),
    case("LF keeps the column", b"0123456789\nx", [DIGITS, " " * 9 + "x"]),
    case("without autowrap the last one is written over", b"\x1b[?7l0123456789abc", ["012345678c"]),
    case("a wide one at the margin wraps whole", "012345678你".encode(), ["012345678", "你"], cursor=(2, 1)),
    case("a wide one in the last two columns", "01234567你x".encode(), ["01234567你", "x"]),
    case("over the first half of a wide one", "你b\x1b[1;1Hx".encode(), ["x b"]),
    case("over the second half of a wide one", "你b\x1b[1;2Hx".encode(), [" xb"]),
    case("DECALN", b"\x1b#8", ["E" * 10] * 4, cursor=(0, 0)),
]  # fmt: skip

MARGINS = [
    case("scrolling within margins", FILL + b"\x1b[2;3r\x1b[3;1H\nX", [DIGITS, "ABCDEFGHIJ", "X", "klmnopqrst"]),
    case("setting margins goes home", b"abc\x1b[2;3rX", ["Xbc"]),
    case("margins that are none are ignored", b"abc\x1b[3;2rX", ["abcX"], avt="it goes home"),
    case("RI at the top margin", FILL + b"\x1b[2;3r\x1b[2;1H\x1bMX", [DIGITS, "X", "abcdefghij", "klmnopqrst"]),
    case("LF below the margins does not scroll", FILL + b"\x1b[1;2r\x1b[4;1H\nX", [DIGITS, "abcdefghij", "ABCDEFGHIJ", "Xlmnopqrst"]),
    case("CUU stops at the top margin", b"\x1b[2;4r\x1b[4;1H\x1b[9AX", ["", "X"]),
    case("CUD stops at the bottom margin", b"\x1b[1;3r\x1b[1;1H\x1b[9BX", ["", "", "X"]),
    case("origin mode counts from the margin", b"\x1b[2;3r\x1b[?6h\x1b[1;1HX", ["", "X"]),
    case("origin mode stays within", b"\x1b[2;3r\x1b[?6h\x1b[9;1HX", ["", "", "X"]),
    case("origin mode off goes home", b"\x1b[2;3r\x1b[?6h\x1b[?6lX", ["X"]),
    case("CPR counts from the margin", b"\x1b[2;3r\x1b[?6h\x1b[2;2H\x1b[6n", answer=b"\x1b[2;2R", avt="counts from the top"),
    case("SU", FILL + b"\x1b[2S", ["ABCDEFGHIJ", "klmnopqrst"]),
    case("SD", FILL + b"\x1b[2T", ["", "", DIGITS, "abcdefghij"]),
    case("SU within margins", FILL + b"\x1b[2;3r\x1b[S", [DIGITS, "ABCDEFGHIJ", "", "klmnopqrst"]),
    case("what scrolls off is kept above", FILL + b"\r\n", above=[DIGITS]),
    case("what leaves margins is not kept", FILL + b"\x1b[2;3r\x1b[3;1H\n", above=[]),
    case("left and right margins", b"\x1b[?69h\x1b[3;5s\x1b[1;3Habcde", ["  abc", "  de"], avt="it knows no DECSLRM"),
]  # fmt: skip

EDITING = [
    case("ICH", b"abcdef\x1b[1;3H\x1b[2@", ["ab  cdef"]),
    case("ICH pushes off the end", b"0123456789\x1b[1;1H\x1b[3@", ["   0123456"]),
    case("DCH", b"abcdef\x1b[1;3H\x1b[2P", ["abef"]),
    case("ECH", b"abcdef\x1b[1;3H\x1b[2X", ["ab  ef"]),
    case("IL", FILL + b"\x1b[2;1H\x1b[L", [DIGITS, "", "abcdefghij", "ABCDEFGHIJ"]),
    case("DL", FILL + b"\x1b[2;1H\x1b[M", [DIGITS, "ABCDEFGHIJ", "klmnopqrst"]),
    case("IL within margins", FILL + b"\x1b[2;3r\x1b[2;1H\x1b[L", [DIGITS, "", "abcdefghij", "klmnopqrst"]),
    case("IL outside margins does nothing", FILL + b"\x1b[2;3r\x1b[4;1H\x1b[L", [DIGITS, "abcdefghij", "ABCDEFGHIJ", "klmnopqrst"], avt="it inserts"),
    case("insert mode", b"abc\x1b[1;1H\x1b[4hX\x1b[4lY", ["XYbc"]),
    case("REP", b"ab\x1b[3b", ["abbbb"]),
    case("EL to the end", b"abcdef\x1b[1;3H\x1b[K", ["ab"]),
    case("EL to the beginning", b"abcdef\x1b[1;3H\x1b[1K", ["   def"]),
    case("EL all", b"abcdef\x1b[1;3H\x1b[2K", [""], cursor=(2, 0)),
    case("ED to the end", FILL + b"\x1b[2;3H\x1b[J", [DIGITS, "ab"]),
    case("ED to the beginning", FILL + b"\x1b[2;3H\x1b[1J", ["", "   defghij", "ABCDEFGHIJ", "klmnopqrst"]),
    case("ED all leaves the cursor", FILL + b"\x1b[2;3H\x1b[2J", [""], cursor=(2, 1)),
    case("ED of what is above", FILL + b"\r\n\r\n\x1b[3J", ["ABCDEFGHIJ", "klmnopqrst"], above=[], avt="it keeps it"),
    case("erased is coloured", b"\x1b[44m\x1b[K\x1b[m", [""], style=Style(background=4)),
    case("DECSED leaves what is protected", b'\x1b[1"qab\x1b[0"qcd\x1b[?2J', ["ab"], avt="it knows no protection"),
]  # fmt: skip

TABS = [
    case("HT", b"a\tb", ["a       b"]),
    case("HT stops at the end", b"\t\t\tx", [" " * 9 + "x"]),
    case("HTS", b"\x1b[1;4H\x1bH\r\tx", ["   x"]),
    case("TBC here", b"\x1b[1;4H\x1bH\x1b[0g\r\tx", [" " * 8 + "x"]),
    case("TBC without a number", b"\x1b[1;4H\x1bH\x1b[g\r\tx", [" " * 8 + "x"]),
    case("TBC all", b"\x1b[3g\r\tx", [" " * 9 + "x"]),
    case("CHT", b"\x1b[1;3H\x1bH\x1b[1;5H\x1bH\r\x1b[2Ix", ["    x"]),
    case("CBT", b"\x1b[1;10H\x1b[Zx", [" " * 8 + "x"]),
]

SAVING = [
    case("DECSC and DECRC", b"\x1b[2;3H\x1b7\x1b[HX\x1b8Y", ["X", "  Y"]),
    case("DECRC brings the colour back", b"\x1b[31m\x1b7\x1b[m\x1b8x", ["x"], style=Style(foreground=1)),
    case("DECRC without DECSC is home", b"abc\x1b8X", ["Xbc"]),
    case("SCOSC and SCORC", b"\x1b[2;3H\x1b[s\x1b[HX\x1b[uY", ["X", "  Y"]),
    case("DECSC keeps the character set", b"\x1b(0\x1b7\x1b(B\x1b8q", ["─"], avt="it does not"),
]  # fmt: skip

SETS = [
    case("line drawing", b"\x1b(0lqkxmj\x1b(Bq", ["┌─┐│└┘q"]),
    case("G1 by SO and SI", b"\x1b)0q\x0eq\x0fq", ["q─q"]),
    case("UTF-8", "äöü€".encode(), ["äöü€"]),
    case("what is no UTF-8", b"a\xff\xfeb", ["a��b"]),
    case("half a character, then another", b"a\xe4\xbdb", ["a�b"]),
    case("a combined character is one", "e\u0301x".encode(), ["e\u0301x"], cursor=(2, 0), avt="it takes two columns"),
    case("a joined emoji is one", "👩\u200d👧x".encode(), ["👩\u200d👧x"], cursor=(3, 0), avt="it takes five columns"),
    case("a flag is one", "🇩🇪x".encode(), ["🇩🇪x"], cursor=(3, 0)),
    case("an emoji by its variation", "✈\ufe0fx".encode(), ["✈\ufe0fx"], cursor=(3, 0)),
    case("NUL and DEL show nothing", b"a\0\x7fb", ["ab"]),
]  # fmt: skip

LOOKS = [
    case("SGR attributes", b"\x1b[1;3;4;5;7;9mx", style=Style(bold=True, italic=True, underline=True, blink=True, inverse=True, strikethrough=True)),
    case("SGR faint", b"\x1b[2mx", style=Style(faint=True)),
    case("SGR invisible", b"\x1b[8mx", style=Style(invisible=True), avt="it knows no invisible text"),
    case("SGR off one by one", b"\x1b[1;3;4;5;7;9m\x1b[22;23;24;25;27;29mx", style=Style()),
    case("SGR 21 is underlined twice", b"\x1b[21mx", style=Style(underline=True), avt="it knows one underline"),
    case("SGR 4:3 is underlined", b"\x1b[4:3mx", style=Style(underline=True), avt="it knows one underline"),
    case("SGR 4:0 is not", b"\x1b[4m\x1b[4:0mx", style=Style(), avt="it knows one underline"),
    case("8 colours", b"\x1b[31;42mx", style=Style(foreground=1, background=2)),
    case("16 colours", b"\x1b[91;102mx", style=Style(foreground=9, background=10)),
    case("256 colours", b"\x1b[38;5;200;48;5;100mx", style=Style(foreground=200, background=100)),
    case("256 colours with colons", b"\x1b[38:5:200;48:5:100mx", style=Style(foreground=200, background=100)),
    case("24 bits", b"\x1b[38;2;1;2;3;48;2;4;5;6mx", style=Style(foreground=(1, 2, 3), background=(4, 5, 6))),
    case("24 bits with colons", b"\x1b[38:2::1:2:3mx", style=Style(foreground=(1, 2, 3))),
    case("24 bits with colons, no space", b"\x1b[38:2:1:2:3mx", style=Style(foreground=(1, 2, 3))),
    case("the underline's own colour", b"\x1b[4;58;5;3mx", style=Style(underline=True), avt="it takes 5 and 3 for attributes"),
    case("colours off", b"\x1b[31;42m\x1b[39;49mx", style=Style()),
    case("SGR 0", b"\x1b[1;31mx\x1b[H\x1b[mx", style=Style()),
]  # fmt: skip

SCREENS = [
    case("1049 there", b"main\x1b[?1049halt", ["    alt"], modes={"alternate_screen": True}),
    case("1049 and back", b"main\x1b[?1049h\x1b[Halt\x1b[?1049lX", ["mainX"], modes={"alternate_screen": False}),
    case("1049 begins empty again", b"\x1b[?1049hold\x1b[?1049l\x1b[?1049h", [""]),
    case("1047 and back", b"main\x1b[?1047h\x1b[Halt\x1b[?1047l", ["main"]),
    case("47 and back", b"main\x1b[?47h\x1b[Halt\x1b[?47l", ["main"]),
    case("the alternate one keeps nothing above", b"\x1b[?1049h" + FILL + b"\r\n\r\n", above=[]),
]  # fmt: skip

MODES = [
    case("bracketed paste", b"\x1b[?2004h", modes={"bracketed_paste": True}),
    case("application cursor", b"\x1b[?1h", modes={"application_cursor": True}),
    case("mouse presses", b"\x1b[?1000h", modes={"mouse": "press", "mouse_sgr": False}),
    case("mouse drags, as SGR", b"\x1b[?1002;1006h", modes={"mouse": "drag", "mouse_sgr": True}),
    case("mouse moves", b"\x1b[?1000;1003h", modes={"mouse": "any"}),
    case("no mouse", b"\x1b[?1003h\x1b[?1003l", modes={"mouse": ""}),
    case("focus", b"\x1b[?1004h", modes={"focus": True}),
    case("synchronized", b"\x1b[?2026h", modes={"synchronized": True}),
    case("synchronized off", b"\x1b[?2026h\x1b[?2026l", modes={"synchronized": False}),
    case("kitty push", b"\x1b[>5u", modes={"kitty_keyboard": 5}),
    case("kitty push and pop", b"\x1b[>5u\x1b[>1u\x1b[<u", modes={"kitty_keyboard": 5}),
    case("kitty pop too many", b"\x1b[>5u\x1b[<9u", modes={"kitty_keyboard": 0}),
    case("kitty set", b"\x1b[=3u", modes={"kitty_keyboard": 3}),
    case("RIS resets all", b"abc\x1b[31m\x1b[?2004;1003;1h\x1b[>5u\x1bcx", ["x"], style=Style(), modes={"bracketed_paste": False, "mouse": "", "application_cursor": False, "kitty_keyboard": 0}),
    case("DECSTR resets margins, origin, insert, pen", b"\x1b[2;3r\x1b[?6h\x1b[4h\x1b[31m\x1b[!p\x1b[1;1Hx", ["x"], style=Style()),
    case("DECSTR leaves the screen and pasting", b"abc\x1b[?2004h\x1b[!p", ["abc"], modes={"bracketed_paste": True}),
]  # fmt: skip

ASKING = [
    case("DSR", b"\x1b[5n", answer=b"\x1b[0n"),
    case("CPR", b"\x1b[2;3H\x1b[6n", answer=b"\x1b[2;3R"),
    case("CPR in the last column", b"0123456789\x1b[6n", answer=b"\x1b[1;10R"),
    case("DA1", b"\x1b[c", answer=b"\x1b[?62;22c"),
    case("DA2", b"\x1b[>c", answer=b"\x1b[>1;0;0c"),
    case("DECRQM of one that is off", b"\x1b[?2004$p", answer=b"\x1b[?2004;2$y"),
    case("DECRQM of one that is on", b"\x1b[?2026h\x1b[?2026$p", answer=b"\x1b[?2026;1$y"),
    case("DECRQM of one that is not known", b"\x1b[?9876$p", answer=b"\x1b[?9876;0$y"),
    case("kitty query", b"\x1b[>5u\x1b[?u", answer=b"\x1b[?5u"),
    case("size in characters", b"\x1b[18t", answer=b"\x1b[8;4;10t"),
    case("size in pixels", b"\x1b[14t", answer=b"\x1b[4;64;80t"),
    case("size of a character", b"\x1b[16t", answer=b"\x1b[6;16;8t"),
    case("foreground", b"\x1b]10;?\x1b\\", answer=b"\x1b]10;rgb:d0d0/d0d0/d0d0\x1b\\"),
    case("background", b"\x1b]11;?\x07", answer=b"\x1b]11;rgb:1010/1010/1010\x07"),
    case("dark or light", b"\x1b[?996n", answer=b"\x1b[?997;1n"),
    case("the clipboard is not told", b"\x1b]52;c;?\x07x", ["x"], answer=b""),
    case("the title is not told", b"\x1b]2;t\x07\x1b[21tx", ["x"], answer=b""),
    case("two at once", b"\x1b[5n\x1b[6n", answer=b"\x1b[0n\x1b[1;1R"),
]  # fmt: skip

STRINGS = [
    case("OSC 2", b"\x1b]2;a title\x07x", ["x"], title="a title"),
    case("OSC 0, ended by ST", "\x1b]0;ein Täfelchen\x1b\\x".encode(), ["x"], title="ein Täfelchen"),
    case("OSC 8", b"\x1b]8;;http://example.org\x1b\\link\x1b]8;;\x1b\\ no", ["link no"]),
    case("OSC 52 is not obeyed", b"\x1b]52;c;aGVsbG8=\x07x", ["x"], answer=b""),
    case("an OSC that nobody knows", b"\x1b]7777;anything\x07x", ["x"], answer=b""),
    case("DCS shows nothing", b"\x1bPqsixel\x1b\\x", ["x"]),
    case("APC shows nothing", b"\x1b_Gf=100;AAAA\x1b\\x", ["x"]),
    case("PM shows nothing", b"\x1b^private\x1b\\x", ["x"]),
    case("CAN ends a sequence", b"\x1b[3\x18x", ["x"]),
    case("ESC begins a new one", b"\x1b[3\x1b[2Cx", ["  x"]),
    case("controls within a sequence are obeyed", b"a\x1b[\r2Cx", ["a x"]),
    case("a sequence that nobody knows", b"\x1b[?99;99zx", ["x"]),
    case("132 columns are not", b"\x1b[?40h\x1b[?3hx", ["x"]),
]  # fmt: skip

CASES = [*MOVING, *WRAPPING, *MARGINS, *EDITING, *TABS, *SAVING, *SETS, *LOOKS, *SCREENS]
CASES += [*MODES, *ASKING, *STRINGS]
