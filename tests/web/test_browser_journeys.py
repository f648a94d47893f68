"""The page in a real browser: the main ways through it, offline and back, hostile text."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from quarterdeck.fleet.terminals.api import FleetTerminalOptions
from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    MessageChunk,
    PermissionAnswered,
    PlanChanged,
    ThoughtChunk,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.ids import SessionId, TurnId
from quarterdeck.wire.record import Record
from quarterdeck.wire.settings import PlanEntry
from quarterdeck.wire.usage import TokenUsage
from quarterdeck.wire.worktrees import ChangeCounts, Worktree
from tests.support.browser import (
    PHONE,
    SCREEN,
    ask_to_edit,
    browsing,
    find_axe,
    needs_browser,
)
from tests.support.deadlines import SOON
from tests.support.hostile_text import hostile_strings
from tests.support.web_rig import WebRig

pytestmark = needs_browser
VIEWS = ("#/inbox", "#/agents", "#/agent/{id}", "#/review/{id}", "#/spawn", "#/search", "#/usage")
MORE_VIEWS = ("#/terminals", "#/settings")


def spend(rig: WebRig, session: str, days: int, tokens: int) -> None:
    """A turn so many days ago."""
    fleet = rig.fleet
    turn, usage = TurnId(f"trn_{len(fleet.records)}"), TokenUsage(input=tokens, output=tokens // 9)
    for event in (TurnStarted(), TurnEnded(stop="end_turn", usage=usage)):
        seq, time = len(fleet.records) + 1, read_wall_clock() - days * 86_400 * 1_000_000
        fleet.records.append(
            Record(seq=seq, time=time, session=SessionId(session), turn=turn, event=event)
        )


async def stage(rig: WebRig) -> str:
    """Two agents of two vendors; the first has changes in a worktree and asks."""
    await rig.spawn("docs", "say **Done**: see `README.md`\n\n- one\n- two", agent="codex")
    session = await rig.spawn("parser", agent="claude")
    id_ = SessionId(session)
    entries = (
        PlanEntry(content="read the grammar", status="completed", priority="high"),
        PlanEntry(content="fix the parser", status="in_progress", priority="high"),
    )
    await rig.fleet.send("parser", (text("work"),))
    await rig.fleet.append(id_, PlanChanged(entries=entries))
    await rig.fleet.append(id_, MessageChunk(content=text("I will change **one** line.")))
    await ask_to_edit(rig.fleet, session)
    rig.fleet.infos[id_] = replace(
        rig.fleet.infos[id_],
        worktree=Worktree(path="/w", repository="/r", base="1a2b3c4"),
        changes=ChangeCounts(files=1, added=1, removed=1),
        model="opus",
    )
    rig.fleet.change("src/app.py", "one\ntwo\nthree\n", "one\nTWO\nthree\n")
    docs = (await rig.fleet.agent("docs")).session
    for days in range(0, 20, 3):
        spend(rig, docs, days, 9_000 + 1_000 * days)
    return session


@pytest.mark.parametrize("size", [PHONE, SCREEN], ids=["phone", "screen"])
async def test_the_main_journey(rig: WebRig, size: tuple[int, int]):
    session = await stage(rig)
    async with browsing(rig, size) as browser:
        await browser.pair(person="Ann")
        await browser.sees("Edit src/app.py")
        await browser.sees("TWO")
        assert await browser.has_no_sideways_scroll()
        await browser.open("#/agents")
        rows = browser.page.get_by_role("list", name="agents").get_by_role("listitem")
        await browser.sees("needs you")
        assert await rows.count() == 2 and "parser" in await rows.first.inner_text()
        await browser.open("#/inbox")
        await browser.press("allow once")
        await browser.sees("No agent needs you")
        answered = [r.event for r in rig.fleet.records if isinstance(r.event, PermissionAnswered)]
        assert [one.kind for one in answered] == ["allow_once"]
        assert answered[0].by.name is not None and answered[0].by.name.startswith("Ann (")

        await browser.open(f"#/agent/{session}")
        await browser.sees("You said Allow once.")
        await browser.page.get_by_label("prompt for parser").fill("work more")
        await browser.press("send")
        await browser.sees("work more")
        await browser.press("interrupt")
        await browser.sees("stopped")
        assert rig.fleet.infos[SessionId(session)].state == "interrupted"

        await browser.open(f"#/review/{session}")
        await browser.page.get_by_role("button", name="src/app.py").first.click()
        await browser.page.get_by_role("button", name="comment on line 2").last.click()
        await browser.page.get_by_label("comment on line 2", exact=True).last.fill("why capitals?")
        await browser.press("comment")
        await browser.sees("why capitals?")
        assert await browser.has_no_sideways_scroll()
        if size == PHONE:
            await browser.press("all files")
        await browser.press("merge …")
        await browser.press("merge")
        await browser.sees("landed on main")
        assert [one.expected for one in rig.fleet.landed] == ["5678"]


async def test_offline_and_back_in_a_stream_loses_and_doubles_nothing(rig: WebRig):
    session = await rig.spawn("ann")
    id_ = SessionId(session)

    async def write(start: int, count: int) -> None:
        for number in range(start, start + count):
            await rig.fleet.append(id_, MessageChunk(content=text(f"<{number}>")))

    async with browsing(rig) as browser:
        await browser.pair("viewer")
        await browser.open(f"#/agent/{session}")
        await write(0, 50)
        await browser.sees("<49>")
        await browser.context.set_offline(True)
        await browser.sees("No network")
        await write(50, 50)
        await browser.context.set_offline(False)
        await write(100, 50)
        await browser.sees("<149>")
        said = await browser.page.locator(".block.message").all_inner_texts()
        expected = "".join(f"<{number}>" for number in range(150))
        assert "".join(said).replace("\n", "") == expected
        browser.problems.clear()  # the browser itself reports requests that failed


async def test_what_is_sent_and_not_confirmed_is_done_once(rig: WebRig):
    session = await rig.spawn("ann", "ask")
    lost, passed = 0, asyncio.Queue[str]()

    async def lose(route: Any) -> None:
        """The server gets it; its answer is lost on the way."""
        nonlocal lost
        if lost <= 0:
            await route.continue_()
            passed.put_nowait(route.request.url)
            return
        lost -= 1
        await route.fetch()
        await route.abort()

    async with browsing(rig, PHONE) as browser:
        await browser.pair()
        await browser.context.route("**/fleet/*", lose)
        await browser.page.get_by_role("button", name="Allow", exact=True).wait_for()
        lost = 1
        await browser.press("Allow")
        await browser.sees("No agent needs you")
        assert (await asyncio.wait_for(passed.get(), SOON)).endswith("answer_group")
        await browser.page.wait_for_load_state("networkidle")
        assert await browser.page.get_by_text("already answered").count() == 0
        await browser.open(f"#/agent/{session}")
        await browser.page.get_by_label("prompt for ann").fill("say hello")
        lost = 3
        await browser.press("send")
        await browser.sees("not confirmed")
        await browser.page.reload()
        # The draft is there; sent again it is the same.
        await browser.press("send")
        await browser.page.wait_for_function("() => document.querySelector('#prompt').value === ''")
        browser.problems.clear()  # the browser itself reports requests that failed
    answered = [r for r in rig.fleet.records if isinstance(r.event, PermissionAnswered)]
    said = [r.event for r in rig.fleet.records if isinstance(r.event, MessageChunk)]
    assert len(answered) == 1 and [one.content for one in said].count(text("hello")) == 1


async def test_an_answer_from_elsewhere_makes_the_card_vanish_and_words_go_with_a_denial(
    rig: WebRig,
):
    await rig.spawn("ann", "ask")
    async with browsing(rig, PHONE) as browser:
        await browser.pair("approver")
        await browser.page.get_by_role("button", name="Allow", exact=True).wait_for()
        (item,) = await rig.fleet.inbox()
        await rig.fleet.answer(item.request, "reject_once", by="cli")
        await browser.sees("No agent needs you")
        assert await browser.page.get_by_role("button", name="Allow", exact=True).count() == 0
        await rig.spawn("bob", "ask")
        await browser.press("deny with words")
        await browser.page.get_by_label("what the agent should do instead").fill("use ls -l")
        await browser.press("deny")
        await browser.sees("No agent needs you")
    answered = [r.event for r in rig.fleet.records if isinstance(r.event, PermissionAnswered)]
    assert [(one.kind, one.feedback) for one in answered] == [
        ("reject_once", None),
        ("reject_once", "use ls -l"),
    ]


async def test_a_viewer_is_offered_no_decision(rig: WebRig):
    session = await stage(rig)
    async with browsing(rig) as browser:
        await browser.pair("viewer")
        await browser.sees("This device may only look.")
        await browser.open(f"#/agent/{session}")
        await browser.sees("I will change")
        for name in ("allow once", "stop", "send", "new agent"):
            assert await browser.page.get_by_role("button", name=name, exact=True).count() == 0


async def test_a_question_is_answered_with_its_form(rig: WebRig):
    await rig.spawn("ann", "form")
    async with browsing(rig, PHONE) as browser:
        await browser.pair("approver")
        await browser.sees("Which colour?")
        assert await browser.page.get_by_role("button", name="answer").is_disabled()
        await browser.page.get_by_label("colour").select_option("blue")
        await browser.page.get_by_label("large").check()
        await browser.press("answer")
        await browser.sees("No agent needs you")
    said = [r.event for r in rig.fleet.records if isinstance(r.event, MessageChunk)]
    assert "'colour': 'blue'" in str(said[-1]) and "large" in str(said[-1])


HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "<script>alert(2)</script>",
    "[a](javascript:alert(3))",
    "<svg/onload=alert(4)>",
    "{{constructor.constructor('alert(5)')()}}",
    "</pre></div><iframe srcdoc='<script>alert(6)</script>'>",
]
# What a browser would hide or reorder, in anything that can be seen.
HIDDEN = """() => {
  const codes = [[0, 8], [11, 31], [127, 159], [0x200b, 0x200b], [0x200e, 0x200f],
    [0x2028, 0x202e], [0x2060, 0x206f], [0x2800, 0x2800], [0xfeff, 0xfeff], [0xe0000, 0xe01ef]];
  const parts = codes.map((pair) => pair.map((code) => `\\\\u{${code.toString(16)}}`).join("-"));
  const hidden = new RegExp(`[${parts.join("")}]`, "u");
  const main = document.querySelector("main");
  const texts = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
  const found = [];
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    if (hidden.test(node.data)) found.push(node.data.slice(0, 80));
  }
  for (const node of main.querySelectorAll("[aria-label], [title]")) {
    const label = `${node.getAttribute("aria-label")} ${node.getAttribute("title")}`;
    if (hidden.test(label)) found.push(label.slice(0, 80));
  }
  return found.slice(0, 3);
}"""


@pytest.mark.parametrize("count", [80, pytest.param(10_000, marks=pytest.mark.stress)])
async def test_hostile_text_executes_nothing_and_hides_nothing(rig: WebRig, count: int):
    session = await rig.spawn("ann", "ask")
    id_ = SessionId(session)
    strings = [
        *HOSTILE,
        *(one.encode("utf-8", "replace").decode() for one in hostile_strings(count)),
    ]
    # The conversation shows 400 records: all strings are in its last 300.
    step = max(1, len(strings) // 300)
    for start in range(0, len(strings), step):
        said = "\n\n".join(strings[start : start + step])
        kind = ThoughtChunk if start % (3 * step) == 0 else MessageChunk
        await rig.fleet.append(id_, kind(content=text(said + "\n\n")))
    for number in range(0, count, max(1, count // 40)):
        words = strings[number]
        await ask_to_edit(rig.fleet, session, path=words or "-", title=words or "-")
        other = SessionId(await rig.spawn(f"other-{number}"))
        rig.fleet.infos[other] = replace(
            rig.fleet.infos[other], title=words, model=words, reason=strings[-number], agent=words
        )
    await ask_to_edit(rig.fleet, session, path="own", title="safe\u202etxt.exe\u200b")
    rig.fleet.infos[id_] = replace(
        rig.fleet.infos[id_], title=HOSTILE[1], model=HOSTILE[0], cwd="/" + HOSTILE[3]
    )
    lines = "\n".join(one.replace("\n", " ") for one in strings)
    rig.fleet.change(HOSTILE[0], "a\n", f"{lines}\n\u202e\n")
    async with browsing(rig) as browser:
        await browser.pair()
        await browser.sees("safe\\u{202e}txt.exe\\u{200b}")
        for view in (*VIEWS, *MORE_VIEWS):
            await browser.open(view.format(id=session))
            await browser.page.locator("main .view").wait_for()
            if "review" in view:
                await browser.sees("\\u{202e}")
            if "#/agent/" in view:
                await browser.page.get_by_text("alert(").first.wait_for(state="attached")
            if "search" in view:
                await browser.page.get_by_label("words").fill("alert")
                await browser.press("search")
                await browser.page.get_by_text("found").first.wait_for()
            assert await browser.page.evaluate(HIDDEN) == [], view
            assert await browser.page.locator("main iframe, main script, main img").count() == 0


async def test_a_terminal_of_the_host_is_shown_and_typed_into(rig: WebRig):
    options = FleetTerminalOptions(cwd="/", command=("cat",), columns=60, rows=8)
    terminal = await rig.fleet.open_terminal(options)
    async with browsing(rig) as browser:
        await browser.pair()
        await browser.open(f"#/terminal/{terminal.id}")
        rows = browser.page.locator(".xterm-rows")
        await rows.wait_for()
        await browser.page.locator(".xterm-helper-textarea").focus()
        await browser.page.keyboard.type("hello from the page\n")
        await rows.get_by_text("hello from the page").first.wait_for()
        # Letters stand in cells of one width: the styles of the terminal count.
        box = await rows.locator("div").first.bounding_box()
        assert box is not None and 300 < box["width"] < 900 and 10 < box["height"] < 40


async def test_a_revoked_device_sees_nothing_more(rig: WebRig):
    await rig.spawn("secret-agent", "ask")
    async with browsing(rig) as browser:
        await browser.pair()
        await browser.sees("secret-agent")
        (device,) = await asyncio.to_thread(rig.store.devices)
        await asyncio.to_thread(rig.store.revoke, device.id)
        await browser.sees("Pair this device")
        assert await browser.page.get_by_text("secret-agent").count() == 0


STRESS = pytest.mark.stress


@pytest.mark.parametrize(
    ("size", "scheme"),
    [
        pytest.param(PHONE, "dark", id="phone-dark"),
        pytest.param(SCREEN, "light", id="screen-light"),
        pytest.param(PHONE, "light", id="phone-light", marks=STRESS),
        pytest.param(SCREEN, "dark", id="screen-dark", marks=STRESS),
    ],
)
async def test_no_view_has_a_serious_violation_of_accessibility(
    rig: WebRig, size: tuple[int, int], scheme: str
):
    script = find_axe()
    if script is None:
        pytest.skip("needs axe-core: make build/axe/.done")
    session = await stage(rig)
    found: list[str] = []
    async with browsing(rig, size, scheme=scheme) as browser:
        await browser.page.goto(rig.url)
        await browser.sees("Pair this device")
        found += await browser.find_violations(script)
        await browser.pair()
        for view in (*VIEWS, *MORE_VIEWS):
            await browser.open(view.format(id=session))
            await browser.page.locator("main .view").wait_for()
            await browser.page.wait_for_load_state("networkidle")
            found += [f"{view}: {one}" for one in await browser.find_violations(script)]
    assert found == []


async def test_usage_is_a_graph_over_days_and_a_table(rig: WebRig):
    session = await rig.spawn("ann", "say hi", agent="claude")
    for days in (0, 2):
        spend(rig, session, days, 5_000)
    async with browsing(rig, PHONE) as browser:
        await browser.pair("viewer")
        await browser.open("#/usage")
        await browser.page.get_by_role("img", name="tokens by day: 2 of 30 days").wait_for()
        bars = browser.page.locator("svg rect")
        heights = [float(await one.get_attribute("height")) for one in await bars.all()]
        assert len(heights) == 30 and [at for at, one in enumerate(heights) if one] == [27, 29]
        titles = await browser.page.locator("svg rect title").all_text_contents()
        assert "tokens" in titles[27] and titles[28].endswith(": nothing")
        await browser.page.get_by_text("the days as a table").click()
        table = browser.page.get_by_role("table", name="usage by day")
        assert await table.get_by_role("row").count() == 3  # with the head
        await browser.press("vendor")
        await browser.page.get_by_role("table", name="usage by vendor").wait_for()
        assert await browser.has_no_sideways_scroll()


LINE_WIDTH = """() => {
  const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  let most = 0;
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) most = Math.max(most, box.width);
  }
  return most / parseFloat(getComputedStyle(document.documentElement).fontSize);
}"""


async def test_a_screen_of_3840_pixels_stretches_nothing(rig: WebRig):
    session = await stage(rig)
    await rig.spawn("long", "say " + "many words in one line " * 100, agent="native")
    long = (await rig.fleet.agent("long")).session
    async with browsing(rig, (3840, 2160)) as browser:
        await browser.pair()
        for view in (*VIEWS, f"#/agent/{long}", *MORE_VIEWS):
            await browser.open(view.format(id=session))
            await browser.page.locator("main .view").wait_for()
            await browser.page.wait_for_load_state("networkidle")
            assert await browser.has_no_sideways_scroll(), view
            assert await browser.page.evaluate(LINE_WIDTH) < 75, view  # in the size of letters


async def test_a_phone_of_360_pixels_shows_everything_in_its_width(rig: WebRig):
    session = await stage(rig)
    await rig.spawn("e" * 60, "say " + "unbreakable" * 40, agent="native")
    for number, name in enumerate(("👩‍🚀" * 300, "שלום עולם " * 20, "مرحبا" * 40)):
        other = SessionId(await rig.spawn(f"other-{number}", "ask"))
        rig.fleet.infos[other] = replace(rig.fleet.infos[other], name=name, title=name, cwd=name)
    async with browsing(rig, (360, 640)) as browser:
        await browser.pair()
        for view in (*VIEWS, *MORE_VIEWS):
            await browser.open(view.format(id=session))
            await browser.page.locator("main .view").wait_for()
            assert await browser.has_no_sideways_scroll(), view
