"""The page in Chromium: how soon a fleet and a long session are seen, and words on the screen."""

import asyncio
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from playwright.async_api import async_playwright

from quarterdeck.config.places import Places
from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.fleet.client import HostClient
from quarterdeck.web.devices import DeviceStore
from quarterdeck.web.server import WebServerOptions, launch_server, stop_server
from quarterdeck.wire.content import text

RATE = 20
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
LAST = "the-last-of-all"

# When what is wanted can be seen: in the first frame after the document has it.
SEEN = """wanted => {
  globalThis.seen = 0;
  const look = () => {
    const rows = document.querySelectorAll("ul[aria-label=agents] > .row").length;
    const text = document.querySelector(".blocks")?.lastElementChild?.parentElement?.textContent;
    if (!globalThis.seen && (wanted.rows ? rows >= wanted.rows : text?.includes(wanted.text))) {
      requestAnimationFrame(() => { globalThis.seen ||= performance.now(); });
    }
  };
  const start = () => {
    const options = { childList: true, subtree: true, characterData: true };
    new MutationObserver(look).observe(document.documentElement, options);
  };
  if (document.documentElement) start(); else addEventListener("DOMContentLoaded", start);
}"""
# Each chunk says when it was written, in nanoseconds; the frame after it is in the document counts.
PIXELS = """() => {
  globalThis.taken = [];
  let known = 0, isAsked = false;
  const look = () => {
    isAsked = false;
    const messages = [...document.querySelectorAll(".block.message")];
    const said = messages.map((one) => one.textContent).join(" ").match(/\\b\\d{19}\\b/g) ?? [];
    const now = performance.timeOrigin + performance.now();
    for (const one of said.slice(known)) globalThis.taken.push(now - Number(one) / 1e6);
    known = Math.max(known, said.length);
  };
  const ask = () => { if (!isAsked) { isAsked = true; requestAnimationFrame(look); } };
  const options = { childList: true, subtree: true, characterData: true };
  new MutationObserver(ask).observe(document.querySelector(".blocks"), options);
}"""


def cpu_of(pid: int) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Traffic:
    """What a page got, before it is unpacked."""

    def __init__(self) -> None:
        self.bytes = 0

    async def count(self, context: Any, page: Any) -> Any:
        """Count from now on; returns the session with the browser."""
        session = await context.new_cdp_session(page)
        await session.send("Network.enable")
        session.on("Network.loadingFinished", self._loaded)
        session.on("Network.webSocketFrameReceived", self._received)
        return session

    def _loaded(self, event: dict[str, Any]) -> None:
        self.bytes += int(event["encodedDataLength"])

    def _received(self, event: dict[str, Any]) -> None:
        self.bytes += len(event["response"]["payloadData"])


async def open_view(context: Any, address: str, wanted: dict[str, Any]) -> dict[str, float]:
    """Open a view in a tab of its own: milliseconds until it is seen, bytes, megabytes of heap."""
    page, traffic = await context.new_page(), Traffic()
    session = await traffic.count(context, page)
    await page.add_init_script(f"({SEEN})({json.dumps(wanted)})")
    await page.goto(address)
    await page.wait_for_function("() => globalThis.seen > 0", timeout=60_000)
    seen = await page.evaluate("() => globalThis.seen")
    paint = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
    painted = await page.evaluate(paint)
    await session.send("HeapProfiler.collectGarbage")
    heap = await session.send("Runtime.getHeapUsage")
    await page.close()
    kept = heap["usedSize"] / 1e6
    return {"seen": seen, "painted": painted, "bytes": traffic.bytes, "heap": kept}


async def open_window(browser: Any, server: Any, key: str) -> Any:
    """A window of its own: of tabs in one window, only the one in front gets all its frames."""
    context = await browser.new_context(service_workers="block")
    await context.add_cookies([{"name": "quarterdeck", "value": key, "url": server.url}])
    return context


async def watch_words(
    fleet: HostClient, contexts: list[Any], server: Any, ids: list[str], seconds: float
) -> dict[str, float]:
    """All agents speak; each page shows one of them."""
    opened: list[Any] = []
    for number, context in enumerate(contexts):
        page = await context.new_page()
        await page.goto(f"{server.url}/#/agent/{ids[number * len(ids) // len(contexts)]}")
        await page.locator(".blocks .block").first.wait_for()
        await page.evaluate(PIXELS)
        opened.append(page)
    begun, cpu = time.monotonic(), cpu_of(server.pid)
    for agent in ids:
        await fleet.send(agent, (text(f"{seconds} {RATE}"),))
    expected = int(seconds * RATE)
    taken: list[float] = []
    for page in opened:
        # Asked now and then: by itself it would be asked in every frame.
        wait = f"() => globalThis.taken.length >= {expected}"
        patience = (seconds * 4 + 60) * 1000
        await page.wait_for_function(wait, timeout=patience, polling=500)
        taken += await page.evaluate("() => globalThis.taken")
    lasted = time.monotonic() - begun
    taken.sort()
    return {
        "p50": taken[len(taken) // 2],
        "p99": taken[int(len(taken) * 0.99)],
        "words": len(taken),
        "cpu": (cpu_of(server.pid) - cpu) / lasted,
    }


async def main(seconds: float, agents: int, pages: int, long: str) -> None:
    places = Places.find()
    program = next(found for name in BROWSERS if (found := shutil.which(name)))
    async with HostClient.connect(places, start=True) as fleet:
        server = await launch_server(places, WebServerOptions(port=0), os.environ)
        store = DeviceStore.of(places)
        _, key = await asyncio.to_thread(store.add_device, "bench", "bench", "viewer")
        options = {"agent": "paced", "cwd": str(Path.cwd())}
        ids = [
            str((await fleet.spawn(SpawnOptions.of(name=f"paced-{number}", **options))).session)
            for number in range(agents)
        ]
        session = (await fleet.agent(long)).session
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(
                executable_path=program, args=["--no-sandbox", "--disable-gpu"]
            )
            windows = [await open_window(browser, server, str(key)) for _ in range(pages)]
            context = windows[0]
            told = {
                "fleet": await open_view(context, f"{server.url}/#/agents", {"rows": agents}),
                "session": await open_view(
                    context, f"{server.url}/#/agent/{session}", {"text": LAST}
                ),
                "words": await watch_words(fleet, windows, server, ids, seconds),
            }
            await browser.close()
        await stop_server(places)
        await fleet.stop_host()
    print(json.dumps(told))


asyncio.run(main(float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]))
