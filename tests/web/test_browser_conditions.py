"""A page that sleeps, has a wrong clock, is old, is open twice, or may not keep a cookie."""

import asyncio
from typing import Any

import pytest

from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.content import text
from quarterdeck.wire.events import MessageChunk
from quarterdeck.wire.ids import SessionId
from tests.support.browser import PHONE, SCREEN, browsing, browsing_many, needs_browser
from tests.support.web_rig import WebRig

pytestmark = needs_browser

# What a browser says when its tab is put into the background, and when it is back.
HIDE = """isHidden => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => isHidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
# The page knows the files it was loaded with; this one was loaded before the server was updated.
AGE = """async () => {
  const { live, store } = await import("/connection.js");
  store.page = "of another time";
  globalThis.isOld = true;
  live.reconnect();
}"""


async def test_a_tab_asleep_for_a_day_on_a_device_whose_clock_is_wrong(rig: WebRig):
    session = SessionId(await rig.spawn("ann", "say good morning"))
    async with browsing(rig, PHONE) as browser:
        page: Any = browser.page
        # An hour ahead; and the clock goes on only when the test says so.
        await page.clock.install(time=(read_wall_clock() / 1e6) + 3600)
        await browser.pair()
        await browser.open("#/agents")
        age = page.locator("[title='last change']", has_text="s")  # by the server's clock
        await age.wait_for()
        await browser.open(f"#/agent/{session}")
        await browser.sees("good morning")

        opened: list[Any] = []
        page.on("websocket", lambda one: opened.append(one))
        await page.evaluate(HIDE, True)
        await page.clock.fast_forward("24:00:00")
        for number in range(450):  # more than the page keeps at once
            await rig.fleet.append(session, MessageChunk(content=text(f"<{number}>")))
        await rig.fleet.send("ann", (text("ask"),))
        # Who looks at the list of tabs sees that it is still there, and what waits.
        await page.wait_for_function("() => document.title === '(1) Quarterdeck'")
        assert await page.get_by_role("button", name="Allow", exact=True).count() == 0
        await page.evaluate(HIDE, False)
        await page.clock.run_for(1_000)
        await page.get_by_role("button", name="Allow", exact=True).wait_for()
        await browser.sees("<449>")
        said = "".join(await page.locator(".block.message").all_inner_texts())
        expected = "".join(f"<{number}>" for number in range(450))
        assert expected in said.replace("\n", "") and len(opened) == 1, "one new connection"


async def test_two_tabs_of_one_device_and_a_page_older_than_the_server(rig: WebRig):
    await rig.spawn("ann", "ask")
    async with browsing(rig, SCREEN) as browser:
        await browser.pair("operator")
        first, second = browser.page, await browser.context.new_page()
        await second.goto(rig.url)
        for page in (first, second):
            await page.get_by_role("button", name="Allow", exact=True).wait_for()
        await second.get_by_role("button", name="Allow", exact=True).click()
        for page in (first, second):
            await page.get_by_text("No agent needs you").wait_for()
        await browser.open("#/settings")
        await browser.sees("2 open")
        await second.close()

        # The old page says so where someone is writing, and loads itself anew elsewhere.
        await browser.open("#/spawn")
        await first.get_by_label("prompt").fill("a long prompt")
        await first.evaluate(AGE)
        await browser.sees("Quarterdeck was updated.")
        assert await first.evaluate("() => globalThis.isOld")
        await first.get_by_role("button", name="reload").click()
        await first.wait_for_function("() => !globalThis.isOld")
        await browser.open("#/inbox")
        await browser.sees("No agent needs you")
        await first.evaluate(AGE)
        await first.wait_for_function("() => !globalThis.isOld")
        await browser.sees("No agent needs you")


@pytest.mark.stress
async def test_a_browser_without_cookies_is_told_why(rig: WebRig):
    async def forget(route: Any) -> None:
        """The browser does not keep what the server sets."""
        answer = await route.fetch()
        await forgetful.context.clear_cookies()
        headers = {key: one for key, one in answer.headers.items() if key != "set-cookie"}
        await route.fulfill(response=answer, headers=headers)

    async with browsing_many(rig, PHONE, PHONE) as (without, forgetful):
        script = "Object.defineProperty(navigator, 'cookieEnabled', { get: () => false });"
        await without.page.add_init_script(script)
        await without.page.goto(rig.url)
        await without.sees("cookies are disabled here")
        await forgetful.context.route("**/api/v1/pair", forget)
        code = await asyncio.to_thread(rig.store.start_pairing, "viewer", "ann")
        await forgetful.page.goto(f"{rig.url}/pair#{code}")
        await forgetful.press("pair")
        await forgetful.sees("the browser did not keep the cookie")
