"""Path patterns: exact for allow rules, broad for deny rules."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.policy.paths import absolute, fixed_part, is_below, matches, matches_broadly

ROOT, HOME = "/w/app", "/home/dev"


@pytest.mark.parametrize(
    ("pattern", "path", "allows", "denies"),
    [
        ("src/**", "/w/app/src/a.py", True, True),
        ("src/**", "/w/app/src/a/b/c.py", True, True),
        ("src/**", "/w/app/src", True, True),
        ("src/**", "/w/app/srcx/a", False, False),
        ("src/**", "/w/app/sub/src/a", False, False),
        ("src/*", "/w/app/src/a", True, True),
        ("src/*", "/w/app/src/a/b", False, True),
        ("src/*.py", "/w/app/src/a.py", True, True),
        ("src/*.py", "/w/app/src/.py", True, True),
        ("src/", "/w/app/src/a/b", True, True),
        ("**/test_*.py", "/w/app/a/b/test_x.py", True, True),
        ("**/test_*.py", "/w/app/test_x.py", True, True),
        ("a?c", "/w/app/abc", True, True),
        ("a?c", "/w/app/a/c", False, False),
        ("a\\*c", "/w/app/a*c", True, True),
        ("a\\*c", "/w/app/abc", False, False),
        (".env", "/w/app/.env", True, True),
        (".env", "/w/app/sub/.env", False, True),
        (".env", "/w/app/.ENV", False, True),
        (".env", "/etc/.env", False, False),
        ("src", "/w/app/src/a", False, True),
        ("~/notes/**", "/home/dev/notes/a", True, True),
        ("~/notes/**", "/w/app/~/notes/a", False, False),
        ("/etc/hosts", "/etc/hosts", True, True),
        ("**", "/w/app/a/b", True, True),
        ("**", "/etc/passwd", False, False),
        ("/**", "/etc/passwd", True, True),
        ("./src/a", "/w/app/src/a", True, True),
        ("café", "/w/app/cafe\u0301", False, True),
    ],
)
def test_a_pattern_allows_exactly_and_denies_broadly(
    pattern: str, path: str, allows: bool, denies: bool
):
    assert matches(pattern, path, root=ROOT, home=HOME) is allows
    assert matches_broadly(pattern, path, root=ROOT, home=HOME) is denies


def test_a_root_with_signs_in_its_name_means_itself():
    assert matches("a", "/w/x*y/a", root="/w/x*y", home="")
    assert not matches("a", "/w/xzy/a", root="/w/x*y", home="")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a/../b", "/w/app/b"),
        ("../x", "/w/x"),
        ("/../x", "/x"),
        ("//etc", "/etc"),
        ("~/a", "/home/dev/a"),
        ("~", "/home/dev"),
        ("~root/x", "/~root/x"),
        ("", "/w/app"),
        ("./~", "/w/app/~"),
    ],
)
def test_a_path_becomes_absolute(path: str, expected: str):
    assert absolute(path, cwd=ROOT, home=HOME) == expected


def test_an_unknown_home_is_in_no_workspace():
    assert not is_below(absolute("~/x", cwd=ROOT), (ROOT,))


def test_below_is_by_whole_names():
    assert is_below("/w/app", ("/w/app",))
    assert is_below("/w/app/x", ("/w/app/",))
    assert is_below("/x", ("/",))
    assert not is_below("/w/app2", ("/w/app",))


def test_the_fixed_part_ends_before_the_first_sign():
    assert fixed_part("src/a/*.py", root=ROOT, home=HOME) == "/w/app/src/a"
    assert fixed_part("~/x", root=ROOT, home=HOME) == "/home/dev/x"


@settings(deadline=None, max_examples=150)
@given(
    st.text("ab*?/.\\~", max_size=12).filter(lambda text: ".." not in text),
    st.text("abAB/.~", max_size=12),
)
def test_what_an_allow_rule_means_a_deny_rule_means_too(pattern: str, tail: str):
    path = absolute(tail, cwd=ROOT, home=HOME)
    if matches(pattern, path, root=ROOT, home=HOME):
        assert matches_broadly(pattern, path, root=ROOT, home=HOME)
