"""How far rules reach: links, searches, whole directories, words of a command."""

import pytest
from msgspec.structs import replace

from quarterdeck.policy import (
    Allow,
    Ask,
    Call,
    Deny,
    decide,
    parse_rule,
    path_use,
)
from quarterdeck.policy.command_paths import argument_paths, expand_braces
from quarterdeck.policy.shell.command_line import ShellWord, read_word

CWD = "/home/dev/app"
BASE = Call(tool="bash", cwd=CWD, roots=(CWD,), home="/home/dev")


def run(command: str, **links: str) -> Call:
    found = {f"{CWD}/{name}": target for name, target in links.items()}
    return replace(BASE, kind="execute", command=command, links=found)


def decided(call: Call, *rules: str, mode: str = "ask") -> type:
    return type(decide(call, mode, [parse_rule(rule) for rule in rules]))  # type: ignore[arg-type]


def test_an_open_end_does_not_follow_a_link_out_of_the_workspace():
    rule = "allow bash(tool:*)"
    assert decided(run("tool out", out=f"{CWD}/src"), rule) is Allow
    assert decided(run("tool out", out="/etc"), rule) is Ask
    assert decided(run("tool --dir=out", out="/etc"), rule) is Ask
    assert decided(run("tool hooks", hooks=f"{CWD}/.git/hooks"), rule) is Ask
    assert decided(run("tool out", out="/etc"), "allow bash(tool out:*)") is Allow


def test_a_step_up_after_a_link_is_the_links():
    rule = "allow bash(tool:*)"
    assert decided(run("tool out/../x"), rule) is Ask
    assert decided(run("tool out/../x", **{"out/../x": f"{CWD}/x"}), rule) is Allow
    assert decided(run("tool out/../x", **{"out/../x": "/etc/x"}), rule) is Ask
    denied = run("tool out/../x", **{"out/../x": f"{CWD}/.env"})
    assert decided(denied, "deny read(.env)", "allow bash") is Deny
    assert decided(run("cd out && tool ../x"), rule) is Ask


def test_a_deny_rule_follows_a_link_to_what_it_means():
    rules = ("deny read(.env)", "allow bash")
    assert decided(run("tool x", x=f"{CWD}/.env"), *rules) is Deny
    assert decided(run("cat x", x=f"{CWD}/.env"), *rules) is Deny
    assert decided(run("tool --in=x", x=f"{CWD}/.env"), *rules) is Deny


def search(*globs: str, path: str = ".") -> Call:
    use = path_use(path, "read", cwd=CWD)
    return replace(BASE, tool="Grep", kind="search", paths=(use,), globs=globs)


def test_patterns_of_a_search_are_held_against_deny_rules():
    rule = "deny read(.env)"
    assert decided(search(), rule) is Allow
    assert decided(search("*.py"), rule) is Allow
    assert decided(search(".env"), rule) is Deny
    assert decided(search("**/.env"), rule) is Deny
    assert decided(search(".e*"), rule) is Ask
    assert decided(search("*.py", ".e?v"), rule) is Ask
    assert decided(search("**"), "deny read(secrets/key)") is Ask
    assert decided(search("**"), "deny edit(secrets/key)") is Allow
    assert decided(search("*.pem", path="keys"), "deny read(keys/a.pem)") is Ask
    assert decided(search("*.pem", path="other"), "deny read(keys/a.pem)") is Allow
    assert decided(search("*.{py,pem}", path="keys"), "deny read(keys/a.pem)") is Ask
    assert decided(search(".{env,py}"), rule) is Deny
    assert decided(search("keys/*.pem", path="keys"), "deny read(keys/a.pem)") is Ask
    assert decided(search("/home/dev/app/.env", path="src"), rule) is Deny


def removal(path: str, **changes: object) -> Call:
    use = path_use(path, "write", cwd=CWD)
    return replace(BASE, tool="Delete", kind="delete", paths=(use,), **changes)


@pytest.mark.parametrize("mode", ["accept-edits", "full-auto"])
def test_a_directory_that_has_a_protected_file_is_not_deleted_unasked(mode: str):
    assert decided(removal("src"), mode=mode) is Allow
    assert decided(removal("src", holds_protected=True), mode=mode) is Ask
    assert decided(removal("."), mode=mode) is Ask
    assert decided(removal(".git"), mode=mode) is Ask
    assert decided(removal("sub/.vscode"), mode=mode) is Ask


def test_a_rule_for_files_does_not_cover_a_directory_that_has_a_protected_one():
    assert decided(removal("src"), "allow edit(**)") is Allow
    assert decided(removal("src", holds_protected=True), "allow edit(**)") is Ask
    assert decided(removal("."), "allow edit", "allow edit(**)") is Ask
    assert decided(removal("src", holds_protected=True), "allow *") is Allow


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("a", {"a"}),
        ("--file=a", {"a"}),
        ("-fa", {"a"}),
        ("-xvf/a", {"vf/a", "/a"}),
        ("-I../a", {"../a"}),
        ("if=a", {"if=a", "if", "a"}),
        ("HEAD:a", {"HEAD:a", "HEAD", "a"}),
        ("@a", {"@a", "a"}),
        ("a,b", {"a,b", "a", "b"}),
        ("https://x.com/a", set()),
        ("--url=https://x.com/a", set()),
        ("git+ssh://x.com/a", set()),
        ("file:///etc/a", {"=/etc/a", "/etc/a"}),
        ("-", set()),
        ("--", set()),
        ("", set()),
    ],
)
def test_every_path_in_a_word_is_found(word: str, expected: set[str]):
    assert set(argument_paths(ShellWord(word, word))) == expected


def test_a_word_that_is_not_known_names_no_path():
    assert argument_paths(ShellWord("$x", None)) == ()


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("{a,b}", ["a", "b"]),
        ("x{a,b}y", ["xay", "xby"]),
        ("{a,b}{c,d}", ["ac", "ad", "bc", "bd"]),
        ("{a,{b,c}}", ["a", "b", "c"]),
        ("a{,b}", ["a", "ab"]),
        ("{1..3}", ["1", "2", "3"]),
        ("{c..a}", ["c", "b", "a"]),
        ("{a}", []),
        ("{}", []),
        ("a", []),
        ("{a,b", []),
        ("{a,$x}", []),
        ("{a,b}" * 20, []),
        ("{1..9999}", []),
    ],
)
def test_braces_stand_for_words_where_that_is_certain(raw: str, expected: list[str]):
    assert [word.value for word in expand_braces(raw)] == expected
    assert read_word(raw).value is None or not expected
