"""What holds for a whole session: denied files stay unread, full-auto runs in the sandbox."""

from pathlib import Path

import pytest

from quarterdeck.policy.grammar import parse_rule
from quarterdeck.system.sandbox import detect_sandbox
from quarterdeck.wire.events import ModeChanged, NoticePosted, PermissionAsked
from tests.support.native_agents import call, deck, results, says, told

DENIED = (parse_rule("deny read(secrets/**)", scope="session"),)


def write_script(directory: Path, outside: Path) -> None:
    """A program whose deeds no rule can read off its command line."""
    script = directory / "write.sh"
    script.write_text(f"#!/bin/sh\necho in > inside.txt\necho out > {outside}\n")
    script.chmod(0o755)


async def test_a_search_does_not_look_into_what_is_denied(tmp_path: Path):
    looks = says(call("grep", pattern="treasure"), call("glob", pattern="**/*"))
    async with deck(tmp_path, looks, "done", rules=DENIED) as ship:
        (ship.cwd / "secrets").mkdir()
        (ship.cwd / "secrets" / "map.txt").write_text("treasure here\n")
        (ship.cwd / "open.txt").write_text("no treasure\n")
        await ship.prompt()
        found = "".join(told(result) for result in results(ship.requests[-1].messages[-1]))
        assert "open.txt" in found
        assert "map.txt" not in found
        assert "treasure here" not in found


async def test_full_auto_runs_commands_in_the_sandbox_without_asking(tmp_path: Path):
    sandbox = await detect_sandbox()
    if not sandbox.is_there:
        pytest.skip(f"no sandbox here: {sandbox.reason}")
    outside = tmp_path / "outside.txt"
    run = says(call("bash", command="./write.sh"))
    async with deck(tmp_path, run, "ok", mode="full-auto") as ship:
        write_script(ship.cwd, outside)
        await ship.prompt()
        assert await ship.events(PermissionAsked) == []
        assert (ship.cwd / "inside.txt").read_text() == "in\n"
        assert not outside.exists()
        assert any(sandbox.kind in notice.title for notice in await ship.events(NoticePosted))


async def test_entering_full_auto_later_brings_the_sandbox_into_force(tmp_path: Path):
    sandbox = await detect_sandbox()
    if not sandbox.is_there:
        pytest.skip(f"no sandbox here: {sandbox.reason}")
    outside = tmp_path / "outside.txt"
    async with deck(tmp_path, says(call("bash", command="./write.sh")), "ok") as ship:
        write_script(ship.cwd, outside)
        await ship.session.set_mode("full-auto")
        await ship.prompt()
        assert (await ship.events(ModeChanged))[-1].mode == "full-auto"
        assert not outside.exists()
        assert (ship.cwd / "inside.txt").exists()


async def test_a_command_is_judged_by_where_its_paths_lead(tmp_path: Path):
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "diary.txt").write_text("dear diary\n")
    reads = says(call("bash", command="cat link/diary.txt"))
    async with deck(tmp_path, reads, "ok", attended=False) as ship:
        (ship.cwd / "link").symlink_to(tmp_path / "private")
        await ship.prompt()
        (asked,) = await ship.events(PermissionAsked)
        assert asked.name == "bash"
        assert ship.session.gate.refused_unattended == 1
