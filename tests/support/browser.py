"""The system's Chromium without a window, driven by Playwright; tests without one are skipped."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.wire.events import PermissionAsked, ToolCallStarted
from quarterdeck.wire.ids import SessionId, new_request_id, new_tool_call_id
from quarterdeck.wire.permissions import PermissionOption
from quarterdeck.wire.tool_calls import Diff

from .memory_fleet import FakeFleet
from .web_rig import WebRig

__all__ = [
    "PHONE",
    "SCREEN",
    "BrowserPage",
    "ask_to_edit",
    "browsing",
    "browsing_many",
    "find_axe",
    "needs_browser",
]

PHONE, SCREEN = (390, 844), (1440, 900)
_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_PATIENCE = 20_000


def find_browser() -> str | None:
    """The program of a browser that Playwright can drive."""
    return next((found for name in _NAMES if (found := shutil.which(name))), None)


needs_browser = pytest.mark.skipif(find_browser() is None, reason="needs Chromium")


def find_axe() -> str | None:
    """The script that finds violations of accessibility rules."""
    path = Path(__file__).parents[2] / "build/axe/node_modules/axe-core/axe.min.js"
    return path.read_text() if path.exists() else None


class BrowserPage:
    """A page and what went wrong in it."""

    def __init__(self, page: Any, context: Any, rig: WebRig) -> None:
        self.page = page
        self.context = context
        self.rig = rig
        self.problems: list[str] = []
        self.foreign: list[str] = []
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", self._heard)
        page.on("dialog", lambda dialog: self.problems.append(f"dialog {dialog.message}"))
        page.on("request", self._asked)

    def _heard(self, message: Any) -> None:
        if message.type == "error" and "status of 401" not in message.text:
            self.problems.append(message.text)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.rig.url, "data:", "blob:")):
            self.foreign.append(request.url)

    async def pair(self, role: Any = "operator", person: str = "ann") -> None:
        """Open a pairing link and use it."""
        code = await asyncio.to_thread(self.rig.store.start_pairing, role, person)
        await self.page.goto(f"{self.rig.url}/pair#{code}")
        await self.page.get_by_role("button", name="pair").click()
        await self.page.get_by_role("navigation").wait_for()
        assert code not in self.page.url

    async def open(self, route: str) -> None:
        """Go to a view by its address."""
        await self.page.evaluate("route => { location.hash = route; }", route)

    async def sees(self, words: str) -> None:
        """Wait until these words can be seen."""
        await self.page.get_by_text(words).first.wait_for()

    async def press(self, name: str, *, exact: bool = True) -> None:
        """Press a button."""
        await self.page.get_by_role("button", name=name, exact=exact).first.click()

    async def find_violations(self, script: str) -> list[str]:
        """The serious violations of accessibility rules in what is shown."""
        await self.page.evaluate(script)
        found: dict[str, Any] = await self.page.evaluate(
            "() => axe.run(document, { resultTypes: ['violations'] })"
        )
        return [
            f"{one['id']}: {[node['target'] for node in one['nodes']][:3]}"
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
        ]

    async def read_text(self) -> str:
        """What the page says now, for a message; empty if it cannot be read any more."""
        with contextlib.suppress(Exception):
            return str(await self.page.evaluate("() => document.body.innerText"))[-2000:]
        return ""

    async def has_no_sideways_scroll(self) -> bool:
        """Whether everything fits into the width."""
        script = "() => document.documentElement.scrollWidth <= innerWidth"
        return bool(await self.page.evaluate(script))


@asynccontextmanager
async def browsing(
    rig: WebRig, size: tuple[int, int] = SCREEN, *, scheme: str = "dark", touch: bool = False
) -> AsyncGenerator[BrowserPage]:
    """A browser with one page. What goes wrong in its scripts fails the test."""
    async with browsing_many(rig, size, scheme=scheme, touch=touch) as (page,):
        yield page


@asynccontextmanager
async def browsing_many(
    rig: WebRig, *sizes: tuple[int, int], scheme: str = "dark", touch: bool = False
) -> AsyncGenerator[list[BrowserPage]]:
    """One process with a browser for each size: none knows the cookies of another."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=find_browser(), args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            pages: list[BrowserPage] = []
            for width, height in sizes:
                context = await browser.new_context(
                    viewport={"width": width, "height": height},
                    color_scheme=scheme,
                    has_touch=touch,
                    reduced_motion="reduce",
                )
                context.set_default_timeout(_PATIENCE)
                pages.append(BrowserPage(await context.new_page(), context, rig))
            try:
                yield pages
            except BaseException as error:
                for page in pages:
                    error.add_note(f"problems {page.problems}; shown: {await page.read_text()}")
                raise
            for page in pages:
                if page.problems or page.foreign:
                    raise AssertionError(f"problems {page.problems}, other hosts {page.foreign}")
        finally:
            await browser.close()


async def ask_to_edit(
    fleet: FakeFleet, session: str, *, path: str = "src/app.py", title: str = "Edit src/app.py"
) -> None:
    """Let an agent ask for permission to change a file."""
    call, id_ = new_tool_call_id(), SessionId(session)
    await fleet.append(id_, ToolCallStarted(call=call, title=title, kind="edit"))
    ours = {"effect": "allow", "scope": "session", "patterns": ["edit(src/**)"]}
    asked = PermissionAsked(
        request=new_request_id(),
        call=call,
        title=title,
        kind="edit",
        content=(Diff(path=path, old_text="one\ntwo\nthree\n", new_text="one\nTWO\nthree\n"),),
        raw_input={"path": path, "old": "two", "new": "TWO"},
        reason="no rule allows it",
        options=(
            PermissionOption(
                option_id="allow-once",
                name="Allow once",
                kind="allow_once",
                meta={"quarterdeck": {"effect": "allow", "scope": "once", "patterns": []}},
            ),
            PermissionOption(
                option_id="allow-session-1",
                name="Always allow in this session: edit(src/**)",
                kind="allow_always",
                meta={"quarterdeck": ours},
            ),
            PermissionOption(
                option_id="reject-once",
                name="Reject",
                kind="reject_once",
                meta={"quarterdeck": {"effect": "deny", "scope": "once", "patterns": []}},
            ),
        ),
    )
    await fleet._put(id_, await fleet.append(id_, asked), asked)
