"""A decision tapped on a notification, by the service worker of a real browser."""

import asyncio
import json
from typing import Any

from quarterdeck.wire.events import PermissionAnswered
from tests.support.browser import PHONE, BrowserPage, browsing, needs_browser
from tests.support.deadlines import SOON
from tests.support.web_rig import WebRig

pytestmark = needs_browser

PUSH = """async (data) => {
  const done = [];
  const event = new PushEvent("push", { data });
  Object.defineProperty(event, "waitUntil", { value: (work) => done.push(work) });
  self.dispatchEvent(event);
  await Promise.all(done);
}"""
# A tap, as far as a script can make one: its event may not be waited for, so the test does.
TAP = """async ([tag, action]) => {
  const found = await self.registration.getNotifications({ tag });
  const notification = found.at(-1);
  const done = [];
  const event = new NotificationEvent("notificationclick", { notification, action });
  Object.defineProperty(event, "waitUntil", { value: (work) => done.push(work) });
  self.dispatchEvent(event);
  await Promise.all(done);
}"""
SHOWN = """async () => (await self.registration.getNotifications()).map(
  ({ tag, title, body, actions }) => ({ tag, title, body, actions: actions.map((a) => a.action) })
)"""
ACTIVE = """async () => {
  const { active } = await navigator.serviceWorker.ready;
  while (active.state !== "activated") {
    await new Promise((resolve) => { active.addEventListener("statechange", resolve); });
  }
}"""
CUT = "() => { self.kept = self.fetch; self.fetch = () => Promise.reject(new TypeError()); }"


class NotifiedBrowser:
    """A paired browser, and what its service worker shows."""

    def __init__(self, browser: BrowserPage) -> None:
        self.browser = browser
        self.worker: Any = None
        self._origin = browser.rig.url
        self._session: Any = None
        self._registration: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def start(self) -> None:
        """Allow notifications and wait for the service worker."""
        page, context = self.browser.page, self.browser.context
        await context.grant_permissions(["notifications"], origin=self._origin)
        await page.evaluate(ACTIVE)  # a push to one that is not yet active is dropped
        (self.worker,) = context.service_workers
        self._session = await context.new_cdp_session(page)
        self._session.on("ServiceWorker.workerRegistrationUpdated", self._registered)
        await self._session.send("ServiceWorker.enable")

    def _registered(self, event: dict[str, Any]) -> None:
        found = [one["registrationId"] for one in event["registrations"] if not one["isDeleted"]]
        if found and not self._registration.done():
            self._registration.set_result(found[-1])

    async def deliver(self, **note: str) -> dict[str, Any]:
        """Let the browser deliver a push; what is shown then. Some it drops: sent until shown."""
        push = {
            "origin": self._origin,
            "registrationId": await self._registration,
            "data": json.dumps({"title": "ann needs you", **note}),
        }
        async with asyncio.timeout(SOON):
            while True:
                await self._session.send("ServiceWorker.deliverPushMessage", push)
                for _ in range(20):
                    if found := await self.find(note["tag"]):
                        return found[0]

    async def push(self, **note: str) -> dict[str, Any]:
        """What is shown when the service worker gets this push, once."""
        data = json.dumps({"title": "ann needs you", "route": "#/inbox", **note})
        await self.worker.evaluate(PUSH, data)
        (shown,) = await self.find(note["tag"])
        return shown

    async def find(self, tag: str) -> list[dict[str, Any]]:
        """The notifications about something that can be seen now."""
        return [one for one in await self.worker.evaluate(SHOWN) if one["tag"] == tag]

    async def tap(self, tag: str, action: str = "") -> None:
        """Tap an action of a notification, or the notification; returns when it is done."""
        await self.worker.evaluate(TAP, [tag, action])


async def ask(rig: WebRig, name: str) -> str:
    """Let a new agent ask; the request."""
    session = await rig.spawn(name, "ask")
    (item,) = [one for one in await rig.fleet.inbox() if one.session == session]
    return item.request


async def test_a_decision_on_a_notification_is_made_once_or_reported(rig: WebRig):
    def answers() -> list[str | None]:
        events = [one.event for one in rig.fleet.records]
        return [one.kind for one in events if isinstance(one, PermissionAnswered)]

    first, second, third = [await ask(rig, name) for name in ("ann", "bob", "cleo")]
    async with browsing(rig, PHONE) as browser:
        await browser.pair("approver", person="ann")
        phone = NotifiedBrowser(browser)
        await phone.start()

        assert (await phone.deliver(tag="done", body="is done"))["body"] == "is done"
        await phone.tap("done")

        note = await phone.push(tag=first, body="ls", request=first)
        assert (note["title"], note["body"]) == ("ann needs you", "ls")
        assert note["actions"] == ["allow_once", "reject_once"]
        await phone.tap(first, "allow_once")
        assert answers() == ["allow_once"] and await phone.find(first) == []
        # The same notification again, tapped either way: nothing more is decided, and it says so.
        for action in ("allow_once", "reject_once"):
            await phone.push(tag=first, body="ls", request=first)
            await phone.tap(first, action)
            (note,) = await phone.find(first)
            assert note["body"] == "it was already answered" and note["actions"] == []
        assert answers() == ["allow_once"]
        await phone.tap(first)

        await phone.push(tag=second, body="rm x", request=second)
        await phone.tap(second, "reject_once")
        assert answers() == ["allow_once", "reject_once"]

        # Without network it is reported; what was not sent is still open.
        lost = await phone.push(tag=third, body="make", request=third)
        await phone.worker.evaluate(CUT)
        await phone.tap(third, "allow_once")
        (note,) = await phone.find(third)
        assert note["body"].startswith("not confirmed") and note["title"] == lost["title"]
        assert len(answers()) == 2 and [one.request for one in await rig.fleet.inbox()] == [third]
        await phone.worker.evaluate("() => { self.fetch = self.kept; }")

        # What the settings do not name as safe has no request: there is nothing to tap but open.
        await browser.open("#/agents")
        note = await phone.push(tag="unsafe", body="git push")
        assert note["actions"] == []
        await phone.tap("unsafe", "allow_once")
        await browser.page.wait_for_function("() => location.hash === '#/inbox'")
        assert len(answers()) == 2
