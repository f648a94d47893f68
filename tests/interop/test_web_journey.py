"""The main way through the page with agents of other vendors, on the scripted model."""

import os
from pathlib import Path

import pytest

from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.testing.model_server import ModelServer
from quarterdeck.wire.events import PermissionAnswered
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.worktrees import WorktreeOptions
from tests.support import real_agents
from tests.support.scripted_fleet import events_of, places_in
from tests.support.work_trees import git

pytest.importorskip("starlette")
from tests.support.browser import PHONE, SCREEN, browsing, needs_browser
from tests.support.web_rig import serving_web

PROGRAMS = {"opencode": "opencode", "codex": "codex-acp"}
MISSING = [program for program in PROGRAMS.values() if real_agents.find(program) is None]
LONG = 100.0

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(240),
    needs_browser,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]


def make_project(folder: Path) -> Path:
    project = folder / "project"
    project.mkdir()
    git(project, "init", "-q", "-b", "main")
    (project / "README.md").write_text("A project.\n")
    git(project, "add", ".")
    git(project, "commit", "-qm", "start")
    return project


def new_agent_of(name: str, folder: Path, url: str) -> SpawnOptions:
    options = SessionOptions(
        agent=name,
        transport="acp",
        cwd=str(folder / "project"),
        environment=real_agents.environment(PROGRAMS[name], folder / f"{name}-home", url),
        worktree=WorktreeOptions(),
    )
    return SpawnOptions(options=options, name=name, prompt="scene:write")


@pytest.mark.parametrize("size", [PHONE, SCREEN], ids=["phone", "screen"])
async def test_two_vendors_are_answered_reviewed_and_merged_in_a_browser(
    tmp_path: Path, size: tuple[int, int]
):
    project = make_project(tmp_path)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    async with (
        ModelServer() as server,
        LocalFleet.open(places_in(tmp_path / "fleet"), environment) as fleet,
        serving_web(tmp_path, fleet) as rig,
        browsing(rig, size) as browser,
    ):
        browser.context.set_default_timeout(LONG * 1000)
        await browser.pair(person="Ann")
        for name in PROGRAMS:
            await fleet.spawn(new_agent_of(name, tmp_path, server.url))
        page = browser.page
        for name in PROGRAMS:
            await page.get_by_role("article", name=f"request of {name}").wait_for()
        await browser.open("#/agents")
        rows = page.get_by_role("list", name="agents").get_by_role("listitem")
        await rows.nth(1).wait_for()
        assert await rows.count() == 2
        session = (await fleet.agent("opencode")).session
        await browser.open("#/inbox")
        card = page.get_by_role("article", name="request of opencode")
        await card.get_by_text("hello.txt").first.wait_for()
        await card.locator("button.main").first.click()
        await card.wait_for(state="detached")
        assert [one.name for one in await fleet.inbox()] == ["codex"]
        await fleet.wait(["opencode"], timeout=LONG)

        await browser.open(f"#/agent/{session}")
        await page.get_by_label("prompt for opencode").fill("scene:slow")
        await browser.press("send")
        await browser.press("interrupt")
        await page.locator(".head").get_by_text("stopped").wait_for()

        await browser.open(f"#/review/{session}")
        await page.get_by_role("button", name="hello.txt").first.click()
        await page.get_by_role("button", name="comment on line 1").last.click()
        await page.get_by_label("comment on line 1", exact=True).last.fill("who is it for?")
        await browser.press("comment")
        await browser.sees("who is it for?")
        if size == PHONE:
            await browser.press("all files")
        await browser.press("merge …")
        merge = page.get_by_role("button", name="merge", exact=True)
        assert await merge.is_disabled()  # the branch is checked out: its files are asked about
        await page.get_by_label("update my files in").check()
        await merge.click()
        result = page.locator(".landing > p.good, .landing > p.bad")
        await result.wait_for()
        assert "landed" in await result.inner_text()
        assert "hello.txt" in git(project, "ls-tree", "--name-only", "main")
        assert (project / "hello.txt").exists()
        answered = [
            one
            for one in await events_of(fleet, "opencode")
            if isinstance(one, PermissionAnswered) and one.by.kind == "person"
        ]
        assert [(one.by.name or "").partition(" (")[0] for one in answered] == ["Ann"]
