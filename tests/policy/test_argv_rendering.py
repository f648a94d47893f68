"""An argument vector as a line: shells and our grammar read just its words from it."""

import shutil
import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from quarterdeck.policy import CallContext, call_from_tool, decide, parse_rule
from quarterdeck.policy.shell.command_line import render_argv
from quarterdeck.policy.shell.parser import read_line

NASTY = (
    *("LC_ALL=./evil", "A=b", "A+=b", "a[0]=b", "=ls", "=", "!", "{", "}", "[[", "if", "then"),
    *("fi", "for", "while", "do", "case", "in", "select", "function", "time", "coproc", "export"),
    *(
        "declare",
        "local",
        "unset",
        "readonly",
        "typeset",
        "let",
        "alias",
        "",
        "~",
        "~/x",
        "#",
        "%1",
    ),
    *("2>x", ";", "&&", "|", "$(x)", "`x`", "$x", "a b", "a\nb", "'", '"', "\\", "*", "é", "-c"),
)
WORDS = st.one_of(
    st.sampled_from(NASTY),
    st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=6),
    st.text("=!{}[]~#%$;&|<>()`'\"\\ \nA_1.:/-", max_size=6),
)


@given(st.lists(WORDS, min_size=1, max_size=4))
@settings(deadline=None, max_examples=300)
@example(["LC_ALL=./evil", "ls"])
def test_our_grammar_reads_the_same_words_and_no_assignment(argv: list[str]):
    line = read_line(render_argv(argv))
    if line.doubts or line.unread:
        return  # asked about in any case
    (command,) = line.commands
    assert not command.assignments and not line.redirects
    assert [word.value for word in command.words] == argv
    assert not any(word.glob or word.tilde for word in command.words)


@pytest.mark.parametrize("first", NASTY)
def test_our_grammar_takes_the_first_word_for_a_program(first: str):
    line = read_line(render_argv([first, "ls"]))
    if "\n" not in first:
        assert not line.unread
        assert [word.exact for word in line.commands[0].words] == [first, "ls"]
        assert line.commands[0].assignments == ()


@pytest.mark.parametrize("shell", ["bash", "dash", "zsh"])
def test_shells_read_the_same_words(shell: str):
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    script = "f() { printf '%s\\0' \"$@\"; }\nf " + render_argv(["x", *NASTY])
    printed = subprocess.run([program, "-c", script], capture_output=True, check=True, env={})
    assert printed.stdout.decode().split("\0")[:-1] == ["x", *NASTY]


@pytest.mark.parametrize("first", [word for word in NASTY if "=" in word or word.isalpha()])
def test_bash_takes_the_first_word_for_a_program(first: str):
    program = shutil.which("bash")
    if program is None:
        pytest.skip("bash is not installed")
    line = render_argv([first, "ls"])
    asked = subprocess.run(
        [program, "-c", f"enable -n export declare local unset readonly typeset let alias\n{line}"],
        capture_output=True,
        env={"PATH": "/nonexistent", "LC_ALL": "C.UTF-8"},
    )
    assert asked.returncode == 127, asked  # there is no such program
    assert f"{first}: ".encode() in asked.stderr


@pytest.mark.parametrize("first", ["LC_ALL=./evil", "LANG=x", "time", "!"])
def test_a_command_as_a_list_runs_its_first_word(first: str):
    around = CallContext(cwd="/home/dev/app", roots=("/home/dev/app",), home="/home/dev")
    call = call_from_tool(
        "bash", "execute", {"command": [first, "LC_ALL=./x", "ls"]}, around=around
    )
    decision = decide(call, "ask", [parse_rule("allow bash(ls:*)")])
    assert type(decision).__name__ == "Ask", decision
