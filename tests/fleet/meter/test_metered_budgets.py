"""Budgets of agents behind the meter: reserved before each call, refused in the vendor's words."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.fleet.errors import InvalidOptionsError
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.fleet.meter.api import CallEnd, MeteredRequest
from quarterdeck.fleet.meter.calls import measure_text
from quarterdeck.fleet.meter.guard import BudgetGuard
from quarterdeck.wire.budgets import BudgetLimit, Reservation, parse_limit
from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    BudgetReached,
    BudgetReserved,
    BudgetSettled,
    ModelCallMetered,
    Prompted,
    TurnEnded,
)
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.usage import TokenUsage
from tests.support.deadlines import SOON
from tests.support.http_server import serving
from tests.support.metered_agents import (
    MODEL,
    VARIABLE,
    CallingLink,
    MixedCasting,
    Vendor,
    make_body,
    write_settings,
)
from tests.support.scripted_fleet import events_of, fleet_of, new_agent


class Rig:
    def __init__(self, fleet: LocalFleet, casting: MixedCasting, vendor: Vendor, url: str) -> None:
        self.fleet, self.casting, self.vendor, self.url = fleet, casting, vendor, url

    async def spawn(self, folder: Path, name: str = "f", **fields) -> None:
        variables = {VARIABLE: self.url}
        await self.fleet.spawn(new_agent(folder, name=name, environment=variables, **fields))
        await self.fleet.wait([name], timeout=SOON)

    async def limit(self, text: str, name: str = "f") -> None:
        await self.fleet.set_budget("tree", name, parse_limit(text))

    async def send(self, words: str, name: str = "f") -> TurnEnded:
        """Prompt an agent and wait until that turn has ended."""
        before = len(await self.all(name, TurnEnded))
        await self.fleet.send(name, (text(words),))
        ended = await self.until(name, TurnEnded, skip=before)
        assert isinstance(ended, TurnEnded)
        return ended

    async def all(self, name: str, *kinds: type):
        return [one for one in await events_of(self.fleet, name) if isinstance(one, kinds)]

    async def until(self, name: str, kind: type, holds=lambda _: True, skip: int = 0):
        async with asyncio.timeout(SOON), aclosing(self.fleet.follow(0, agent=name)) as records:
            async for record in records:
                if isinstance(record.event, kind) and holds(record.event):
                    if not skip:
                        return record.event
                    skip -= 1
        raise AssertionError(kind)

    async def settled(self, count: int, name: str = "f") -> BudgetSettled:
        """The settlement of the call of this number."""
        return await self.until(name, BudgetSettled, skip=count - 1)

    async def row(self, name: str = "f"):
        (row,) = (await self.fleet.budgets(agent=name)).rows
        return row


@pytest.fixture
def vendor() -> Vendor:
    return Vendor()


@asynccontextmanager
async def behind_meter(home: Path, vendor: Vendor) -> AsyncIterator[Rig]:
    write_settings(home)
    casting = MixedCasting(home)
    async with serving(vendor) as server, fleet_of(home, casting) as fleet:
        casting.journal = fleet.journal
        yield Rig(fleet, casting, vendor, server.url)


@pytest.fixture
async def rig(tmp_path: Path, vendor: Vendor) -> AsyncIterator[Rig]:
    async with behind_meter(tmp_path, vendor) as rig:
        await rig.spawn(tmp_path)
        yield rig


async def test_a_call_is_reserved_before_it_is_passed_on_and_settled_by_what_it_used(rig: Rig):
    await rig.limit("100ktok")
    rig.vendor.held = asyncio.Event()
    await rig.fleet.send("f", (text("call ok 4000 1000"),))
    reserved = await rig.until("f", BudgetReserved)
    assert (reserved.metered, reserved.model) == (True, MODEL)
    assert 2_000 < reserved.tokens < 3_000  # a third of the bytes and the whole answer
    assert reserved.usd is not None
    while not rig.vendor.charged:
        await asyncio.sleep(0.01)
    assert (await rig.row()).reserved == reserved.tokens
    rig.vendor.held.set()
    await rig.settled(1)
    kinds = (BudgetReserved, ModelCallMetered, BudgetSettled)
    found = await rig.all("f", *kinds)
    assert [type(one) for one in found] == [kinds[0], kinds[1], kinds[1], kinds[2]]
    assert {found[0].reservation, found[1].call, found[2].call} == {found[3].reservation}
    assert found[3].how == "reported"
    row = await rig.row()
    assert (row.used, row.reserved) == (rig.vendor.total, 0)


async def test_what_the_agent_reports_is_not_counted_a_second_time(rig: Rig, tmp_path: Path):
    await rig.limit("100ktok")
    for number in range(1, 4):
        await rig.send("call ok 4000 500")
        await rig.settled(number)
    # The same again, as a total and as figures of a turn in which nothing passed the meter.
    (link,) = rig.casting.links
    await rig.send("call ok 4000 500")
    await rig.settled(4)
    from quarterdeck.wire.events import UsageReported

    await link.host.emit(UsageReported(session_tokens=TokenUsage(input=rig.vendor.total)))
    await rig.until("f", UsageReported)
    assert (await rig.row()).used == rig.vendor.total
    assert (await rig.fleet.usage()).total.tokens.total == rig.vendor.total


async def test_a_refusal_names_the_budget_and_the_agent_goes_on_after_a_raise(rig: Rig):
    await rig.limit("5ktok")
    ended = await rig.send("call ok 4000 500 20")
    assert ended.stop == "failed"
    assert "the budget of 5000 tok for f and all that it starts is used up" in (ended.reason or "")
    assert "billing_error" in (ended.reason or "")
    (link,) = rig.casting.links
    assert isinstance(link, CallingLink)
    refused = len(link.answers) - 1
    assert len(rig.vendor.charged) == refused
    assert 2_500 < rig.vendor.total <= 5_250
    states = [one.state for one in await rig.all("f", ModelCallMetered)]
    assert states.count("refused") == 1
    (stopped,) = [one for one in await rig.all("f", BudgetReached) if one.level == "stopped"]
    (item,) = await rig.fleet.inbox()
    assert item.request == stopped.request
    # It tries again, as agents do: nothing is noted twice.
    assert (await rig.send("call ok 4000 500")).stop == "failed"
    assert len([one for one in await rig.all("f", BudgetReached) if one.level == "stopped"]) == 1
    await rig.fleet.reply(item.request, "accept", content={"raise_by": "5ktok"})
    await rig.until("f", Prompted, lambda one: "Go on where" in one.content[0].text)
    assert (await rig.send("call ok 4000 500")).stop == "end_turn"
    assert await rig.fleet.inbox() == []


async def test_an_agent_whose_calls_can_be_refused_is_warned_and_not_interrupted(rig: Rig):
    await rig.limit("10ktok")
    # More than all of it in one call, since its answer is longer than what was asked for.
    rig.vendor.output = lambda most: 9_000
    await rig.send("call ok 400 300")
    await rig.until("f", BudgetReached, lambda one: one.level == "warned")
    rig.vendor.output = lambda most: 3_000
    ended = await rig.send("call ok 400 300 3")
    assert ended.stop == "failed"
    assert not rig.casting.links[0].interrupted.is_set()
    told = " ".join(rig.casting.links[0].told)
    assert told.count("Use the rest for what matters most") == 1
    levels = [one.level for one in await rig.all("f", BudgetReached)]
    assert levels == ["warned", "reached", "stopped"]


async def test_the_last_call_that_fits_comes_with_the_word_to_wrap_up(rig: Rig):
    await rig.limit("4ktok")
    await rig.send("call ok 4000 700 9")
    told = " ".join(rig.casting.links[0].told)
    assert told.count("Wrap up now") == 1


async def test_an_agent_that_goes_past_the_meter_is_interrupted_as_before(
    tmp_path: Path, vendor: Vendor
):
    async with behind_meter(tmp_path, vendor) as rig:
        await rig.spawn(tmp_path)
        await rig.limit("1ktok")
        from quarterdeck.wire.events import UsageReported

        await rig.fleet.send("f", (text("wait"),))
        (link,) = rig.casting.links
        while not link.told:
            await asyncio.sleep(0.01)
        await link.host.emit(UsageReported(session_tokens=TokenUsage(input=5_000)))
        ended = await rig.until("f", TurnEnded)
        assert ended.stop == "cancelled"


@pytest.mark.parametrize(
    ("act", "how", "most"), [("cut", "estimated", 3), ("busy", "released", 0), ("plain", None, 2)]
)
async def test_a_call_that_ends_badly_counts_by_what_may_have_been_charged(
    rig: Rig, act: str, how: str | None, most: float
):
    await rig.limit("100ktok")
    await rig.send(f"call {act} 4000 800")
    settled = await rig.settled(1)
    assert settled.how == (how or "estimated")
    row = await rig.row()
    assert row.reserved == 0
    assert rig.vendor.total <= row.used <= max(rig.vendor.total * most, 0)
    assert act == "busy" or row.used > 0


async def test_a_server_that_is_not_there_costs_nothing(tmp_path: Path, vendor: Vendor):
    async with behind_meter(tmp_path, vendor) as rig:
        rig.url = "http://127.0.0.1:9"
        await rig.spawn(tmp_path)
        await rig.limit("100ktok")
        await rig.send("call ok 4000 800")
        assert (await rig.settled(1)).how == "released"
        assert (await rig.row()).used == 0


async def test_money_is_reserved_by_the_price_of_the_model_in_the_request(rig: Rig):
    await rig.limit("1usd")
    await rig.send("call ok 4000 1000")
    await rig.settled(1)
    row = await rig.row()
    assert row.used == pytest.approx((1_000 * 3 + 1_000 * 15) / 1e6)
    (reserved,) = await rig.all("f", BudgetReserved)
    assert row.used < reserved.usd < 0.1


async def test_money_without_a_price_is_refused(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tests.support.metered_agents.MODEL", "odd-model")
    await rig.limit("1usd")
    for _ in range(2):
        ended = await rig.send("call ok 4000 1000")
        assert "the price of a model is not known" in (ended.reason or "")
    assert rig.vendor.charged == []
    assert len([one for one in await rig.all("f", BudgetReached) if one.level == "stopped"]) == 1


async def test_calls_of_an_agent_behind_the_meter_can_be_bounded(tmp_path: Path, vendor: Vendor):
    async with behind_meter(tmp_path, vendor) as rig:
        await rig.spawn(tmp_path, budget=(parse_limit("3calls"),))
        ended = await rig.send("call ok 4000 500 9")
        assert "the budget of 3 calls for f and all that it starts" in (ended.reason or "")
        assert len(vendor.charged) == 4  # one of them to wrap up
        with pytest.raises(InvalidOptionsError, match="put it behind the meter"):
            await rig.fleet.spawn(new_agent(tmp_path, "amp", budget=(parse_limit("3calls"),)))


async def test_a_call_waits_for_what_others_have_reserved(rig: Rig, tmp_path: Path):
    await rig.fleet.set_budget("all", "", BudgetLimit(unit="tokens", amount=3_000))
    await rig.spawn(tmp_path, "g")
    rig.vendor.held = asyncio.Event()
    rig.vendor.output = lambda most: 10
    await rig.fleet.send("f", (text("call ok 400 2000"),))
    await rig.until("f", BudgetReserved)
    await rig.fleet.send("g", (text("call ok 400 2000"),))
    while not rig.vendor.charged:
        await asyncio.sleep(0.01)
    assert await rig.all("g", BudgetReserved, BudgetReached) == []
    rig.vendor.held.set()
    assert (await rig.until("g", TurnEnded)).stop == "end_turn"
    assert len(rig.vendor.charged) == 2


async def test_a_call_that_never_ends_holds_its_reservation_until_its_agent_gives_up(
    rig: Rig, tmp_path: Path
):
    await rig.fleet.set_budget("all", "", BudgetLimit(unit="tokens", amount=4_000))
    await rig.spawn(tmp_path, "g")
    rig.vendor.held = asyncio.Event()
    first, _ = rig.casting.links
    assert isinstance(first, CallingLink)
    host, port = first.address.removeprefix("http://").split("/")[0].split(":")
    path = first.address.removeprefix(f"http://{host}:{port}")
    reader, writer = await asyncio.open_connection(host, port)
    body = make_body(400, 3_000, "ok")
    head = f"POST {path}/v1/messages HTTP/1.1\r\nHost: {host}:{port}\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    await rig.until("f", BudgetReserved)
    while not rig.vendor.charged:
        await asyncio.sleep(0.01)
    await rig.fleet.send("g", (text("call ok 400 3000"),))
    assert await rig.all("g", BudgetReserved, BudgetReached) == []
    writer.close()
    settled = await rig.settled(1)
    assert settled.how == "estimated"
    assert 100 <= settled.tokens < 200  # the vendor has the request, and has answered nothing
    rig.vendor.held.set()
    assert (await rig.until("g", TurnEnded)).stop == "end_turn"
    assert await reader.read() == b""


@pytest.mark.parametrize("amount", [4_500, 6_000, 12_000, 30_000])
async def test_an_answer_is_not_cut_and_only_one_can_pass_the_budget_by_a_bound(
    rig: Rig, tmp_path: Path, amount: int
):
    most, least = 20_000, 4_096
    await rig.fleet.set_budget("all", "", BudgetLimit(unit="tokens", amount=amount))
    await rig.spawn(tmp_path, "g")
    rig.vendor.held = asyncio.Event()
    await rig.fleet.send("f", (text(f"call stream 400 {most}"),))
    reserved = await rig.until("f", BudgetReserved)
    assert reserved.tokens <= amount * 1.05
    while not rig.vendor.charged:
        await asyncio.sleep(0.01)
    await rig.fleet.send("g", (text(f"call stream 400 {most} 3"),))
    rig.vendor.held.set()
    first = await rig.until("f", TurnEnded)
    last = await rig.until("g", TurnEnded)
    assert (first.stop, last.stop) == ("end_turn", "failed")
    link = rig.casting.links[0]
    assert isinstance(link, CallingLink)
    assert link.answers[0].count(b"text_delta") == most, "the whole answer arrived"
    assert b'{"type": "message_stop"}' in link.answers[0]
    # All calls but the last one had their whole answer reserved; that one at least so much.
    assert rig.vendor.total <= amount * 1.05 + most - least
    (row,) = (await rig.fleet.budgets()).rows
    assert (row.used, row.reserved) == (rig.vendor.total, 0)


async def test_answers_without_a_limit_pass_the_budget_by_what_was_not_reserved_for_each(
    rig: Rig, tmp_path: Path
):
    usual, length = 8_192, 12_000
    rig.vendor.output = lambda most: length
    rig.vendor.held = asyncio.Event()
    await rig.fleet.set_budget("all", "", BudgetLimit(unit="tokens", amount=17_000))
    await rig.spawn(tmp_path, "g")
    for name in ("f", "g"):
        await rig.fleet.send(name, (text("call stream 400 0 5"),))
        reserved = await rig.until(name, BudgetReserved)
        assert usual <= reserved.tokens < usual + 400
    rig.vendor.held.set()
    for name in ("f", "g"):
        assert (await rig.until(name, TurnEnded)).stop == "failed"
    assert len(rig.vendor.charged) == 2
    assert 17_000 * 1.05 < rig.vendor.total <= 17_000 * 1.05 + 2 * (length - usual)


SCRIPT = 'default = "steps"\n' + "".join(
    f'[[scenes.steps.replies]]\nparts = [{{ call = "glob", arguments = {{ pattern = "{n}" }} }}]\n'
    "usage = { input = 900, output = 100 }\n"
    for n in range(100)
)


async def test_two_agents_behind_the_meter_and_one_of_ours_share_a_budget(
    tmp_path: Path, vendor: Vendor
):
    script = tmp_path / "script.toml"
    script.write_text(SCRIPT)
    vendor.output = lambda most: most // 2
    async with behind_meter(tmp_path / "home", vendor) as rig:
        lead = await rig.fleet.spawn(
            SpawnOptions.of(
                cwd=str(tmp_path),
                model=f"scripted/{script}",
                mode="full-auto",
                name="lead",
                lead=True,
                budget=(parse_limit("60ktok"),),
            )
        )
        for name in ("f", "g"):
            await rig.spawn(tmp_path, name, parent=lead.session)
            await rig.fleet.send(name, (text("call ok 8000 3000 40"),))
        await rig.fleet.send("lead", (text("go"),))
        for name in ("lead", "f", "g"):
            await rig.until(name, TurnEnded)
        own = sum(
            row.tokens.total for row in (await rig.fleet.usage("agent")).rows if row.name == "lead"
        )
        used = own + vendor.total
        assert own > 0
        assert vendor.total > 0
        row = await rig.row("lead")
        assert (row.used, row.reserved) == (used, 0)
        assert 40_000 < used <= 63_000
        assert len(await rig.fleet.inbox()) == 1


async def test_another_host_counts_the_same(tmp_path: Path, vendor: Vendor):
    async with behind_meter(tmp_path, vendor) as rig:
        await rig.spawn(tmp_path)
        await rig.limit("100ktok")
        await rig.limit("1usd")
        for number, act in enumerate(("ok", "cut", "busy", "plain", "ok"), 1):
            await rig.send(f"call {act} 4000 800")
            await rig.settled(number)
        before = {row.unit: row.used for row in (await rig.fleet.budgets(agent="f")).rows}
    async with behind_meter(tmp_path, vendor) as rig:
        after = {row.unit: row.used for row in (await rig.fleet.budgets(agent="f")).rows}
    assert after == before
    assert before["tokens"] >= vendor.total


# Estimates


class Books:
    """Notes what is reserved and settled."""

    def __init__(self) -> None:
        self.settled: list[tuple[TokenUsage | None, bool, int]] = []

    async def reserve(self, session, estimate, *, call=None) -> Reservation:
        return Reservation(id=call, session=session, estimate=estimate)

    async def settle(self, reservation, usage, *, cost=None, broke_off=False, calls=1) -> None:
        self.settled.append((usage, broke_off, calls))


def asking(size: int, most: int | None = 100, call: str = "c") -> MeteredRequest:
    return MeteredRequest(call=call, wire="anthropic", model="m", size=size, max_output=most)


async def test_the_input_is_estimated_by_the_bytes_and_then_by_the_call_before():
    guard = BudgetGuard(Books())  # type: ignore[arg-type]
    session = SessionId("s")
    assert guard.estimate(session, asking(30_000)).input == 11_000
    assert guard.estimate(session, asking(1, None)).output == 8_192
    assert guard.estimate(session, asking(1, 50_000)).least_output == 4_096
    await guard.authorize(session, asking(30_000))
    await guard.settle(session, asking(30_000), CallEnd(usage=TokenUsage(input=7_500), status=200))
    assert guard.estimate(session, asking(40_000)).input == 11_000
    assert guard.estimate(SessionId("t"), asking(30_000)).input == 11_000


@pytest.mark.parametrize(
    ("end", "settled"),
    [
        (CallEnd(usage=TokenUsage(input=5, output=7), status=200), (12, False, 1)),
        (CallEnd(status=529, output=3), (None, False, 1)),
        (CallEnd(reason="no connection", is_sent=False), (None, False, 1)),
        (CallEnd(reason="it closed", output=0), (1_100, True, 1)),
        (CallEnd(reason="cut", status=200, output=20), (1_120, True, 1)),
        (CallEnd(reason="cut", status=200, output=2_000), (1_200, True, 1)),
        (CallEnd(status=200, output=None), (1_200, True, 1)),
        (CallEnd(usage=TokenUsage(input=9, output=1), reason="cut", status=200, output=20), None),
    ],
)
async def test_how_a_call_ended_says_how_it_is_settled(end: CallEnd, settled):
    books = Books()
    guard = BudgetGuard(books)  # type: ignore[arg-type]
    await guard.authorize(SessionId("s"), asking(3_000))
    await guard.settle(SessionId("s"), asking(3_000), end)
    ((usage, broke_off, calls),) = books.settled
    total = usage.total if usage is not None else None
    assert (total, broke_off, calls) == (settled or (19, True, 0))


def test_pictures_count_as_pictures_and_not_as_their_bytes():
    data = b"iVBORw0KGgo" * 100_000
    bodies = (
        b'{"source": {"type": "base64", "media_type": "image/png", "data": "%s"}, "x": 1}' % data,
        b'{"image_url": "data:image/png;base64,%s"}' % data,
        b'{"inlineData": {"mimeType": "image/png", "data":"%s"}}' % data,
    )
    for body in bodies:
        assert 8_000 < measure_text(body) < 9_000
        assert measure_text(b"[" + body + b"," + body + b"]") < 18_000
    words = b'{"data": "%s"}' % (b"many words of a text " * 5_000)
    assert measure_text(words) == len(words)
    for broken in (b'"data"' * 4_000, b'"data": "' + data, b";base64," * 4_000, b"x" * 40_000):
        assert measure_text(broken) == len(broken)
    assert measure_text(make_body(100, 1, "ok")) == 100
