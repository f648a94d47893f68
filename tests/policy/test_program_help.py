"""What programs' own help says, held against what we know of their options.

Options whose help speaks of running, loading, writing or other directories must be known: as one
that an open end does not reach, or as one that was judged. ``help_options.toml`` holds those of the
programs at the versions that were looked at; the long version asks the programs that are here.
"""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from quarterdeck.policy.shell.program_entry import ProgramOptions
from quarterdeck.policy.shell.program_options import options_of

RECORDED: dict[str, list[str]] = tomllib.loads(
    (Path(__file__).parent / "help_options.toml").read_text()
)["options"]

SOUNDS = re.compile(
    r"\b(?:run|runs|running|exec\w*|invoke\w*|commands?|program\w*|plugins?|scripts?|shell|pager"
    r"|editor|hooks?|load|loads|library|module|preload)\b"
    r"|\b(?:write|writes|output|save|store|log|dump)\b.*\bfile\b|\bto (?:a )?file\b"
    r"|config\w*[ -]file|\bdirectory\b|\bfolder\b",
    re.IGNORECASE,
)
OPTION = re.compile(r"(?<![\w-])(--?[A-Za-z0-9@?][\w.-]*)")
GIT = (
    *("add", "am", "apply", "archive", "blame", "branch", "cat-file", "checkout", "cherry-pick"),
    *("clean", "clone", "commit", "config", "describe", "diff", "difftool", "fetch", "grep"),
    *("format-patch", "init", "log", "ls-files", "ls-remote", "merge", "mergetool", "mv", "notes"),
    *("pull", "push", "rebase", "reset", "restore", "revert", "rm", "show", "shortlog", "stash"),
    *("status", "submodule", "switch", "tag", "worktree"),
)
HELP: dict[str, tuple[str, ...]] = {
    **{f"git {sub}": ("-h",) for sub in GIT},
    **dict.fromkeys(("make", "node", "pytest", "tar", "wget", "find", "rg"), ("--help",)),
    **dict.fromkeys(("grep", "sort", "sed", "man", "vim", "mvn", "ctest", "cmake"), ("--help",)),
    **dict.fromkeys(("ninja", "gcc", "xargs", "tee", "diff", "patch", "jq"), ("--help",)),
    **dict.fromkeys(("psql", "java", "python3", "rustc", "rsync", "gawk", "mypy"), ("--help",)),
    **dict.fromkeys(("black", "eslint", "prettier", "jest", "rspec", "rake", "fd"), ("--help",)),
    **{f"cargo {sub}": ("--help",) for sub in ("test", "build", "check", "clippy")},
    **{f"ruff {sub}": ("--help",) for sub in ("check", "format")},
    **{f"docker {sub}": ("--help",) for sub in ("run", "build", "ps")},
    **{f"uv {sub}": ("--help",) for sub in ("run", "sync")},
    "kubectl get": ("--help",),
    "pip install": ("--help",),
    "terraform plan": ("-help",),
    "curl": ("--help", "all"),
    "zip": ("-h2",),
    "perl": ("-h",),
    "sqlite3": ("-help",),
}


def sounding_options(text: str) -> list[str]:
    """Return the options of a help text whose description sounds as if they did more than tell."""
    text = re.sub(r".\x08", "", text)
    found: dict[str, None] = {}
    options: list[str] = []
    words: list[str] = []

    def close() -> None:
        if options and SOUNDS.search(" ".join(words)):
            found.update(dict.fromkeys(options))

    for line in text.splitlines():
        if re.match(r"\s{0,14}-[\w@?-]", line):
            close()
            head, _, rest = line.strip().partition("  ")
            options, words = OPTION.findall(head), [rest, head.partition("=")[2]]
        elif not line.strip() or not line[:1].isspace():
            close()
            options, words = [], []
        else:
            words.append(line.strip())
    close()
    return [option for option in found if option not in ("-h", "--help", "--version")]


def scopes_of(program: str) -> tuple[ProgramOptions, ...]:
    name, _, sub = program.partition(" ")
    options = options_of(name)
    assert options is not None, f"no entry for {name!r}"
    if not sub:
        return (options,)
    inner = options.sub.get(sub, ProgramOptions())
    return (inner, options) if options.anywhere else (inner,)


def judged(scope: ProgramOptions, option: str) -> bool:
    """Whether it reaches further, or is known not to."""
    return scope.reaches(option) or option in scope.harmless or option[1:2] in scope.valued


def is_known(program: str, option: str) -> bool:
    bare = option.replace("--[no-]", "--")
    if bare.startswith("--no-"):
        return True
    return any(judged(scope, bare) or judged(scope, option) for scope in scopes_of(program))


@pytest.mark.parametrize("program", RECORDED)
def test_every_recorded_option_that_sounds_dangerous_is_known(program: str):
    assert [option for option in RECORDED[program] if not is_known(program, option)] == []


@pytest.mark.stress
@pytest.mark.parametrize("program", HELP)
def test_every_option_that_sounds_dangerous_here_is_known(program: str, tmp_path: Path):
    words = program.split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    plain = {"PAGER": "cat", "GIT_PAGER": "cat", "TERM": "dumb", "COLUMNS": "100"}
    shown = subprocess.run(
        [*words, *HELP[program]],
        env=environment | plain,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=50,
        check=False,
    )
    found = sounding_options(shown.stdout + shown.stderr)
    assert [option for option in found if not is_known(program, option)] == []


def test_help_is_read_as_people_read_it():
    text = (
        "usage: x\n\n"
        "  -O, --open-files-in-pager[=<pager>]\n"
        "                        show matching files in the pager\n"
        "  -v, --verbose         be verbose\n"
        "  -o FILE, --output=FILE  write result to FILE instead of standard output\n"
    )
    assert sounding_options(text) == ["-O", "--open-files-in-pager", "-o", "--output"]


def test_an_option_that_nobody_judged_is_found():
    assert not is_known("git grep", "--run-hooks")
    assert is_known("git grep", "--open-files-in-pager")
