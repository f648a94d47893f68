"""What names mean on this machine, by the kernel's own rules."""

import os
from pathlib import Path

import pytest

from quarterdeck.system.environment import child_environment
from quarterdeck.system.local_disk import LocalDisk


@pytest.fixture
def place(tmp_path: Path) -> Path:
    real = Path(os.path.realpath(tmp_path))
    (real / "work/sub").mkdir(parents=True)
    (real / "else/deep").mkdir(parents=True)
    (real / "work/a").write_text("a")
    (real / "else/secret").write_text("s")
    return real


def put_program(folder: Path, name: str = "ls", mode: int = 0o755) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text("#!/bin/sh\n")
    file.chmod(mode)
    return file


def test_two_dots_after_a_link_are_the_parent_of_its_target(place: Path):
    (place / "work/link").symlink_to(place / "else/deep")
    found = LocalDisk().real_path(f"{place}/work/link/../secret")
    assert found == f"{place}/else/secret"
    assert Path(f"{place}/work/link/../secret").read_text() == "s"


@pytest.mark.parametrize(
    ("path", "real"),
    [
        ("work/a", "work/a"),
        ("work/./sub/../a", "work/a"),
        ("work/missing/x", "work/missing/x"),
        ("work//a", "work/a"),
        ("work/chain", "else/secret"),
        ("work/relative", "else/secret"),
    ],
)
def test_links_are_followed_as_the_kernel_does(place: Path, path: str, real: str):
    (place / "work/chain").symlink_to(place / "work/relative")
    (place / "work/relative").symlink_to("../else/secret")
    assert LocalDisk().real_path(f"{place}/{path}") == f"{place}/{real}"


def test_a_loop_of_links_leads_to_no_workspace(place: Path):
    (place / "work/loop").symlink_to("loop")
    assert LocalDisk().real_path(f"{place}/work/loop") == "/"


@pytest.mark.parametrize(
    ("target", "end"),
    [
        ("/proc/self/cwd/x", "/proc"),
        ("/proc/self/root/etc", "/proc"),
        ("/dev/fd/3", "/dev/fd"),
        ("/dev/stdin", "/dev/stdin"),
        ("/dev/null", "/dev/null"),
    ],
)
def test_a_way_through_the_systems_own_directories_ends_there(place: Path, target: str, end: str):
    (place / "work/link").symlink_to(target)
    assert LocalDisk().real_path(f"{place}/work/link") == end
    assert LocalDisk().real_path(target) == end


def test_a_private_file_with_another_name_leads_to_no_workspace(place: Path):
    (place / "else/secret").chmod(0o600)
    os.link(place / "else/secret", place / "work/twin")
    assert LocalDisk().real_path(f"{place}/work/twin") == "/"
    (place / "else/secret").chmod(0o644)
    assert LocalDisk().real_path(f"{place}/work/twin") == f"{place}/work/twin"


def test_patterns_match_as_in_a_shell(place: Path):
    (place / "work/.hidden").write_text("")
    found = LocalDisk().match(f"{place}/work/*")
    assert sorted(found or ()) == [f"{place}/work/a", f"{place}/work/sub"]
    assert LocalDisk().match(f"{place}/work/x*") == []
    assert LocalDisk().match("/proc/*/root") is None


def test_a_pattern_that_matches_very_much_is_not_known(place: Path):
    for number in range(301):
        (place / f"work/f{number}").touch()
    assert LocalDisk().match(f"{place}/work/f*") is None


def test_a_program_is_the_first_that_path_has(place: Path):
    first = put_program(place / "one")
    put_program(place / "two")
    put_program(place / "zero", mode=0o644)
    disk = LocalDisk({"PATH": f"{place}/zero:{place}/one:{place}/two"})
    assert disk.find_program("ls") == str(first)
    assert disk.find_program("missing") is None


@pytest.mark.parametrize("relative", [".", "", "bin", "./bin"])
def test_a_relative_directory_in_path_makes_later_programs_uncertain(place: Path, relative: str):
    file = put_program(place / "one")
    assert LocalDisk({"PATH": f"{relative}:{place}/one"}).find_program("ls") is None
    assert LocalDisk({"PATH": f"{place}/one:{relative}"}).find_program("ls") == str(file)


@pytest.mark.parametrize("which", ["file", "folder"])
def test_a_program_that_others_may_write_is_not_known(place: Path, which: str):
    file = put_program(place / "one")
    (file if which == "file" else file.parent).chmod(0o777)
    assert LocalDisk({"PATH": f"{place}/one"}).find_program("ls") is None


def test_commands_inherit_no_functions_and_no_start_files():
    ours = {
        "PATH": "/usr/bin",
        "BASH_FUNC_ls%%": "() { touch x; }",
        "BASH_ENV": "./x",
        "ENV": "./x",
        "CDPATH": "/",
        "PS4": "$(touch x)",
        "PROMPT_COMMAND": "touch x",
        "SHELLOPTS": "xtrace",
        "BASHOPTS": "extglob",
        "IFS": "x",
        "GLOBIGNORE": "*",
        "LD_PRELOAD": "./x.so",
        "RIPGREP_CONFIG_PATH": "./x",
        "GREP_OPTIONS": "-f/etc/passwd",
        "GIT_EXTERNAL_DIFF": "./x",
        "POSIXLY_CORRECT": "1",
    }
    assert child_environment(source=ours) == {"PATH": "/usr/bin"}
