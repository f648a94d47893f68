"""Commands decided with a look at a real disk: links, patterns, programs."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from quarterdeck.policy import (
    Allow,
    Ask,
    Call,
    Deny,
    SandboxState,
    decide,
    look_up,
    parse_rule,
    path_use,
)
from quarterdeck.system.local_disk import LocalDisk

TOOLS = ("bash", "cat", "diff", "echo", "env", "find", "grep", "ls", "nice", "rg", "timeout", "wc")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    real = Path(os.path.realpath(tmp_path))
    for folder in ("work/src/deep", "work/docs", "else/deep"):
        (real / folder).mkdir(parents=True)
    (real / "else/secret").write_text("s")
    (real / "else/deep/x").write_text("x")
    (real / "work/a.txt").write_text("a")
    (real / "work/docs/out").symlink_to(real / "else/deep")
    (real / "work/docs/near").symlink_to("../src/deep")
    (real / "tools").mkdir()
    for name in TOOLS:
        (real / "tools" / name).touch(0o755)
    return real / "work"


def usual(work: Path) -> str:
    """A ``PATH`` where every tool is, outside the workspace."""
    return f"{work.parent}/tools"


def decided(work: Path, command: str, *rules: str, path: str | None = None):
    call = Call(
        tool="bash",
        kind="execute",
        command=command,
        cwd=str(work),
        roots=(str(work),),
        home=str(work.parent / "home"),
    )
    found = look_up(call, LocalDisk({"PATH": usual(work) if path is None else path}))
    given = [parse_rule(rule) for rule in rules]
    return decide(found, "ask", given, sandbox=SandboxState(seals=True))


@pytest.mark.parametrize(
    "command",
    [
        "cat a.txt",
        "cat docs/near",
        "cat docs/near/../x",
        "cat src/../a.txt",
        "ls docs/near",
        "cat *.txt",
        "cat src/*",
        "cd src && ls",
        "cd docs/near && ls",
        "ls missing",
        "timeout 5 cat a.txt",
        "bash -c 'cat a.txt'",
    ],
)
def test_what_stays_in_the_workspace_runs_unasked(work: Path, command: str):
    assert isinstance(decided(work, command), Allow)


@pytest.mark.parametrize(
    "command",
    [
        "cat docs/out",
        "cat docs/out/../secret",
        "cat docs/out/..",
        "ls docs/out/../..",
        "cat docs/*",
        "cat docs/*/x",
        "cat */out",
        "ls d*/o*",
        "echo docs/out/*",
        "cd docs/out && ls",
        "cd docs/out && cat ../secret",
        "cd docs && cat out/../secret",
        "rg x docs/out",
        "grep -r x docs/out/",
        "find docs/out/ -name x",
        "bash -c 'cat docs/out/../secret'",
        "timeout 5 cat docs/out/../secret",
        "cat /proc/self/cwd/a.txt",
    ],
)
def test_what_leads_out_of_it_by_links_asks(work: Path, command: str):
    assert isinstance(decided(work, command), Ask)


def test_a_link_into_the_directories_of_the_system_asks(work: Path):
    (work / "mine").symlink_to("/proc/self/cwd")
    (work / "fd").symlink_to("/dev/fd/3")
    for command in ("cat mine/a.txt", "ls mine", "cat fd", "cat mine/../a.txt"):
        assert isinstance(decided(work, command), Ask)


def test_a_pattern_that_matches_an_option_asks(work: Path):
    assert isinstance(decided(work, "cat *"), Allow)
    (work / "--files0-from=list").touch()
    assert isinstance(decided(work, "cat *"), Ask)
    assert isinstance(decided(work, "cat ./*"), Allow)


def test_a_pattern_that_matches_very_much_asks(work: Path):
    for number in range(301):
        (work / f"src/f{number}").touch()
    assert isinstance(decided(work, "cat src/f*"), Ask)
    assert isinstance(decided(work, "cat src/f1*"), Allow)


def test_a_private_file_with_another_name_asks(work: Path):
    (work.parent / "else/secret").chmod(0o600)
    os.link(work.parent / "else/secret", work / "twin")
    assert isinstance(decided(work, "cat twin"), Ask)
    assert isinstance(decided(work, "cat t*n"), Ask)


@pytest.mark.parametrize(
    "command", ["ls", "timeout 5 ls", "env ls", "bash -c ls", "nice ls", "time ls", "ls | wc -l"]
)
def test_a_program_of_the_workspace_is_not_the_known_one(work: Path, command: str):
    fake = work / "bin/ls"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\ntouch x\n")
    fake.chmod(0o755)
    assert isinstance(decided(work, command), Allow)
    assert isinstance(decided(work, command, path=f"{usual(work)}:{work}/bin"), Allow)
    assert isinstance(decided(work, command, path=f"{work}/bin:{usual(work)}"), Ask)
    assert isinstance(decided(work, command, path=f".:{usual(work)}"), Ask)
    assert isinstance(decided(work, command, path=f":{usual(work)}"), Ask)


@pytest.mark.parametrize("name", ["timeout", "env", "nice", "bash"])
def test_a_wrapper_of_the_workspace_is_not_looked_through(work: Path, name: str):
    fake = work / "bin" / name
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\ntouch x\n")
    fake.chmod(0o755)
    rest = {"timeout": "5 ls", "bash": "-c ls"}.get(name, "ls")
    assert isinstance(decided(work, f"{name} {rest}"), Allow)
    assert isinstance(decided(work, f"{name} {rest}", path=f"{work}/bin:{usual(work)}"), Ask)
    for place in ("./bin", "bin", f"{work}/bin", "../work/bin"):
        assert isinstance(decided(work, f"{place}/{name} {rest}"), Ask)


def test_a_link_from_path_into_the_workspace_is_not_the_known_program(work: Path):
    fake = work / "fake"
    fake.write_text("#!/bin/sh\ntouch x\n")
    fake.chmod(0o755)
    outside = work.parent / "bin"
    outside.mkdir()
    (outside / "ls").symlink_to(fake)
    assert isinstance(decided(work, "ls", path=f"{outside}:{usual(work)}"), Ask)


def test_a_program_that_is_not_found_asks(work: Path):
    assert isinstance(decided(work, "ls", path="/nonexistent"), Ask)
    assert isinstance(decided(work, "echo hi", path="/nonexistent"), Allow)


def test_without_a_look_at_the_disk_no_program_is_known(work: Path):
    call = Call(tool="bash", kind="execute", command="ls", cwd=str(work), roots=(str(work),))
    assert isinstance(decide(call, "ask"), Ask)
    assert isinstance(decide(replace(call, programs={}), "ask"), Ask)
    assert isinstance(decide(replace(call, command="pwd"), "ask"), Allow)


def test_a_deny_rule_holds_for_what_a_pattern_matches(work: Path):
    (work / "key.pem").write_text("k")
    rule = "deny read(key.pem)"
    for command in ("cat key.pe?", "cat k*", "cat ./k*", "sort key.p*", "python3 x.py k*"):
        assert isinstance(decided(work, command, rule), Deny)
    assert isinstance(decided(work, "cat a*", rule), Allow)


def test_a_workspace_that_is_a_link_itself_is_inside(work: Path):
    other = work.parent / "alias"
    other.symlink_to(work)
    assert isinstance(decided(other, "cat a.txt"), Allow)
    assert isinstance(decided(other, "cat docs/near"), Allow)
    assert isinstance(decided(other, "cat docs/out"), Ask)


def test_signs_of_patterns_in_the_workspaces_own_name_do_no_harm(work: Path):
    odd = work.parent / "[odd]*"
    odd.mkdir()
    (odd / "a.txt").write_text("a")
    (odd / "b.txt").symlink_to("/etc/passwd")
    assert isinstance(decided(odd, "cat a*"), Allow)
    assert isinstance(decided(odd, "cat b*"), Ask)


def test_a_rule_for_a_command_does_not_follow_a_link_out_of_the_workspace(work: Path):
    assert isinstance(decided(work, "cd src && make", "allow bash(make)"), Allow)
    assert isinstance(decided(work, "cd docs/out && make", "allow bash(make)"), Ask)


def test_a_command_with_very_many_paths_is_asked_about(work: Path):
    assert isinstance(decided(work, "cat " + "a/b " * 10), Allow)
    assert isinstance(decided(work, "cat " + " ".join(f"f{n}" for n in range(600))), Ask)


def test_a_builtin_that_another_program_runs_is_a_program(work: Path):
    fake = work / "echo"
    fake.write_text("#!/bin/sh\ntouch x\n")
    fake.chmod(0o755)
    assert isinstance(decided(work, "timeout 5 echo hi"), Allow)
    assert isinstance(decided(work, "echo hi", path=f".:{usual(work)}"), Allow)
    assert isinstance(decided(work, "timeout 5 echo hi", path=f".:{usual(work)}"), Ask)
    assert isinstance(decided(work, "env echo hi", path=f"{work}:{usual(work)}"), Ask)
    assert isinstance(decided(work, "timeout 5 cd src"), Ask)


def test_a_comparison_of_directories_follows_links_in_them(work: Path):
    (work / "b.txt").write_text("b")
    assert isinstance(decided(work, "diff a.txt b.txt"), Allow)
    for command in (
        "diff src docs",
        "diff a.txt docs",
        "diff . src",
        "diff a.txt s*",
        "diff src/ a.txt",
    ):
        assert isinstance(decided(work, command), Ask)


def test_the_whole_disk_as_a_workspace_has_the_machines_own_programs():
    assert isinstance(decided(Path("/"), "pwd; ls", path="/usr/bin:/bin"), Allow)


@settings(
    deadline=None,
    max_examples=80,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.one_of(
        st.text(max_size=40),
        st.lists(
            st.sampled_from(
                [
                    *(
                        "cat ",
                        "ls ",
                        "*",
                        "a\0b",
                        "\0*",
                        "\ud800",
                        "\udc80*",
                        "x",
                        "/",
                        "..",
                        "~",
                        "[",
                    ),
                    *(
                        " ",
                        "'",
                        '"',
                        "; ",
                        "| ",
                        "cd ",
                        "bash -c ",
                        "timeout 5 ",
                        "é*",
                        "\n",
                        "=" * 300,
                    ),
                ]
            ),
            max_size=8,
        ).map("".join),
    )
)
def test_no_command_breaks_the_look_at_the_disk(work: Path, command: str):
    decided(work, command)


@pytest.mark.parametrize(
    "command", ["rm -rf src", "rm -rf s*", "mv src docs", "rm -rf src/deep/.."]
)
def test_an_open_end_does_not_delete_a_directory_that_holds_a_protected_file(
    work: Path, command: str
):
    rules = ("allow bash(rm:*)", "allow bash(mv:*)")
    assert isinstance(decided(work, command, *rules), Allow)
    (work / "src/deep/.git").mkdir()
    assert isinstance(decided(work, command, *rules), Ask)


def test_deleting_a_directory_that_holds_a_protected_file_asks(work: Path):
    call = Call(
        tool="delete",
        kind="delete",
        cwd=str(work),
        roots=(str(work),),
        paths=(path_use("src", "write", cwd=str(work)),),
    )
    allowed = [parse_rule("allow edit")]
    assert isinstance(decide(look_up(call, LocalDisk()), "ask", allowed), Allow)
    (work / "src/deep/.envrc").touch()
    assert isinstance(decide(look_up(call, LocalDisk()), "ask", allowed), Ask)
    assert isinstance(decide(look_up(call, LocalDisk()), "accept-edits"), Ask)


def test_what_was_found_on_the_disk_makes_no_other_call():
    call = Call(tool="bash", kind="execute", command="ls a")
    found = replace(call, programs={"ls": "/bin/ls"}, links={"a": "/b"}, directories={"a"})
    assert (found, hash(found)) == (call, hash(call))
    assert replace(call, command="ls b") != call
    assert replace(call, globs=("*.py",)) != call
    assert call != "ls a"
