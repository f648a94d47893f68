"""Rules tried on recorded requests: the same decisions as the live gate, and what they suggest."""

import random
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.drivers.permissions import call_of
from quarterdeck.fleet.permissions.back_test import RecordedJudge, suggest_from, try_rules
from quarterdeck.fleet.permissions.request_history import RequestHistory
from quarterdeck.policy.advice import effect_of
from quarterdeck.policy.errors import RuleError
from quarterdeck.policy.foreign_calls import CallContext
from quarterdeck.policy.gate import Gate
from quarterdeck.policy.grammar import parse_rule
from quarterdeck.policy.modes import MODES, Mode
from quarterdeck.wire.events import (
    Event,
    PermissionAnswered,
    PermissionAsked,
    SessionChanged,
    SessionSpawned,
    ToolCallStarted,
)
from quarterdeck.wire.ids import RequestId, SessionId, ToolCallId
from quarterdeck.wire.permissions import Cancelled, Decider, PermissionOption, Selected
from quarterdeck.wire.record import Record
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.tool_calls import ToolCallLocation, ToolKind

POLICY = Path(__file__).parents[2] / "policy"
ROOT = "/nowhere/app"
OPTIONS = (
    PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
    PermissionOption(option_id="no", name="Deny", kind="reject_once"),
)
PERSON = Decider(kind="person", name="ada")


@dataclass
class Requests:
    """A log of permission requests."""

    records: list[Record] = field(default_factory=list[Record])

    def add(self, event: Event, session: str = "ann") -> None:
        seq = len(self.records) + 1
        self.records.append(Record(seq=seq, time=seq, session=SessionId(session), event=event))

    def spawn(self, agent: str = "claude", mode: Mode = "ask", session: str = "ann") -> None:
        options = SessionOptions(agent=agent, cwd=ROOT, mode=mode)
        self.add(SessionSpawned(name=session, options=options), session)

    def ask(self, question: PermissionAsked, session: str = "ann") -> None:
        self.add(question, session)

    def run(self, command: str, answer: str | None = "yes", by: Decider = PERSON) -> None:
        question = bash(command, len(self.records))
        self.ask(question)
        outcome = Cancelled() if answer is None else Selected(option_id=answer)
        self.add(
            PermissionAnswered(request=question.request, call=question.call, outcome=outcome, by=by)
        )

    def judges(self) -> list[RecordedJudge]:
        history = RequestHistory()
        history.add(self.records)
        return [RecordedJudge(kind, "/home/dev") for kind in history.kinds.values()]


def asked(
    name: str | None, kind: ToolKind, raw: Any, number: int, title: str = "", *places: str
) -> PermissionAsked:
    return PermissionAsked(
        request=RequestId(f"req_{number}"),
        call=ToolCallId(f"call_{number}"),
        title=title or str(name),
        options=OPTIONS,
        kind=kind,
        name=name,
        raw_input=raw,
        locations=tuple(ToolCallLocation(path=place) for place in places),
    )


def bash(command: str, number: int) -> PermissionAsked:
    return asked("Bash", "execute", {"command": command}, number)


def test_a_rule_is_tried_on_every_request_and_disagreements_are_listed():
    log = Requests()
    log.spawn()
    log.run("pytest -q")
    log.run("pytest -q")
    log.run("pytest -x tests", "no")
    log.run("git push", "no")
    log.run("make", None, Decider(kind="cancel"))
    found = try_rules(["allow bash(pytest:*)"], log.judges())
    assert (found.requests, found.allowed, found.asked, found.denied) == (5, 3, 2, 0)
    assert (found.allowed_denied, found.denied_allowed) == (1, 0)
    (wrong,) = found.disagreements
    assert (wrong.what, wrong.then, wrong.by, wrong.now) == (
        "pytest -x tests", "deny", "person", "allow",
    )  # fmt: skip
    words = "would have answered 3 of 5 requests of this week, 1 that you denied"
    assert found.describe("of this week") == words
    narrow = try_rules(["allow bash(pytest -q)"], log.judges(), since=0)
    assert narrow.describe() == "would have answered 2 of 5 requests, none that you denied"
    assert try_rules(["allow *"], [], since=0).describe() == "no requests to try it on"


def test_a_deny_rule_is_also_tried_on_what_was_decided_at_once():
    log = Requests()
    log.spawn(mode="full-auto")
    started = ToolCallStarted(
        call=ToolCallId("c"),
        title="git push",
        name="Bash",
        kind="execute",
        raw_input={"command": "git push"},
    )
    log.add(started)
    log.add(
        PermissionAnswered(
            request=RequestId("r"),
            call=ToolCallId("c"),
            outcome=Selected(option_id="allow"),
            by=Decider(kind="mode", name="full-auto"),
            kind="allow_once",
        )
    )
    found = try_rules(["deny bash(git push)"], log.judges())
    assert (found.requests, found.decided, found.denied_allowed) == (0, 1, 1)
    assert found.disagreements[0].by == "mode full-auto"
    assert try_rules(["allow bash(ls)"], log.judges()).denied_allowed == 0


def test_the_mode_of_the_time_counts():
    log = Requests()
    log.spawn(mode="plan")
    log.run("make test")
    log.add(SessionChanged(mode="ask"))
    log.run("make test")
    found = try_rules(["allow bash(make test)"], log.judges())
    assert (found.allowed, found.asked) == (1, 1)


def test_what_depends_on_files_is_said():
    log = Requests()
    log.spawn()
    log.run("cat *.log")
    log.run("make test")
    found = try_rules(["allow bash(cat:*)", "allow bash(make test)"], log.judges())
    assert found.uncertain == 1


def test_a_fork_and_an_open_request_are_not_counted_twice():
    log = Requests()
    log.spawn()
    log.run("make test")
    copies = log.records[1:3]
    for record in copies:
        log.add(record.event, "bob")
    log.ask(bash("make later", 99))
    assert try_rules(["allow bash(make test)"], log.judges()).requests == 1


def test_a_rule_that_cannot_be_read_is_an_error():
    with pytest.raises(RuleError, match="allow"):
        try_rules(["permit bash"], [])


def test_the_narrowest_rule_that_saves_the_most_is_suggested_first():
    log = Requests()
    log.spawn()
    for command in ("pytest -q", "pytest -x", "pytest tests", "pytest -q"):
        log.run(command)
    for _ in range(2):
        log.run("make test")
    log.run("git push")
    log.run("git push")
    log.run("git push", "no")
    log.run("npm run lint")
    log.run("pytest -v", None, Decider(kind="cancel"))
    suggestions = suggest_from(log.judges())
    assert [one.patterns for one in suggestions] == [("bash(pytest:*)",), ("bash(make test)",)]
    first, second = suggestions
    assert (first.saved, first.is_wide, first.others) == (4, True, 1)
    assert [one.what for one in first.examples] == ["pytest -q", "pytest -x", "pytest tests"]
    assert [one.what for one in first.other_examples] == ["pytest -v"]
    assert (second.saved, second.is_wide, second.others) == (2, False, 0)


def test_a_rule_that_would_allow_what_was_denied_is_not_suggested():
    log = Requests()
    log.spawn()
    for command in ("pytest -q", "pytest -x", "pytest tests"):
        log.run(command)
    log.run("pytest -q")
    log.run("pytest --lf", "no")
    assert [one.patterns for one in suggest_from(log.judges())] == [("bash(pytest -q)",)]


def test_every_suggestion_is_something_that_the_dialog_offers_and_holds_when_tried():
    log = Requests()
    log.spawn()
    table = tomllib.loads((POLICY / "offers.toml").read_text())["offer"]
    for row in table:
        log.run(row["command"])
        log.run(row["command"])
    offers = {offer for row in table for offer in row["offers"]}
    for one in suggest_from(log.judges(), limit=1_000):
        assert ", ".join(one.patterns) in offers
        rules = [f"allow {pattern}" for pattern in one.patterns]
        tried = try_rules(rules, log.judges())
        assert tried.allowed >= one.covers >= one.saved >= 2
        assert tried.allowed_denied == 0


def test_what_was_denied_once_is_not_suggested_for_a_later_time_either():
    log = Requests()
    log.spawn()
    log.run("make all", "no")
    since = len(log.records) + 1
    for _ in range(3):
        log.run("make all")
    assert suggest_from(log.judges(), since=since) == []


def check_suggestions(seed: int) -> int:
    """Suggest from a random log; returns how many were suggested."""
    rng = random.Random(seed)
    log = Requests()
    pool = rng.sample(COMMANDS, 6)
    programs = [command.split()[0] for command in pool]
    pool += [f"{rng.choice(programs)} {rng.choice(('-q', 'x', 'tests', '-v a'))}" for _ in "12345"]
    for _ in range(2):
        log.spawn(mode=rng.choice(("ask", "ask", "accept-edits", "plan")), agent="codex")
        for _ in range(rng.randrange(5, 30)):
            line = rng.choice(LINES).format(rng.choice(pool), rng.choice(pool))
            log.run(line, rng.choice(("yes", "yes", "yes", "yes", "no", None)))
    since = rng.choice((None, len(log.records) // 2))
    found = suggest_from(log.judges(), since=since)
    for one in found:
        tried = try_rules([f"allow {pattern}" for pattern in one.patterns], log.judges())
        assert tried.allowed_denied == 0, (seed, one.patterns, tried.disagreements)
        assert one.saved >= 2
    return len(found)


def test_nothing_is_suggested_that_covers_what_was_denied():
    assert sum(map(check_suggestions, range(25))) > 8


@pytest.mark.stress
@pytest.mark.timeout(600)
def test_nothing_is_suggested_that_covers_what_was_denied_in_many_logs():
    assert sum(map(check_suggestions, range(1_000, 1_400))) > 100


# The same answer as the live gate


COMMANDS: list[str] = [
    row["command"] for row in tomllib.loads((POLICY / "offers.toml").read_text())["offer"]
]
LINES = ("{0} && {1}", "{0} | {1}", "{0}; {1}", "{0} > out.txt", "timeout 5 {0}", "{0}", "{0}")
PATHS = ("src/a.py", "/etc/passwd", ".git/config", "~/notes.md", "../x", ".env", "docs/b c.md")
HOSTS = ("https://example.com/x", "http://localhost:80", "https://docs.python.org", "ftp://x")
RULES = (
    *("allow bash(pytest:*)", "allow bash(git add:*)", "deny bash(git push)", "ask bash(make)"),
    *("allow edit(src/**)", "deny read(.env)", "allow fetch(example.com)", "allow bash", "allow *"),
    *(
        "allow mcp(github)",
        "deny mcp(github:delete)",
        "allow tool(TodoWrite)",
        "deny edit(docs/**)",
    ),
    *("ask fetch", "allow read(~/notes.md)", "deny bash(rm)", "allow edit", "deny *"),
)
OFFERS = sorted(
    {
        offer
        for row in tomllib.loads((POLICY / "offers.toml").read_text())["offer"]
        for offer in row["offers"]
        if "), " not in offer
    }
)
QUOTED = (
    'p"yt"est -q',
    "'git' add -A",
    "git \\\n add -A",
    "$'pytest' -q",
    "\\pytest -q",
    'pyt""est',
)


def random_question(rng: random.Random, number: int) -> PermissionAsked:
    kind = rng.randrange(6)
    if kind < 2:
        first = rng.choice(QUOTED if rng.random() < 0.1 else COMMANDS)
        line = rng.choice(LINES).format(first, rng.choice(COMMANDS))
        return bash(line, number)
    path = rng.choice(PATHS)
    if kind == 2:
        return asked("Edit", "edit", {"file_path": path, "old_string": "a"}, number)
    if kind == 3:
        name = rng.choice(("Read", "read_file", "Grep", None))
        return asked(name, "read", {"path": path}, number, "Look", path)
    if kind == 4:
        return asked("WebFetch", "fetch", {"url": rng.choice(HOSTS)}, number)
    name = rng.choice(("mcp__github__delete", "mcp__github__list", "TodoWrite", "Odd"))
    return asked(name, "other", {"x": 1}, number)


async def check(seeds: Sequence[int]) -> None:
    certain = 0
    for seed in seeds:
        rng = random.Random(seed)
        mode = rng.choice(MODES)
        log = Requests()
        log.spawn(mode=mode)
        question = random_question(rng, seed)
        log.ask(question)
        by = Decider(kind="person")
        outcome = Selected(option_id="yes")
        log.add(
            PermissionAnswered(request=question.request, call=question.call, outcome=outcome, by=by)
        )
        texts = rng.sample(RULES, rng.randrange(4))
        texts += [f"allow {offer}" for offer in rng.sample(OFFERS, rng.randrange(3))]
        rules = tuple(parse_rule(text) for text in texts)
        (judge,) = log.judges()
        verdict = judge.judge(rules)
        gate = Gate(mode=mode, rules=rules)
        around = CallContext(cwd=ROOT, roots=(ROOT,), home="/home/dev", agent="claude")
        live = await gate.judge(await call_of(question, around, gate))
        if not verdict.depends_on_files:
            certain += 1
            assert verdict.effect == effect_of(live), (seed, question, rules)
    assert certain > 0.75 * len(seeds)


async def test_tried_rules_decide_as_the_live_gate_does():
    await check(range(300))


@pytest.mark.stress
@pytest.mark.timeout(600)
async def test_tried_rules_decide_as_the_live_gate_does_for_many_requests():
    await check(range(1_000, 11_000))
