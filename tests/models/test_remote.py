"""A model over HTTP, from the request's first byte to the last delta."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

import pytest

from quarterdeck.models.errors import (
    CallError,
    ContextOverflowError,
    OverloadedError,
    RateLimitedError,
    RequestRejectedError,
    StreamBrokenError,
    UnauthorizedError,
    VendorUnreachableError,
)
from quarterdeck.models.http_client import HttpTimeouts
from quarterdeck.models.model import Delta, Model, ModelRequest, ReplyFinished, TextDelta
from quarterdeck.models.registry import ModelOptions, make_model
from quarterdeck.wire.conversation import Message, TextPart
from tests.support.http_server import Exchange, Handler, serving
from tests.support.model_histories import said
from tests.support.model_streams import recorded

ASK = ModelRequest(system="Be brief.", messages=(said("go"),))
KEY = "key-0123456789abcdef"
VENDORS = {
    "anthropic/claude-opus-5-5": ("anthropic_tools", "/v1/messages"),
    "openai/gpt-6-sol": ("openai_responses_tools", "/v1/responses"),
    "openai-chat/gpt-6-sol": ("openai_chat_tools", "/v1/chat/completions"),
    "google/gemini-3.8-flash": (
        "google_tools",
        "/v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse",
    ),
}


async def model_at(url: str, name: str = "anthropic/claude-opus-5-5", idle: float = 5.0) -> Model:
    environment = {
        variable: value
        for vendor in ("ANTHROPIC", "OPENAI", "GEMINI")
        for variable, value in ((f"{vendor}_API_KEY", KEY), (f"{vendor}_BASE_URL", url))
    }
    options = ModelOptions(timeouts=HttpTimeouts(connect=2, idle=idle))
    return await asyncio.to_thread(make_model, name, environment, options)


def asked(model: Model, request: ModelRequest = ASK) -> AsyncGenerator[Delta, None]:
    return cast("AsyncGenerator[Delta, None]", model.stream(request))


async def failing(handler: Handler, idle: float = 5.0) -> CallError:
    async with serving(handler, is_keeping=False) as server:
        model = await model_at(server.url, idle=idle)
        with pytest.raises(CallError) as caught:
            async for _ in asked(model):
                pass
        await model.close()
    assert KEY not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("name", VENDORS)
async def test_every_wire_streams_and_counts_the_same_prompt(name: str):
    stream, path = VENDORS[name]

    async def handler(exchange: Exchange) -> None:
        raw = recorded(stream)
        await exchange.stream(*(raw[at : at + 97] for at in range(0, len(raw), 97)))

    async with serving(handler) as server:
        model = await model_at(server.url, name)
        for _ in range(2):
            deltas = [delta async for delta in asked(model)]
        await model.close()
    last = deltas[-1]
    assert isinstance(last, ReplyFinished)
    assert [isinstance(delta, ReplyFinished) for delta in deltas].count(True) == 1
    assert last.usage.input == 18_556
    assert last.stop == "tool_use"
    seen = server.requests[0]
    assert seen.target == path
    assert KEY in str(seen.headers)
    assert seen.body == server.requests[1].body
    assert {request.connection for request in server.requests} == {1}
    json.loads(seen.body)


async def test_a_delta_is_passed_on_as_soon_as_it_arrives():
    go = asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        raw = recorded("anthropic_tools")
        half = raw.index(
            b'event: content_block_start\ndata: {"type":"content_block_start","index":3'
        )
        await exchange.stream(raw[:half], is_ended=False)
        await go.wait()
        await exchange.send(b"%x\r\n%s\r\n0\r\n\r\n" % (len(raw) - half, raw[half:]))

    async with serving(handler) as server:
        model = await model_at(server.url)
        texts: list[str] = []
        async for delta in asked(model):
            if isinstance(delta, TextDelta):
                texts.append(delta.text)
                if len(texts) == 2:
                    go.set()
        await model.close()
    assert texts == ["I will look", " — “now”."]


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (
            401,
            {"error": {"type": "authentication_error", "message": f"bad {KEY}"}},
            UnauthorizedError,
        ),
        (400, {"error": {"type": "invalid_request_error", "message": "no"}}, RequestRejectedError),
        (400, {"error": {"message": "prompt is too long: 9 > 8"}}, ContextOverflowError),
        (
            529,
            {"error": {"type": "overloaded_error", "message": "OverloadedError"}},
            OverloadedError,
        ),
    ],
)
async def test_a_refusal_is_its_error(status: int, body: Any, kind: type[CallError]):
    async def handler(exchange: Exchange) -> None:
        await exchange.reply(status, json.dumps(body).encode())

    error = await failing(handler)
    assert type(error) is kind
    assert error.status == status


async def test_a_rate_limit_says_how_long_to_wait():
    async def handler(exchange: Exchange) -> None:
        await exchange.reply(429, b'{"error":{"type":"rate_limit_error"}}', Retry_After="7")

    error = await failing(handler)
    assert type(error) is RateLimitedError
    assert error.retry_after == 7.0


async def test_a_redirect_is_not_followed():
    async with serving(lambda exchange: exchange.reply(200, b"")) as other:

        async def handler(exchange: Exchange) -> None:
            await exchange.reply(307, b"", Location=f"{other.url}/v1/messages")

        error = await failing(handler)
    assert type(error) is RequestRejectedError
    assert other.requests == []


@pytest.mark.parametrize("cut", [1000, 2000, -40])
async def test_a_stream_that_breaks_off_keeps_what_had_come(cut: int):
    async def handler(exchange: Exchange) -> None:
        await exchange.stream(recorded("anthropic_tools")[:cut], is_ended=False)
        exchange.writer.transport.abort()

    error = await failing(handler)
    assert type(error) is StreamBrokenError
    assert error.partial is not None


async def test_a_stream_that_ends_early_keeps_what_had_come():
    async def handler(exchange: Exchange) -> None:
        raw = recorded("openai_chat_tools")
        await exchange.stream(raw[: raw.index(b'"tool_calls"')].rpartition(b"data: ")[0])

    async with serving(handler) as server:
        model = await model_at(server.url, "openai-chat/gpt-6-sol")
        with pytest.raises(StreamBrokenError) as caught:
            async for _ in asked(model):
                pass
        await model.close()
    text = TextPart(text="I will look — now. ☃")
    assert caught.value.partial == Message(role="assistant", parts=(text,))


async def test_a_silent_stream_is_noticed_and_keeps_what_had_come():
    async def handler(exchange: Exchange) -> None:
        await exchange.stream(recorded("anthropic_tools")[:2000], is_ended=False)
        await exchange.gone()

    error = await failing(handler, idle=0.1)
    assert type(error) is StreamBrokenError
    assert "silent for 0.1 s" in str(error)
    assert error.partial is not None


async def test_an_error_event_in_mid_stream_is_its_error():
    async def handler(exchange: Exchange) -> None:
        bad = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n'
        await exchange.stream(recorded("anthropic_tools")[:1500].rpartition(b"event:")[0], bad)

    error = await failing(handler)
    assert type(error) is OverloadedError
    assert error.partial is not None


async def test_garbage_in_the_stream_is_a_broken_stream():
    async def handler(exchange: Exchange) -> None:
        await exchange.stream(b'data: {"type": "content_block_del\n\n')

    assert type(await failing(handler)) is StreamBrokenError


async def test_a_page_instead_of_a_stream_asks_about_the_address():
    async def handler(exchange: Exchange) -> None:
        await exchange.reply(200, b"<html>Welcome</html>", Content_Type="text/html; charset=utf-8")

    error = await failing(handler)
    assert type(error) is RequestRejectedError
    assert "is the URL right" in str(error)


async def test_an_error_that_calls_itself_a_success_is_an_error():
    async def handler(exchange: Exchange) -> None:
        body = b'{"error":{"type":"overloaded_error","message":"busy"}}'
        await exchange.reply(200, body, Content_Type="application/json")

    assert type(await failing(handler)) is OverloadedError


async def test_nobody_there_is_unreachable():
    model = await model_at("http://127.0.0.1:9")
    with pytest.raises(VendorUnreachableError):
        async for _ in asked(model):
            pass


async def test_closing_the_iterator_frees_the_connection_at_once():
    async def handler(exchange: Exchange) -> None:
        await exchange.stream(recorded("anthropic_tools")[:2000], is_ended=False)
        await exchange.gone()

    async with serving(handler) as server:
        model = await model_at(server.url)
        async with aclosing(asked(model)) as deltas:
            await anext(deltas)
        async with asyncio.timeout(45):
            await server.closed.wait()
        await model.close()


@pytest.mark.parametrize("has_headers", [False, True])
async def test_cancelling_ends_the_call_as_cancelled(has_headers: bool):
    arrived = asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        if has_headers:
            await exchange.stream(b": hello\n\n", is_ended=False)
        arrived.set()
        await exchange.gone()

    async def consume(model: Model) -> None:
        async for _ in asked(model):
            pass

    async with serving(handler) as server:
        model = await model_at(server.url)
        task = asyncio.ensure_future(consume(model))
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(45):
            await server.closed.wait()


async def test_closing_the_model_ends_calls_under_way():
    arrived = asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        await exchange.stream(b": hello\n\n", is_ended=False)
        arrived.set()
        await exchange.gone()

    async with serving(handler) as server:
        model = await model_at(server.url)

        async def consume() -> None:
            async for _ in asked(model):
                pass

        task = asyncio.ensure_future(consume())
        await arrived.wait()
        await model.close()
        with pytest.raises(StreamBrokenError):
            await task


async def test_two_calls_at_once_do_not_disturb_each_other():
    async def handler(exchange: Exchange) -> None:
        await exchange.stream(recorded("anthropic_tools"))

    async with serving(handler) as server:
        model = await model_at(server.url)

        async def count() -> int:
            return len([delta async for delta in asked(model)])

        counts = await asyncio.gather(*(count() for _ in range(8)))
        await model.close()
    assert set(counts) == {9}
