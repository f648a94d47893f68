"""Hooks of every point: commands and functions, what they may say, and bad ones."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.agent.hooks.hook import HookError
from quarterdeck.agent.tools.tool import Arguments, PreparedCall, text_outcome
from quarterdeck.agent.tools.workspace import ToolWorkspace
from quarterdeck.models.model import ModelRequest
from quarterdeck.policy.grammar import parse_rule
from quarterdeck.wire.content import text
from quarterdeck.wire.conversation import TextPart, ToolResultPart
from quarterdeck.wire.events import (
    CompactionChanged,
    ContextAdded,
    ModelCallStarted,
    NoticePosted,
    PermissionAnswered,
    PermissionAsked,
    Prompted,
    ToolCallEnded,
    ToolCallUpdated,
)
from tests.support.deadlines import SOON
from tests.support.native_agents import Deck, call, deck, results, says, told


class Words(Arguments, frozen=True, kw_only=True):
    words: str = ""


class SayTool:
    """Says what it is given; asks for leave like any unknown tool."""

    name = "say"
    description = "Says something."
    arguments = Words

    def __init__(self, kind: Any = "other") -> None:
        self.kind = kind

    async def prepare(self, arguments: Words, workspace: ToolWorkspace) -> PreparedCall:
        async def run(_: object):
            return text_outcome(f"said {arguments.words}")

        return PreparedCall(
            title=f"Say {arguments.words}", call=workspace.call(self.name, self.kind), run=run
        )


def hook(tmp_path: Path, name: str, body: str) -> list[str]:
    """A hook in Python that has its facts in ``facts``."""
    path = tmp_path / f"{name}.py"
    path.write_text(f"import json, os, sys, time\nfacts = json.load(sys.stdin)\n{body}\n")
    return [sys.executable, str(path)]


def answers(tmp_path: Path, **answer: Any) -> list[str]:
    name = f"answers{len(list(tmp_path.iterdir()))}"
    return hook(tmp_path, name, f"print(json.dumps({answer!r}))")


def flags(**points: Any) -> dict[str, Any]:
    rest = {key: points.pop(key) for key in ("continue_at_most",) if key in points}
    lists: dict[str, Any] = {
        point: found if isinstance(found, list) else [found] for point, found in points.items()
    }
    return {"hooks": {**lists, **rest}}


def texts(request: ModelRequest) -> list[str]:
    return [part.text for m in request.messages for part in m.parts if isinstance(part, TextPart)]


async def warnings(ship: Deck) -> list[str]:
    found = await ship.events(NoticePosted)
    return [f"{n.title}: {n.description}" for n in found if n.severity == "warning"]


def result(ship: Deck, at: int = -1) -> ToolResultPart:
    return results(ship.requests[at].messages[-1])[0]


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON):
        while not is_so():
            await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


CALL = says(call("say", words="hi"))


async def test_a_veto_reaches_the_model_with_its_reason(tmp_path: Path):
    veto = hook(tmp_path, "veto", "print('not on Sundays', file=sys.stderr); sys.exit(2)")
    wanted = flags(before_tool={"command": veto})
    async with deck(tmp_path, CALL, "ok", tools=[SayTool("think")], flags=wanted) as ship:
        await ship.prompt()
        assert result(ship).is_error
        assert "not on Sundays" in told(result(ship))
        ended = await ship.only(ToolCallEnded)
        assert ended.status == "failed"
        assert "not on Sundays" in (ended.reason or "")
        assert await ship.events(PermissionAsked) == []


async def test_a_veto_without_a_word_gives_a_reason_all_the_same(tmp_path: Path):
    wanted = flags(before_tool={"command": "exit 2"})
    async with deck(tmp_path, CALL, "ok", tools=[SayTool("think")], flags=wanted) as ship:
        await ship.prompt()
        assert "'exit 2' refused without a reason" in told(result(ship))


async def test_a_command_is_told_the_facts_and_gets_a_clean_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SECRET_TOKEN", "hush")
    seen = tmp_path / "seen.json"
    body = f"json.dump([facts, dict(os.environ), os.getcwd()], open({str(seen)!r}, 'w'))"
    wanted = flags(before_tool={"command": hook(tmp_path, "look", body)})
    async with deck(tmp_path, CALL, "ok", tools=[SayTool("think")], flags=wanted) as ship:
        await ship.prompt()
        session = ship.session.id
    facts, environment, cwd = json.loads(seen.read_text())
    assert facts == {
        "v": 1,
        "point": "before_tool",
        "session": session,
        "cwd": str(tmp_path / "work"),
        "project": str(tmp_path / "work"),
        "tool": "say",
        "kind": "think",
        "title": "Say hi",
        "input": {"words": "hi"},
        "call": facts["call"],
    }
    assert "SECRET_TOKEN" not in environment
    assert environment["QUARTERDECK_HOOK"] == "before_tool"
    assert environment["QUARTERDECK_SESSION"] == session
    assert cwd == str(tmp_path / "work")


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("echo garbage", "is not a valid answer"),
        ('echo "[1, 2]"', "is not a valid answer"),
        ("""echo '{"decision": "maybe"}'""", "is not a valid answer"),
        ("exit 7", "exit code 7"),
        ("echo oh no >&2; exit 1", "oh no"),
        ("kill -9 $$", "SIGKILL"),
        (["/no/such/program"], "could not be started"),
        (["./plain"], "could not be started"),
        ("head -c 3000000 /dev/zero", "3000000 bytes"),
        ("printf '\\377\\376'", "is not a valid answer"),
    ],
)
async def test_a_bad_hook_is_told_and_ignored(tmp_path: Path, command: Any, problem: str):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "plain").write_text("not executable")
    wanted = flags(before_tool={"command": command})
    async with deck(tmp_path, CALL, "ok", tools=[SayTool("think")], flags=wanted) as ship:
        assert (await ship.prompt()).stop == "end_turn"
        assert told(result(ship)) == "said hi"
        (warning,) = await warnings(ship)
        assert problem in warning
        assert "before_tool" in warning


async def test_a_hook_that_hangs_is_killed_with_all_that_it_started(tmp_path: Path):
    pids = tmp_path / "pids"
    body = f"sleep 600 & echo $! > {pids}; wait"
    wanted = flags(before_tool={"command": body, "timeout": 0.5})
    async with deck(tmp_path, CALL, "ok", tools=[SayTool("think")], flags=wanted) as ship:
        assert (await ship.prompt()).stop == "end_turn"
        assert told(result(ship)) == "said hi"
        (warning,) = await warnings(ship)
        assert "0.5 s" in warning
    assert not is_alive(int(pids.read_text()))


async def test_hooks_run_in_the_order_of_declaration_and_a_veto_ends_the_row(tmp_path: Path):
    log = tmp_path / "log"
    order = [
        {"command": f"echo one >> {log}"},
        {"command": f"echo two >> {log}; exit 2"},
        {"command": f"echo three >> {log}"},
    ]
    async with deck(
        tmp_path, CALL, "ok", tools=[SayTool("think")], flags=flags(before_tool=order)
    ) as ship:
        await ship.prompt()
    assert log.read_text().split() == ["one", "two"]


async def test_match_is_a_rule(tmp_path: Path):
    match = [{"match": "tool(other)", "command": "exit 2"}]
    async with deck(
        tmp_path, CALL, "ok", tools=[SayTool("think")], flags=flags(before_tool=match)
    ) as ship:
        await ship.prompt()
        assert told(result(ship)) == "said hi"
    again = tmp_path / "again"
    again.mkdir()
    match = [{"match": "tool(say)", "command": "exit 2"}]
    async with deck(
        again, CALL, "ok", tools=[SayTool("think")], flags=flags(before_tool=match)
    ) as ship:
        await ship.prompt()
        assert "refused" in told(result(ship))


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"command": "x", "python": "a:b"},
        {"command": ""},
        {"command": []},
        {"command": "x", "match": "nonsense("},
    ],
)
async def test_a_hook_that_is_declared_wrongly_is_named(tmp_path: Path, wrong: dict[str, Any]):
    with pytest.raises(HookError, match="before_tool"):
        async with deck(tmp_path, flags=flags(before_tool=wrong)):
            raise AssertionError("not reached")


async def test_an_allow_spares_the_question_and_is_in_the_log(tmp_path: Path):
    wanted = flags(before_tool={"command": answers(tmp_path, decision="allow")})
    async with deck(tmp_path, CALL, "ok", tools=[SayTool()], flags=wanted) as ship:
        await ship.prompt()
        assert told(result(ship)) == "said hi"
        assert (await ship.only(PermissionAnswered)).by.kind == "hook"
        assert await ship.events(PermissionAsked) == []


@pytest.mark.parametrize("rule", ["deny", "ask"])
async def test_an_allow_beats_no_rule(tmp_path: Path, rule: str):
    wanted = flags(before_tool={"command": answers(tmp_path, decision="allow")})
    rules = (parse_rule(f"{rule} tool(say)"),)
    async with deck(
        tmp_path, CALL, "ok", tools=[SayTool()], flags=wanted, rules=rules, attended=False
    ) as ship:
        await ship.prompt()
        assert result(ship).is_error
        assert (await ship.only(PermissionAnswered)).by.kind != "hook"


async def test_an_ask_asks_even_where_a_rule_allows(tmp_path: Path):
    hooks = [
        {"command": answers(tmp_path, decision="ask", reason="it is loud")},
        {"command": answers(tmp_path, decision="allow")},
    ]
    async with deck(
        tmp_path, CALL, "ok", tools=[SayTool("think")], flags=flags(before_tool=hooks)
    ) as ship:
        running = ship.start()
        (asked,) = await ship.asked()
        assert "it is loud" in (asked.reason or "")
        ship.answer(asked, "deny", "too loud")
        await running
        assert "too loud" in told(result(ship))


async def test_changed_input_is_what_people_approve_and_what_runs(tmp_path: Path):
    wanted = flags(before_tool={"command": answers(tmp_path, input={"words": "ahoy"})})
    async with deck(tmp_path, CALL, "ok", tools=[SayTool()], flags=wanted) as ship:
        running = ship.start()
        (asked,) = await ship.asked()
        assert asked.title == "Say ahoy"
        assert asked.raw_input == {"words": "ahoy"}
        ship.answer(asked, asked.options[0].option_id)
        await running
        assert told(result(ship)).startswith("said ahoy")
        assert "changed the input" in told(result(ship))
        updates = await ship.events(ToolCallUpdated)
        assert any(update.title == "Say ahoy" for update in updates)


async def test_changed_input_that_does_not_fit_refuses_the_call(tmp_path: Path):
    wanted = flags(before_tool={"command": answers(tmp_path, input={"nonsense": 1})})
    async with deck(tmp_path, CALL, "ok", tools=[SayTool("think")], flags=wanted) as ship:
        await ship.prompt()
        assert "made the call invalid" in told(result(ship))


async def test_after_a_tool_hooks_see_the_output_and_add_to_the_result(tmp_path: Path):
    body = "print(json.dumps({'context': facts['output'] + ' indeed'}))"
    hooks = [
        {"command": hook(tmp_path, "after", body)},
        {"command": "echo 'lint fails' >&2; exit 2"},
    ]
    async with deck(
        tmp_path, CALL, "ok", tools=[SayTool("think")], flags=flags(after_tool=hooks)
    ) as ship:
        await ship.prompt()
        words = told(result(ship))
        assert "said hi indeed" in words
        assert "lint fails" in words
        assert not result(ship).is_error


async def test_a_prompt_can_be_refused_and_the_model_never_hears_of_it(tmp_path: Path):
    body = "if 'secret' in facts['prompt']: print('no secrets', file=sys.stderr); sys.exit(2)"
    wanted = flags(prompt={"command": hook(tmp_path, "guard", body)})
    async with deck(tmp_path, "ok", flags=wanted) as ship:
        ended = await ship.prompt("my secret")
        assert ended.stop == "refusal"
        assert "no secrets" in (ended.reason or "")
        assert await ship.events(ModelCallStarted) == []
        await ship.prompt("hello")
        assert texts(ship.requests[0]) == ["hello"]


async def test_a_prompt_can_be_added_to(tmp_path: Path):
    wanted = flags(prompt={"command": answers(tmp_path, context="Branch: main")})
    async with deck(tmp_path, "ok", flags=wanted) as ship:
        await ship.prompt("hello")
        assert texts(ship.requests[0]) == ["hello", "Branch: main"]
        assert (await ship.only(Prompted)).content == (text("hello"),)


@pytest.mark.parametrize("answer", [{"continue": True, "reason": "Run the tests."}, None])
async def test_a_turn_goes_on_at_most_so_often(tmp_path: Path, answer: dict[str, Any] | None):
    command = answers(tmp_path, **answer) if answer else "echo Run the tests. >&2; exit 2"
    wanted = flags(turn_end={"command": command}, continue_at_most=2)
    async with deck(tmp_path, "one", "two", "three", "four", flags=wanted) as ship:
        assert (await ship.prompt()).stop == "end_turn"
        assert texts(ship.requests[-1]) == ["go", "one", "Run the tests.", "two", "Run the tests."]
        assert len(ship.requests) == 3
        prompts = await ship.events(Prompted)
        assert [p.origin for p in prompts] == ["person", "hook", "hook"]
        (warning,) = await warnings(ship)
        assert "continue_at_most is 2" in warning


async def test_a_turn_ends_when_its_hook_is_content(tmp_path: Path):
    body = "print(json.dumps({'continue': facts['continued'] < 1 and facts['answer'] == 'one'}))"
    wanted = flags(turn_end={"command": hook(tmp_path, "once", body)})
    async with deck(tmp_path, "one", "two", flags=wanted) as ship:
        await ship.prompt()
        assert len(ship.requests) == 2
        assert await warnings(ship) == []


async def test_a_session_start_tells_the_model_once_also_when_resumed(tmp_path: Path):
    wanted = flags(session_start={"command": answers(tmp_path, context="Port 4711.")})
    async with deck(tmp_path, "one", "two", flags=wanted) as ship:
        await ship.prompt("hello")
        await ship.reload()
        await ship.prompt("again")
        assert len(await ship.events(ContextAdded)) == 1
        heard = texts(ship.requests[-1])
        assert [("4711" in words) for words in heard] == [True, False, False, False]


async def test_a_session_end_and_a_notification_are_run(tmp_path: Path):
    log = tmp_path / "log"
    body = f"open({str(log)!r}, 'a').write(facts['point'] + ' ' + str(facts.get('title')) + '\\n')"
    command = {"command": hook(tmp_path, "note", body)}
    wanted = flags(session_start=command, session_end=command, notification=command)
    async with deck(tmp_path, CALL, "ok", tools=[SayTool()], flags=wanted) as ship:
        running = ship.start()
        (asked,) = await ship.asked()
        await until(lambda: "notification" in log.read_text())
        ship.answer(asked, "deny")
        await running
    assert log.read_text().splitlines() == [
        "session_start None",
        "notification Say hi",
        "session_end None",
    ]


async def test_compaction_can_be_refused_focused_and_followed(tmp_path: Path):
    body = "print(json.dumps({'context': 'Keep: port 4711'}))"
    after = answers(tmp_path, context="Read PLAN.md again.")
    wanted = flags(
        before_compaction={"command": hook(tmp_path, "focus", body)},
        after_compaction={"command": after},
    )
    long = ["word " * 1000] * 5
    async with deck(tmp_path, *long, "A summary.", "done", flags=wanted) as ship:
        for number in range(5):
            await ship.prompt(str(number))
        await ship.prompt("/compact")
        assert "Keep: port 4711" in str(ship.requests[-1].messages[-1])
        assert (await ship.events(CompactionChanged))[-1].status == "completed"
        await ship.prompt("and now")
        assert any("Read PLAN.md again." in words for words in texts(ship.requests[-1]))


async def test_a_refused_compaction_leaves_the_conversation_as_it_is(tmp_path: Path):
    wanted = flags(before_compaction={"command": "echo not now >&2; exit 2"})
    long = ["word " * 1000] * 5
    async with deck(tmp_path, *long, flags=wanted) as ship:
        for number in range(5):
            await ship.prompt(str(number))
        await ship.prompt("/compact")
        failed = (await ship.events(CompactionChanged))[-1]
        assert failed.status == "failed"
        assert "not now" in (failed.error or "")
        assert len(ship.requests) == 5


FUNCTIONS = """
import time
def deny(facts): return {"decision": "deny", "reason": "no " + facts["tool"]}
async def later(facts): return {"decision": "deny", "reason": "async no"}
def nothing(facts): return None
def boom(facts): raise ValueError("kaboom")
def odd(facts): return 42
def leave(facts): raise SystemExit(3)
def hang(facts): time.sleep(3)
text = "no function"
"""


@pytest.mark.parametrize(
    ("name", "expected", "warns"),
    [
        ("deny", "no say", ""),
        ("later", "async no", ""),
        ("nothing", "said hi", ""),
        ("boom", "said hi", "ValueError: kaboom"),
        ("odd", "said hi", "is not a valid answer"),
        ("leave", "said hi", "SystemExit"),
        ("hang", "said hi", "did not end within"),
        ("text", "said hi", "is not a function"),
        ("missing", "said hi", "cannot be loaded"),
    ],
)
async def test_functions_are_hooks_too(tmp_path: Path, name: str, expected: str, warns: str):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "functions.py").write_text(FUNCTIONS)
    wanted = flags(before_tool={"python": f"functions.py:{name}", "timeout": 0.6})
    async with deck(tmp_path, CALL, "ok", tools=[SayTool("think")], flags=wanted) as ship:
        await ship.prompt()
        assert expected in told(result(ship))
        found = await warnings(ship)
        assert bool(found) == bool(warns)
        assert all(warns in warning for warning in found)


@pytest.mark.parametrize(
    ("target", "problem"), [("no.such.module:x", "cannot be loaded"), ("nobody", "no installed")]
)
async def test_a_function_that_is_nowhere_is_told(tmp_path: Path, target: str, problem: str):
    wanted = flags(before_tool={"python": target})
    async with deck(tmp_path, CALL, "ok", tools=[SayTool("think")], flags=wanted) as ship:
        await ship.prompt()
        assert problem in (await warnings(ship))[0]


async def test_cancelling_a_turn_ends_its_hooks(tmp_path: Path):
    pid = tmp_path / "pid"
    wanted = flags(before_tool={"command": f"echo $$ > {pid}; sleep 600"})
    async with deck(tmp_path, CALL, tools=[SayTool("think")], flags=wanted) as ship:
        running = ship.start()
        await until(lambda: pid.exists() and bool(pid.read_text().strip()))
        await ship.session.cancel()
        assert (await running).stop == "cancelled"
        assert (await ship.only(ToolCallEnded)).status == "cancelled"
    assert not is_alive(int(pid.read_text()))
