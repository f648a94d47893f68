"""A child sees an allow-list; importing the room is cheap."""

import subprocess
import sys
from pathlib import Path

import pytest

from quarterdeck.system.environment import (
    child_environment,
    find_own_program,
    find_program,
    search_folders,
)


def test_only_the_allow_list_is_passed_on():
    ours = {
        "PATH": "/bin",
        "HOME": "/home/me",
        "LC_ALL": "C",
        "XDG_STATE_HOME": "/s",
        "SECRET_API_KEY": "k",
        "AWS_SESSION_TOKEN": "t",
        "NODE_OPTIONS": "--require evil",
    }
    passed = child_environment({"EXTRA": "1", "HOME": "/other"}, source=ours)
    assert passed == {
        "PATH": "/bin",
        "HOME": "/other",
        "LC_ALL": "C",
        "XDG_STATE_HOME": "/s",
        "EXTRA": "1",
    }
    assert child_environment(inherit=["SECRET_API_KEY"], source=ours)["SECRET_API_KEY"] == "k"
    assert "MISSING" not in child_environment(inherit=["MISSING"], source=ours)


def test_programs_are_found_in_the_childs_own_path(tmp_path: Path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "two" / "tool").chmod(0o755)
    path = {"PATH": f"{tmp_path}/one:{tmp_path}/two"}
    assert find_program("tool", path, "/") == f"{tmp_path}/two/tool"
    assert find_program("./tool", {}, f"{tmp_path}/two") == f"{tmp_path}/two/./tool"
    assert find_program("tool", {"PATH": "two"}, str(tmp_path)) == f"{tmp_path}/two/tool"


def modules_after(statement: str, *flags: str) -> set[str]:
    code = f"{statement}; import sys; print(*sys.modules)"
    return set(
        subprocess.run(
            [sys.executable, *flags, "-c", code], stdout=subprocess.PIPE, text=True, check=True
        ).stdout.split()
    )


def test_importing_the_room_brings_nothing_heavy():
    loaded = modules_after("import quarterdeck.system.local")
    assert loaded.isdisjoint({"tempfile", "shutil", "multiprocessing", "ctypes"})


def test_the_watchdog_imports_next_to_nothing():
    source = Path(__file__).parents[2] / "src"
    statement = (
        f"import sys; sys.path.insert(0, {str(source)!r}); import quarterdeck.system.watchdog"
    )
    loaded = modules_after(statement, "-I", "-S", "-E")
    assert loaded.isdisjoint({"asyncio", "pathlib", "subprocess", "typing", "logging", "msgspec"})


def test_a_program_of_ours_is_not_taken_from_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for folder in ("project/bin", "other"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "tool").write_text("#!/bin/sh\n")
        (tmp_path / folder / "tool").chmod(0o755)
    (tmp_path / "project" / "bin" / "only").write_text("#!/bin/sh\n")
    (tmp_path / "project" / "bin" / "only").chmod(0o755)
    (tmp_path / "way-in").symlink_to("project/bin")
    project = str(tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project" / "bin")
    path = f".::bin:{project}/bin:{tmp_path}/way-in:{tmp_path}/other"
    monkeypatch.setenv("PATH", path)
    assert find_own_program("tool", [project]) == f"{tmp_path}/other/tool"
    assert find_own_program("only", [project]) is None
    assert find_own_program("only", []) == f"{project}/bin/only"
    assert find_own_program("tool", ["/"]) == f"{project}/bin/tool"
    assert search_folders([project]) == [f"{tmp_path}/other"]
