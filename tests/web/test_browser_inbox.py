"""The inbox in a real browser over real agents: groups, people who have to allow, swipes."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.fleet.local import LocalFleet
from quarterdeck.wire.events import PermissionAnswered, PermissionApproved
from tests.support.browser import (
    PHONE,
    SCREEN,
    BrowserPage,
    browsing,
    browsing_many,
    find_axe,
    needs_browser,
)
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import events_of, fleet_of, new_agent, places_in
from tests.support.web_rig import WebRig, serving_web

pytestmark = needs_browser
TEAM = """
[people.ann]
devices = true
[people.bob]
devices = true
[people.cleo]
uid = 4242
[[permissions.approvers]]
match = "bash(git push:*)"
people = ["ann", "bob", "cleo"]
needed = 2
"""


@asynccontextmanager
async def asking(
    folder: Path, *commands: str, settings: str = ""
) -> AsyncGenerator[tuple[WebRig, LocalFleet]]:
    """A server over agents that ask, one for each command."""
    home = folder / "home"
    file = places_in(home).config_file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(settings)
    async with fleet_of(home) as fleet, serving_web(folder, fleet) as rig:
        for number, command in enumerate(commands):
            await ask(fleet, folder, f"a{number}", command)
        yield rig, fleet


async def ask(fleet: LocalFleet, folder: Path, name: str, command: str) -> None:
    await fleet.spawn(new_agent(folder, name=name, prompt=f"ask {command}"))
    await fleet.wait([name], timeout=SOON)


async def answers(fleet: LocalFleet, *names: str) -> list[PermissionAnswered]:
    events = [one for name in names for one in await events_of(fleet, name)]
    return [one for one in events if isinstance(one, PermissionAnswered)]


async def test_alike_requests_of_several_agents_are_one_card(tmp_path: Path):
    commands = ("npm test", "git push", "npm test", "npm test")
    async with asking(tmp_path, *commands) as (rig, fleet), browsing(rig, PHONE) as browser:
        await browser.pair("approver", person="Ann")
        card = browser.page.get_by_role("group", name="3 requests that are alike")
        await card.get_by_text("3 agents want").wait_for()
        assert [one in await card.inner_text() for one in ("a0", "a1", "a2", "a3")] == [
            True, False, True, True,
        ]  # fmt: skip
        # One of them apart, the rest together: each is answered once.
        await card.get_by_text("one by one").click()
        alone = card.get_by_role("article", name="request of a2")
        await alone.get_by_role("button", name="No", exact=True).click()
        rest = browser.page.get_by_role("group", name="2 requests that are alike")
        await rest.get_by_role("button", name="allow all 2 once").click()
        await rest.wait_for(state="detached")
        assert await browser.page.get_by_role("article", name="request of a1").count() == 1
        found = await answers(fleet, "a0", "a2", "a3")
        assert [one.kind for one in found] == ["allow_once", "reject_once", "allow_once"]
        assert {one.by.name for one in found if one.by.name} and found[0].group == found[2].group
        assert found[1].group is None and not await answers(fleet, "a1")
        assert await browser.has_no_sideways_scroll()


async def test_what_differs_in_a_group_is_shown_and_words_go_to_all(tmp_path: Path):
    commands = ("npm test", "timeout 5 npm test")
    async with asking(tmp_path, *commands) as (rig, fleet), browsing(rig) as browser:
        await browser.pair("approver")
        members = browser.page.get_by_role("list", name="who asks").get_by_role("listitem")
        await members.first.wait_for()
        shown = [" ".join((await one.inner_text()).split()) for one in await members.all()]
        assert shown == ["a0 command npm test", "a1 command timeout 5 npm test"]
        await browser.press("deny all 2 with words")
        await browser.page.get_by_label("what the agent should do instead").fill("use make")
        await browser.press("deny all 2")
        await browser.sees("No agent needs you")
        found = await answers(fleet, "a0", "a1")
        assert [(one.kind, one.feedback) for one in found] == [("reject_once", "use make")] * 2


async def test_people_have_to_allow_and_the_page_says_who_is_missing(tmp_path: Path):
    async with asking(tmp_path, "git push", settings=TEAM) as (rig, fleet):
        async with browsing_many(rig, PHONE, SCREEN, SCREEN) as (ann, bob, eve):
            for browser, person in ((ann, "ann"), (bob, "bob"), (eve, "eve")):
                await browser.pair("approver", person=person)
                await browser.sees("0 of 2")
                await browser.sees("waits for ann or bob or cleo")
            await eve.sees("it cannot answer this")
            assert await eve.page.get_by_role("button", name="Yes").count() == 0
            await ann.press("Yes")
            await ann.sees("you allowed it")
            await ann.sees("others have to allow it, too")
            assert await ann.page.get_by_role("button", name="Yes").count() == 0
            await bob.sees("1 of 2")
            await bob.sees("waits for bob or cleo")
            await bob.press("Yes")
            for browser in (ann, bob, eve):
                await browser.sees("No agent needs you")
        events = await events_of(fleet, "a0")
        approved = [one.by.name for one in events if isinstance(one, PermissionApproved)]
        assert approved == ["ann", "bob"]
        (answered,) = await answers(fleet, "a0")
        assert (answered.kind, answered.by.name) == ("allow_once", "ann, bob")


async def swipe(browser: BrowserPage, by: int, *, lift_at: int | None = None) -> None:
    """A finger on the first card, moved sideways, then to where it is lifted."""
    box = await browser.page.locator(".card p.asking").first.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    session: Any = await browser.context.new_cdp_session(browser.page)

    async def touch(kind: str, *points: float) -> None:
        at = [{"x": one, "y": y} for one in points]
        await session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": at})

    await touch("touchStart", x)
    for step in range(1, 11):
        await touch("touchMove", x + by * step / 10)
    if lift_at is not None:
        await touch("touchMove", x + lift_at)
    await touch("touchEnd")


async def test_a_swipe_decides_only_beyond_its_threshold_and_never_what_is_risky(tmp_path: Path):
    async with asking(tmp_path, "npm test") as (rig, fleet):
        async with browsing(rig, PHONE, touch=True) as browser:
            await browser.pair("approver")
            await browser.sees("npm test")
            await browser.page.locator(".swipe-hint").wait_for()
            await swipe(browser, 60)  # not far enough
            await swipe(browser, 160, lift_at=20)  # taken back before the finger is lifted
            assert await fleet.inbox()
            await swipe(browser, 160)
            await browser.sees("No agent needs you")
            await ask(fleet, tmp_path, "b", "npm test")
            await browser.sees("npm test")
            await swipe(browser, -160)
            await browser.sees("No agent needs you")
            await ask(fleet, tmp_path, "c", "rm -rf build")
            await browser.sees("rm -rf build")
            assert await browser.page.locator(".swipe-hint").count() == 0
            await swipe(browser, 160)
            await swipe(browser, -160)
            assert [one.name for one in await fleet.inbox()] == ["c"]
            assert await browser.page.get_by_role("button", name="Yes").is_enabled()
        assert [one.kind for one in await answers(fleet, "a0", "b", "c")] == [
            "allow_once", "reject_once",
        ]  # fmt: skip


async def test_groups_and_approvers_have_no_serious_violation_of_accessibility(tmp_path: Path):
    script = find_axe()
    if script is None:
        pytest.skip("needs axe-core: make build/axe/.done")
    commands = ("npm test", "npm test", "git push")
    async with asking(tmp_path, *commands, settings=TEAM) as (rig, _), browsing(rig) as browser:
        await browser.pair("approver")
        await browser.sees("2 agents want")
        await browser.page.get_by_text("one by one").click()
        assert await browser.find_violations(script) == []
