"""Ignore rules say what git says."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from quarterdeck.agent.tools.file_tree import IgnoreScope, parse_rules
from quarterdeck.agent.tools.globs import compile_glob, expand_braces, split_fixed, wild_regex
from quarterdeck.agent.tools.tool import ToolError

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
}
FILES = [
    "b",
    "a.b",
    "a]",
    "a/ab",
    "a/b/ab",
    "a/b/.a",
    "ab/a/b",
    "a-b/b.a",
    "b.d/a b",
    "c/d/a/b",
    "-",
]
DIRECTORIES = sorted({str(up) for file in FILES for up in Path(file).parents if str(up) != "."})


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", path], check=True, env=ENVIRONMENT)
    for file in FILES:
        (path / file).parent.mkdir(parents=True, exist_ok=True)
        (path / file).touch()
    return path


def ignored_by_git(repository: Path, paths: list[str]) -> set[str]:
    done = subprocess.run(
        ["git", "-C", repository, "check-ignore", "--no-index", "-z", "--stdin"],
        input="\0".join(paths).encode(),
        capture_output=True,
        env=ENVIRONMENT,
        timeout=50,
    )
    assert done.returncode in (0, 1), done.stderr
    return {path for path in done.stdout.decode().split("\0") if path}


def ignored_by_us(texts: dict[str, str], paths: list[str]) -> set[str]:
    """The same, walking down as a survey does; ``texts`` are .gitignore files by directory."""
    return {path for path in paths if _is_ignored(texts, path)}


def _is_ignored(texts: dict[str, str], path: str) -> bool:
    names = path.rstrip("/").split("/")
    ignore: IgnoreScope | None = None
    directory = ""
    for depth, name in enumerate(names):
        if (text := texts.get(directory)) is not None:
            ignore = IgnoreScope(f"/r/{directory}".rstrip("/"), parse_rules(text), ignore)
        inside = f"{directory}/{name}" if directory else name
        is_directory = depth < len(names) - 1 or path.endswith("/")
        if ignore is not None and ignore.holds_for(f"/r/{inside}", is_directory):
            return True
        directory = inside
    return False


WILD = [
    "*",
    "**",
    "***",
    "?",
    "[ab]",
    "[!a]",
    "[^b]",
    "[a-c]",
    "[]]",
    "[[:alpha:]]",
    "[\\]]",
    "[b-a]",
]
PLAIN = ["a", "b", "ab", "/", "/", "\\", "\\*", "!", "#", " ", ".", "[", "]", "-", "[a-", "{a,b}"]
PIECES = st.sampled_from([*WILD, *PLAIN])
LINES = st.lists(PIECES, min_size=1, max_size=6).map("".join)
TEXTS = st.lists(LINES, min_size=1, max_size=4).map("\n".join)


@given(text=TEXTS, below=st.none() | TEXTS)
@example(text="a**/b", below=None)
@example(text="/a/\n!a/b", below=None)
@example(text="*\n!a/\n!*.b", below="!b")
@example(text="[\\\\-a]", below=None)
@settings(
    deadline=None, max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_generated_rules_mean_what_git_says(repository: Path, text: str, below: str | None):
    (repository / ".gitignore").write_text(text)
    (repository / "a" / ".gitignore").unlink(missing_ok=True)
    texts = {"": text}
    if below is not None:
        (repository / "a" / ".gitignore").write_text(below)
        texts["a"] = below
    ours = ignored_by_us(texts, [*FILES, *(f"{path}/" for path in DIRECTORIES)])
    theirs = ignored_by_git(repository, [*FILES, *DIRECTORIES])
    assert {path.rstrip("/") for path in ours} == theirs


@pytest.mark.parametrize(
    ("text", "ignored", "kept"),
    [
        ("*.log\n!keep.log\n", ["a.log", "d/b.log"], ["keep.log", "d/keep.log", "a.txt"]),
        ("build/\n", ["build/", "d/build/x"], ["build"]),
        ("/build\n", ["build", "build/x"], ["d/build"]),
        ("doc/*.txt\n", ["doc/a.txt"], ["doc/d/a.txt", "x/doc/a.txt"]),
        ("doc/**/*.txt\n", ["doc/a.txt", "doc/d/e/a.txt"], ["a.txt"]),
        ("a/**\n!a/b\n", ["a/c"], ["a/b", "a"]),
        ("\ufeffx\r\ny\\ \nz  \n#w\n", ["x", "y ", "z"], ["y", "#w"]),
    ],
)
def test_rules_by_example(text: str, ignored: list[str], kept: list[str]):
    assert ignored_by_us({"": text}, ignored + kept) == set(ignored)


def test_repository_itself_is_left_out():
    assert IgnoreScope("/r", parse_rules("")).holds_for("/r/.git", True)
    assert not IgnoreScope("/r", parse_rules("")).holds_for("/r/.github", True)


@pytest.mark.parametrize(
    ("pattern", "found", "not_found"),
    [
        ("*.py", ["a.py", "d/a.py", ".py"], ["a.pyc", "a/py"]),
        ("src/*.py", ["src/a.py"], ["src/d/a.py", "a.py", "x/src/a.py"]),
        ("src/**/*.{py,pyi}", ["src/a.py", "src/d/e/a.pyi"], ["src/a.c"]),
        ("**", ["a", "a/b"], []),
        ("./a", ["a", "b/a"], []),
        ("a{b,c{d,e}}f", ["abf", "acdf", "acef"], ["af", "acf"]),
        ("{a}", ["{a}"], ["a"]),
        ("a/**", ["a/b", "a/b/c"], ["a"]),
        ("[!a]?", ["bc"], ["ab", "b/", "abc"]),
    ],
)
def test_glob_patterns_by_example(pattern: str, found: list[str], not_found: list[str]):
    regex = compile_glob(pattern)
    assert [path for path in found + not_found if regex.fullmatch(path)] == found


def test_glob_that_cannot_be_read_is_refused():
    for pattern in ("[a", "a\\", "{a,b}" * 8):
        with pytest.raises(ToolError):
            compile_glob(pattern)
    assert expand_braces("{a,b}{1,2}") == ["a1", "a2", "b1", "b2"]
    assert split_fixed("/a/b/*.py") == ("/a/b", "*.py")
    assert split_fixed("/*.py") == ("/", "*.py")


def test_hostile_pattern_takes_no_time():
    source = wild_regex("*a" * 60 + "b")
    assert source is not None
    assert re.compile(source).fullmatch("a" * 250) is None
