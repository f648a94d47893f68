"""Bad input has a defined outcome, and the link goes on."""

import asyncio
import json
from typing import Any

import pytest

from quarterdeck.wire.errors import RpcError
from quarterdeck.wire.rpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    RequestContext,
)

NO_JSON = [
    b"garbage",
    b"{",
    b'{"id":1,"method":"echo"',
    b"[1,",
    b'{"id":1,"method":"echo"}{"id":2,"method":"echo"}',
    b'{"method":"\xff\xfe"}',
    b'{"id":1,"method":"echo","params":"\xc3"}',
    b"\x00\x01\x02",
    b"\xef\xbb\xbf{}",
    b"'single'",
    b'{"id":1,"method":"echo","params":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
]
NO_MESSAGE = [b"[]", b"[1,2]", b"3", b"null", b'"text"', b"true", b"{}", b'{"method":3}']


@pytest.mark.parametrize("line", NO_JSON, ids=lambda line: repr(line[:30]))
async def test_no_json_is_a_parse_error(link: Any, line: bytes) -> None:
    await link.bare.send(line + b"\n")
    answer = await link.bare.read()
    assert (answer["id"], answer["error"]["code"]) == (None, PARSE_ERROR)
    await link.settle()
    assert link.peer.counters.malformed == 1


@pytest.mark.parametrize("line", NO_MESSAGE)
async def test_no_message_is_an_invalid_request(link: Any, line: bytes) -> None:
    await link.bare.send(line + b"\n")
    answer = await link.bare.read()
    assert (answer["id"], answer["error"]["code"]) == (None, INVALID_REQUEST)
    await link.settle()
    assert link.peer.counters.malformed == 1


async def test_id_is_given_back_where_it_can_be_read(link: Any) -> None:
    await link.bare.send({"id": 5, "method": 3}, {"id": "x"}, {"id": True, "method": "echo"})
    assert [(await link.bare.read())["id"] for _ in range(3)] == [5, "x", None]


@pytest.mark.parametrize("line", [*NO_JSON, *NO_MESSAGE], ids=lambda line: repr(line[:30]))
async def test_no_answer_to_garbage_when_so_configured(open_link: Any, line: bytes) -> None:
    async with open_link(answer_malformed=False) as link:
        await link.bare.send(line + b"\n", {"id": 1, "method": "echo"})
        assert (await link.bare.read())["id"] == 1
        assert link.peer.counters.malformed == 1


async def test_invalid_utf8_harms_only_its_own_line(link: Any) -> None:
    await link.bare.send(
        {"method": "a", "params": "é"}, b'{"method":"b","params":"\xff"}\n', {"method": "c"}
    )
    await link.settle()
    assert link.handler.seen == [("a", "é"), ("c", None)]


async def test_missing_jsonrpc_and_unknown_members_are_tolerated(link: Any) -> None:
    await link.bare.send({"id": 1, "method": "echo", "params": [1], "trace": {"a": 1}})
    assert (await link.bare.read())["result"] == [1]


@pytest.mark.parametrize("id", [0, -1, 2**70, 1.5, "", "ä", None])
async def test_every_kind_of_id_comes_back(link: Any, id: Any) -> None:
    await link.bare.send({"id": id, "method": "echo"})
    assert await link.bare.read() == {"jsonrpc": "2.0", "id": id, "result": None}


@pytest.mark.parametrize("params", [b"", b',"params":null'])
async def test_absent_and_null_params_are_none(link: Any, params: bytes) -> None:
    await link.bare.send(b'{"method":"n"' + params + b"}\n")
    await link.settle()
    assert link.handler.seen == [("n", None)]


async def test_crlf_blank_lines_and_spaces_are_no_frames(link: Any) -> None:
    await link.bare.send(b'\r\n\n  \n\t\r\n {"method":"a"} \r\n\n', b'{"id":1,"method":"echo"}\r\n')
    assert (await link.bare.read())["id"] == 1
    assert link.handler.seen == [("a", None)]
    assert link.peer.counters.malformed == 0


@pytest.mark.parametrize(
    "response",
    [
        {"id": 77, "result": 1},
        {"id": "1", "result": 1},
        {"id": None, "error": {"code": -32700, "message": "?"}},
        {"id": None, "result": None},
        {"result": 3},
        {"id": 0, "error": "x"},
    ],
)
async def test_response_nobody_asked_for_is_counted_and_never_answered(
    link: Any, response: Any
) -> None:
    await link.bare.send(response, {"id": 1, "method": "echo"})
    assert (await link.bare.read())["id"] == 1
    assert link.peer.counters.unasked == 1


async def test_malformed_response_is_never_answered(link: Any) -> None:
    await link.bare.send({"id": [1], "result": 1}, {"id": 1, "method": "echo"})
    assert (await link.bare.read())["id"] == 1
    assert link.peer.counters.malformed == 1


async def test_request_with_an_id_in_flight_is_refused_and_the_first_goes_on(link: Any) -> None:
    gate = asyncio.Event()

    async def wait(_: Any, __: RequestContext) -> str:
        await gate.wait()
        return "first"

    link.handler.requests["wait"] = wait
    await link.bare.send({"id": 4, "method": "wait"}, {"id": 4, "method": "echo"})
    refusal = await link.bare.read()
    assert (refusal["id"], refusal["error"]["code"]) == (None, INVALID_REQUEST)
    assert "4" in refusal["error"]["message"]
    gate.set()
    assert await link.bare.read() == {"jsonrpc": "2.0", "id": 4, "result": "first"}
    await link.bare.send({"id": 4, "method": "echo", "params": "again"})
    assert (await link.bare.read())["result"] == "again"


@pytest.mark.parametrize(
    ("response", "result"),
    [({}, b"null"), ({"result": None}, b"null"), ({"result": 1, "error": None}, b"1")],
)
async def test_lenient_reading_of_results(link: Any, response: Any, result: bytes) -> None:
    asking = asyncio.create_task(link.peer.request("x"))
    asked = await link.bare.read()
    await link.bare.send({"id": asked["id"], **response})
    assert bytes(await asking) == result


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ({"code": -32002, "message": "no", "data": {"uri": "x"}}, -32002),
        ("boom", INTERNAL_ERROR),
        ({"code": "x"}, INTERNAL_ERROR),
        ({}, INTERNAL_ERROR),
    ],
)
async def test_error_answers_raise(link: Any, error: Any, code: int) -> None:
    asking = asyncio.create_task(link.peer.request("x"))
    asked = await link.bare.read()
    await link.bare.send({"id": asked["id"], "result": None, "error": error})
    with pytest.raises(RpcError) as caught:
        await asking
    assert caught.value.code == code
    assert caught.value.data == (error.get("data") if isinstance(error, dict) else None)


async def test_half_a_surrogate_pair_loses_a_character_not_the_message(link: Any) -> None:
    whole, backslash = "\\ud83d\\ude00", "\\\\ud83d"
    line = f'{{"method":"n","params":["a\\ud83d","{whole}","{backslash}","\\uDE00b"]}}\n'
    await link.bare.send(line.encode())
    await link.settle()
    assert link.handler.seen == [("n", ["a\ufffd", "😀", "\\ud83d", "\ufffdb"])]


async def test_unknown_method_is_not_found(link: Any) -> None:
    await link.bare.send({"id": 1, "method": "_nobody/knows"})
    answer = await link.bare.read()
    assert answer["error"] == {
        "code": METHOD_NOT_FOUND,
        "message": "unknown method '_nobody/knows'",
    }


async def test_unknown_notification_is_ignored_without_a_word(
    link: Any, caplog: pytest.LogCaptureFixture
) -> None:
    await link.bare.send({"method": "unknown/thing"})
    await link.settle()
    assert link.peer.counters.ignored == 1
    assert caplog.text == ""


async def test_failing_handler_answers_an_error_without_traceback(
    link: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_: Any, __: RequestContext) -> None:
        raise KeyError("some\nlines")

    link.handler.requests["fail"] = fail
    await link.bare.send({"id": 1, "method": "fail"}, {"id": 2, "method": "echo"})
    answers = {(a := await link.bare.read())["id"]: a for _ in range(2)}
    assert answers[1]["error"]["code"] == INTERNAL_ERROR
    assert "Traceback" not in json.dumps(answers[1])
    assert answers[2]["result"] is None
    assert "Traceback" in caplog.text


async def test_wrong_params_are_invalid_params(link: Any) -> None:
    import msgspec

    async def decode(value: Any, _: RequestContext) -> int:
        return msgspec.convert(value, int)

    link.handler.requests["n"] = decode
    await link.bare.send({"id": 1, "method": "n", "params": "x"})
    assert (await link.bare.read())["error"]["code"] == INVALID_PARAMS


@pytest.mark.parametrize(
    "error", [RpcError(1, "a", object()), RpcError(1, "\udc80"), RpcError(2**80, "x")]
)
async def test_error_that_cannot_be_encoded_is_an_error_all_the_same(
    link: Any, error: RpcError
) -> None:
    async def fail(_: Any, __: RequestContext) -> None:
        raise error

    link.handler.requests["fail"] = fail
    await link.bare.send({"id": 1, "method": "fail"})
    assert "code" in (await link.bare.read())["error"]


async def test_result_that_cannot_be_encoded_is_an_error(link: Any) -> None:
    async def give(_: Any, __: RequestContext) -> object:
        return object()

    link.handler.requests["give"] = give
    await link.bare.send({"id": 1, "method": "give"})
    assert (await link.bare.read())["error"]["code"] == INTERNAL_ERROR


async def test_params_that_cannot_be_encoded_raise_at_the_caller(link: Any) -> None:
    with pytest.raises(TypeError):
        await link.peer.request("x", object())
    with pytest.raises(TypeError):
        await link.peer.notify("x", object())
    await link.settle()


@pytest.mark.parametrize("error", [ValueError("x"), asyncio.CancelledError()])
@pytest.mark.parametrize("is_async", [False, True])
async def test_failing_notification_handler_harms_nothing(
    link: Any, caplog: pytest.LogCaptureFixture, error: BaseException, is_async: bool
) -> None:
    async def fail_later() -> None:
        raise error

    def fail(_: Any) -> Any:
        if is_async:
            return fail_later()
        raise error

    link.handler.notifications["n"] = fail
    await link.bare.send({"method": "n"}, {"method": "after"})
    await link.settle()
    assert link.handler.seen[-1] == ("after", None)
    assert link.peer.counters.failed == 1
    assert "handler of notification 'n' failed" in caplog.text
