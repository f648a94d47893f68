"""A workbench whose agents are on another machine: nothing of this one is taken for theirs."""

from pathlib import Path

import pytest

from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.wire.content import text
from quarterdeck.workbench.commands.registry import COMMANDS
from quarterdeck.workbench.commands.runner import LOCAL_COMMANDS
from quarterdeck.workbench.layout.spec import LayoutError
from quarterdeck.workbench.mentions import build_prompt, keep_mentions
from quarterdeck.workbench.remote_control import RefusedCallError
from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import opened, screen_text, until


async def test_what_is_about_this_machine_is_refused(tmp_path: Path):
    assert {command.name for command in COMMANDS} >= LOCAL_COMMANDS
    fleet = FakeFleet()
    await fleet.spawn(SpawnOptions.of(agent="fake", cwd="/there", name="ann"))
    async with opened(fleet, tmp_path / "drafts") as (app, pilot):
        app.context.remote = "box"
        for name in ("trust", "settings", "permissions", "web"):
            with pytest.raises(RefusedCallError, match=f"/{name} is about this machine"):
                await app.run_command(name, "")
        for kind in ("tree", "editor", "diff"):
            with pytest.raises(LayoutError, match="the agents are on 'box'"):
                await app.run_command("open", kind)
        await app.run_command("open", "inbox")
        await app.run_command("cd", "/there/only")
        assert app.context.cwd == "/there/only"
        await until(pilot, lambda: "ann" in screen_text(app))


def test_mentions_stay_names(tmp_path: Path):
    (tmp_path / "a.png").write_bytes(b"\x89PNG")
    prompt = "look at @a.png"
    assert len(build_prompt(prompt, str(tmp_path))[0]) == 2
    content, notices = keep_mentions(prompt, str(tmp_path))
    assert content == (text(prompt),)
    assert notices == ["the image is on the host's machine; sending its name"]
    assert keep_mentions("hello @b.py", "/")[1] == []
