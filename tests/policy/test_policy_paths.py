"""Path patterns: exact for allow rules, broad for deny rules."""

from fnmatch import fnmatchcase

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.policy.paths import (
    absolute,
    fixed_part,
    is_below,
    is_protected,
    matches,
    matches_broadly,
    may_match,
)

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


@pytest.mark.parametrize(
    "path",
    [
        *(
            ".git",
            ".git/config",
            "a/b/.git/hooks/x",
            ".GIT/x",
            ".gIt",
            ".git.",
            ".git /x",
            ".git. .",
        ),
        *(".g\u200cit/config", "．git/config", ".git::$INDEX_ALLOCATION/x", ".git:x"),
        *(
            "opencode.json",
            "OpenCode.JSONC",
            "sub/.cursor/mcp.json",
            ".qwen",
            ".kimi/x",
            ".goose/x",
        ),
        *(
            ".goosehints",
            ".kiro/x",
            ".crush.json",
            ".mcp.json",
            ".claude/settings.json",
            ".codex/x",
        ),
        *(
            ".gemini/x",
            ".vibe/x",
            ".pi/x",
            ".aider.conf.yml",
            ".continue/x",
            ".windsurf/x",
            ".roo/x",
        ),
        *(".cline/x", ".amp/x", ".zed/x", ".idea/x", ".vscode/x", ".devcontainer/x", ".opencode/x"),
        *(".cargo/config", ".cargo/config.toml", "x/.Cargo/Config.toml", ".yarnrc", ".yarnrc.yml"),
        *(".yarn/releases/x", ".npmrc", ".pnpmfile.cjs", ".bunfig.toml", "pip.conf", ".pypirc"),
        *(".envrc", ".tool-versions", "mise.toml", ".husky/x", ".githooks/x", "lefthook.yml"),
        *(".pre-commit-config.yaml", ".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv"),
        *(".zprofile", ".zlogin", ".kshrc", ".inputrc", "config.fish", ".config/fish/x", ".ssh/x"),
        *(".gnupg/x", ".netrc", ".gitconfig", ".gitmodules", ".gitattributes", "sitecustomize.py"),
        *("lib/usercustomize.py", "x.pth", "X.PTH", ".quarterdeck/x", ".hg/hgrc", ".jj/x"),
    ],
)
def test_what_decides_which_programs_run_is_protected(path: str):
    assert is_protected(path)
    assert is_protected("/deep/down/" + path)


@pytest.mark.parametrize(
    "path",
    [
        *("a", "src/a.py", "Makefile", "CLAUDE.md", "AGENTS.md", "conftest.py", "package.json"),
        *(".gitignore", ".github/workflows/ci.yml", ".env", "git", "mygit/x", "x.git", "a.git/b"),
        *(
            ".cargo/registry",
            "config.toml",
            "cargo/config.toml",
            ".yarn/cache/x",
            "npmrc",
            "x.pthx",
        ),
        *("", "/", "..", ".", "vscode/x", ".editorconfig", "pyproject.toml", ".dockerignore"),
    ],
)
def test_what_people_work_on_is_not(path: str):
    assert not is_protected(path)


@pytest.mark.parametrize(
    ("pattern", "glob", "expected"),
    [
        ("key.pem", "/w/app/key.pe?", True),
        ("key.pem", "/w/app/*", True),
        ("key.pem", "/w/app/*.txt", False),
        ("key.pem", "/w/app/a/b/k*", True),
        ("key.pem", "/w/app/k[a-f]y.pem", True),
        ("key.pem", "/w/app/[!x]ey.pem", True),
        ("key.pem", "/w/app/KEY.*", True),
        ("key.pem", "/etc/*", False),
        (".env", "/w/app/*", False),
        (".env", "/w/app/?env", False),
        (".env", "/w/app/.*", True),
        (".env", "/w/app/.e*v", True),
        ("secrets/**", "/w/app/s*/a/b", True),
        ("secrets/**", "/w/app/x*/a", False),
        ("*.pem", "/w/app/k*", True),
        ("*.pem", "/w/app/*.key", False),
        ("a\\*b", "/w/app/a?b", True),
        ("a\\*b", "/w/app/axb*", False),
        ("~/.ssh/**", "/home/dev/.s*/id", True),
        ("/etc/shadow", "/etc/sh*", True),
        ("/etc/shadow", "/e?c/shadow", True),
        ("/etc/shadow", "/etc", False),
    ],
)
def test_a_pattern_of_the_shell_may_become_what_a_rule_means(
    pattern: str, glob: str, expected: bool
):
    assert may_match(pattern, glob, root=ROOT, home=HOME) is expected


def test_all_below_a_directory_counts_where_it_goes_as_a_whole():
    assert may_match("/etc/shadow", "/et*", root=ROOT, home=HOME, whole=True)
    assert not may_match("/etc/shadow", "/us*", root=ROOT, home=HOME, whole=True)


@settings(deadline=None, max_examples=150)
@given(
    st.text("ab*?.", min_size=1, max_size=6).filter(lambda text: "**" not in text),
    st.text("ab*?.", min_size=1, max_size=6),
    st.text("ab.", min_size=1, max_size=6),
)
def test_patterns_that_share_a_name_meet(pattern: str, glob: str, name: str):
    if fnmatchcase(name, pattern) and fnmatchcase(name, glob) and not name.startswith("."):
        assert may_match(pattern, f"{ROOT}/{glob}", root=ROOT, home=HOME)


def test_patterns_of_any_length_are_compared():
    deep = "/".join("*" for _ in range(3000))
    assert may_match("key.pem", f"/w/app/{deep}", root=ROOT, home=HOME)
    assert not may_match("x/y", "/w/app/" + "*a" * 3000, root=ROOT, home=HOME)
