"""What a dialog is about: what its screen does not show for certain no rule and no mode allows."""

from pathlib import Path

import pytest

from quarterdeck.drivers.pty.patterns import RequestPatterns, load_patterns
from quarterdeck.drivers.pty.reader import TerminalReader, TerminalRequest, is_certain, named_files
from quarterdeck.policy.gate import Gate
from quarterdeck.policy.grammar import parse_rule
from quarterdeck.terminal.emulator import open_emulator
from quarterdeck.wire.events import PermissionAnswered
from tests.drivers.rigs.pty import RIGS
from tests.support.driver_rig import drive

LONG = "a-very-long-directory-name-number-one/" * 6 + "end.txt"
CLAUDE = """{line}
 {title}
 {path}
{dots}
  1 hello
{dots}
 Do you want to create it?
 ❯ 1. Yes
   2. Yes, and switch to accept edits for this session (shift+tab)
   3. No

 Esc to cancel · Tab to amend"""
CODEX = """  Would you like to make the following edits?

  Description: Apply proposed file edits

  Destination:{path}

› 1. Yes, proceed (y)
  2. Yes, and don't ask again for these files (a)
  3. No, and tell Codex what to do differently (esc)

  Press enter to confirm or esc to cancel"""
GEMINI = """╭{line}╮
│ ? {title:<90} │
│ │ 1 hello                                                                                │ │
│ Apply this change?                                                                         │
│                                                                                            │
│ ● 1. Allow once                                                                            │
│   2. Allow for this session                                                                │
│   3. No, suggest changes (esc)                                                             │
╰{line}╯"""


def asked(agent: str, form: str, **fields: str) -> TerminalRequest:
    """The request that a screen of an agent shows."""
    knowledge = load_patterns(agent)
    shown = form.format(line="─" * 92, dots="╌" * 92, **fields)
    screen = open_emulator(knowledge.columns, knowledge.rows)
    screen.feed(shown.replace("\n", "\r\n").encode())
    request = TerminalReader(knowledge).read(screen).request
    assert request is not None and request.kind == "edit", request
    return request


@pytest.mark.parametrize(
    ("path", "files"),
    [
        ("hello.txt", ("hello.txt",)),
        ("../../w/outside/x.txt", ("../../w/outside/x.txt",)),
        ("two  blanks.txt", ("two  blanks.txt",)),
        ("…very-long-directory-name/end.txt", ()),
        ("one/\n two.txt", ()),
    ],
)
def test_claude_names_the_file_below_the_title(path: str, files: tuple[str, ...]):
    assert asked("claude", CLAUDE, title="Create file", path=path).files == files


def test_what_is_to_be_written_does_not_make_it_a_command():
    form = CLAUDE.replace("  1 hello", "  1 hello\n Bash command")
    assert asked("claude", form, title="Create file", path="a.txt").files == ("a.txt",)


@pytest.mark.parametrize(
    ("path", "files"),
    [
        (" /w/hello.txt", ("/w/hello.txt",)),
        ("\n  /w/a-long-name-of-which-the-rest-\n  is-here.txt", ()),
        (" /w/my\n  file.txt", ()),
        (" /w/ok.txt\n\n  Destination: /w/other.txt", ("/w/ok.txt", "/w/other.txt")),
        (" /w/ok.txt\n\n  Destination:\n  /w/other.txt", ()),
    ],
)
def test_codex_names_the_file_as_the_destination(path: str, files: tuple[str, ...]):
    assert asked("codex", CODEX, path=path).files == files


@pytest.mark.parametrize(
    ("title", "files"),
    [
        ("WriteFile  Writing to sub/dir/deep.txt", ("sub/dir/deep.txt",)),
        ("WriteFile  Writing to a-very-long-director.../.../end.txt", ()),
        ("Edit  README.md: the-marker => changed", ("README.md",)),
        ("Edit  Create hello.txt", ("hello.txt",)),
        ("Replace  something", ()),
    ],
)
def test_gemini_names_the_file_in_the_title(title: str, files: tuple[str, ...]):
    assert asked("gemini", GEMINI, title=title).files == files


@pytest.mark.parametrize(
    ("path", "files"),
    [("hello.txt", ("hello.txt",)), ("a.txt, b.txt", ()), ("one/\n  ┃  two.txt", ())],
)
def test_opencode_names_the_file_above_the_changes(path: str, files: tuple[str, ...]):
    asking = load_patterns("opencode").asking
    assert asking is not None
    detail = f"  ┃    → Edit {path}\n  ┃\n  ┃  1 + hello\n"
    assert named_files(asking, f"Permission required\f\f{detail}") == files


@pytest.mark.parametrize(
    ("command", "known"),
    [
        ("make test", True),
        ("cd src\nmake test", True),
        ("", False),
        ("echo a\n[… 77 lines] ^a view all", False),
        ("echo " + "word " * 20 + "\ntouch made", False),
        ("git\n-c" + "x" * 110 + "\npush", False),
        ("echo " + "字" * 50 + "\ntouch made", False),
    ],
)
def test_a_command_is_certain_if_it_is_whole_and_no_line_may_be_broken(command: str, known: bool):
    asking = RequestPatterns(option="", kinds={})
    assert is_certain(asking, command, 120) is known


@pytest.mark.parametrize(
    ("prompt", "is_allowed"),
    [
        ("ask-edit a.txt", True),
        ("ask-edit secret.txt", False),
        ("ask-edit ../outside.txt", False),
        ("ask-edit /etc/hosts", False),
        ("ask-edit …/a.txt", False),
        ("ask make", True),
        ("ask touch made.txt", False),
        ("ask make … more", False),
    ],
)
async def test_only_what_is_certain_is_allowed(prompt: str, is_allowed: bool, tmp_path: Path):
    rules = ("allow bash", "deny edit(secret.txt)", "deny bash(touch)")
    gate = Gate(mode="accept-edits", rules=tuple(parse_rule(one) for one in rules), attended=False)
    async with drive(RIGS[0], tmp_path, gate=gate, mode="accept-edits") as driven:
        await driven.say(prompt)
    answers = driven.all(PermissionAnswered)
    assert [one.kind == "allow_once" for one in answers] == [is_allowed], answers
    assert ("allowed" in driven.text) is is_allowed
