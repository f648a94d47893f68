"""What a permitted command runs in: decided with the call, by who allows it and what is there."""

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.policy.call import Call
from quarterdeck.policy.call_parts import CommandPart, parts_of
from quarterdeck.policy.decision import Allow, Ask, Decision, Deny, decide
from quarterdeck.policy.gate import Gate, HookAdvice, PermissionAnswer, PermissionGranted
from quarterdeck.policy.grammar import parse_rule
from quarterdeck.policy.modes import MODES, NO_SANDBOX, Mode, SandboxState
from quarterdeck.wire.events import Event, PermissionAsked
from quarterdeck.wire.ids import RequestId, ToolCallId
from quarterdeck.wire.permissions import Decider, Selected

SEALS = SandboxState(in_force=True, seals=True)
LEAKS = SandboxState(in_force=True)
"""One that holds the workspace only."""
PERSON = Decider(kind="person")
READINGS = ("git log", "find . -name x", "jq .a b.json", "sed -n 1p a", "sort a", "sleep 1")


NAMES = ("cat", "find", "git", "head", "jq", "ls", "make", "sed", "sleep", "sort")
FOUND = {"programs": {name: f"/usr/bin/{name}" for name in NAMES}}
"""Where programs are, for a policy that wants to know."""
KNOWN = set(Call.__struct_fields__)


def run(command: str, cwd: str = "/w") -> Call:
    more: dict[str, Any] = {name: value for name, value in FOUND.items() if name in KNOWN}
    return Call(tool="bash", kind="execute", cwd=cwd, roots=("/w",), command=command, **more)


def is_core(command: str) -> bool:
    readings = [part.reading for part in parts_of(run(command)) if isinstance(part, CommandPart)]
    return all(reading is not None and reading.core for reading in readings)


@pytest.fixture
def certain() -> str:
    if not is_core("ls"):
        pytest.skip("nothing is certain to the reader of commands")
    return "ls"


@pytest.fixture
def doubtful() -> str:
    """A command that is classified as reading, without being certain; one of git's, if need be."""
    return next(command for command in reversed(READINGS) if not is_core(command))


def word(decision: Decision) -> str:
    return decision.containment if isinstance(decision, Allow) else type(decision).__name__.lower()


def decided(
    command: str,
    mode: Mode = "ask",
    sandbox: SandboxState = SEALS,
    *rules: str,
    trusted: bool = True,
    cwd: str = "/w",
) -> str:
    parsed = [parse_rule(rule) for rule in rules]
    return word(decide(run(command, cwd), mode, parsed, sandbox=sandbox, trusted=trusted))


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode not in ("deny-all", "full-auto")])
def test_what_only_its_classification_allows_is_sealed(mode: Mode, doubtful: str):
    assert decided("ls", mode) == "sealed"
    assert decided(doubtful, mode) == "sealed"
    assert decided(f"ls && {doubtful} | head -n 1", mode) == "sealed"


def test_without_a_seal_only_the_certain_runs_unasked(doubtful: str):
    for sandbox in (NO_SANDBOX, LEAKS):
        assert decided(doubtful, "ask", sandbox) == "ask"
        assert decided(doubtful, "accept-edits", sandbox) == "ask"
        assert decided(doubtful, "plan", sandbox) == "ask"
        assert decided(doubtful, "read-only", sandbox) == "deny"
    assert decided(doubtful, "full-auto", NO_SANDBOX) == "ask"


def test_the_certain_runs_unasked_anywhere(certain: str, doubtful: str):
    assert decided(certain, "read-only", NO_SANDBOX) == "none"
    assert decided(f"{certain} && {doubtful}", "ask", NO_SANDBOX) == "ask"


def test_full_auto_contains_what_it_allows_itself_and_what_rules_allow(doubtful: str):
    for sandbox in (SEALS, LEAKS):
        for command in ("make", "ls", doubtful, "echo x > a"):
            assert decided(command, "full-auto", sandbox) == "workspace"
            assert decided(command, "full-auto", sandbox, "allow bash") == "workspace"
    assert decided("make", "full-auto", NO_SANDBOX, "allow bash") == "none"


def test_what_a_rule_allows_runs_free(doubtful: str):
    assert decided("make", "ask", SEALS, "allow bash(make)") == "none"
    assert decided("ls", "ask", SEALS, "allow bash(ls)") == "none"
    assert decided(doubtful, "ask", NO_SANDBOX, f"allow bash({doubtful})") == "none"


def test_a_rule_lifts_no_mode(doubtful: str):
    assert decided(doubtful, "read-only", NO_SANDBOX, "allow bash") == "deny"
    assert decided(doubtful, "plan", NO_SANDBOX, "allow bash") == "ask"
    assert decided(doubtful, "read-only", SEALS, "allow bash") == "sealed"


def test_beside_what_a_rule_allows_only_the_certain_runs_unasked(doubtful: str):
    assert decided(f"make && {doubtful}", "ask", SEALS, "allow bash(make)") == "ask"
    both = ("allow bash(make)", f"allow bash({doubtful})")
    assert decided(f"make && {doubtful}", "ask", SEALS, *both) == "none"


def test_beside_what_a_rule_allows_the_certain_does(certain: str):
    assert decided(f"make && {certain}", "ask", SEALS, "allow bash(make)") == "none"


def test_a_rule_for_one_of_several_readings_makes_nothing_stricter(doubtful: str):
    assert decided(f"ls && {doubtful}", "ask", SEALS, "allow bash(ls)") == "sealed"


def test_a_rule_about_paths_does_not_free_a_command():
    assert decided("cat /etc/hosts") == "ask"
    assert decided("cat /etc/hosts", "ask", SEALS, "allow read(/etc/**)") == "sealed"


def test_what_the_mode_lets_a_command_write_is_held_to_the_workspace():
    assert decided("echo x > a", "accept-edits", SEALS) in ("workspace", "ask")


def test_what_is_doubtful_does_not_write_unasked(doubtful: str):
    assert decided(f"{doubtful} > a", "accept-edits", SEALS) == "ask"


def test_git_asks_where_the_workspace_is_not_trusted():
    for mode in ("ask", "read-only", "plan", "accept-edits"):
        assert decided("git status", mode) == "sealed"
        assert decided("git status", mode, trusted=False) == "ask"
    assert decided("git status", "ask", SEALS, "allow bash(git status)", trusted=False) == "none"
    assert decided("git status", "full-auto", trusted=False) == "workspace"


def test_what_is_no_command_is_not_contained():
    call = Call(tool="think", kind="think", cwd="/w", roots=("/w",))
    assert decide(call, "full-auto", sandbox=SEALS) == decide(call, "full-auto", sandbox=SEALS)
    assert word(decide(call, "full-auto", sandbox=SEALS)) == "none"


def test_where_a_sandbox_is_required_nothing_runs_without():
    needed = SandboxState(required=True)
    denied = decide(run("ls"), "ask", [parse_rule("allow bash")], sandbox=needed)
    assert isinstance(denied, Deny)
    assert "sandbox" in denied.reason
    held = msgspec.structs.replace(SEALS, required=True)
    assert word(decide(run("ls"), "ask", sandbox=held)) == "sealed"


LINES = st.lists(
    st.sampled_from(
        ("ls", "git log", "cat a", "make", "echo x", "> b", "< c", "| head", "&&", ";", "$(x)")
    ),
    min_size=1,
    max_size=6,
).map(" ".join)
EVERY = st.lists(st.sampled_from(("allow read", "allow read(/**)", "ask bash(make)")), max_size=2)


@settings(deadline=None, max_examples=100)
@given(LINES, st.sampled_from(MODES), EVERY, st.booleans())
def test_no_command_that_nobody_allows_runs_free(
    line: str, mode: Mode, rules: list[str], trusted: bool
):
    assert decided(line, mode, SEALS, *rules, trusted=trusted) != "none"


# The gate

QUESTION = PermissionAsked(
    request=RequestId("r"), call=ToolCallId("c"), title="x", options=(), kind="execute"
)


async def ignore(event: Event) -> None:
    pass


async def answered(gate: Gate, command: str, meanwhile: Mode | None = None) -> PermissionGranted:
    """Ask the gate, and let the person allow it once the mode has changed."""
    task = asyncio.create_task(gate.permit(ignore, QUESTION, run(command)))
    allow = PermissionAnswer(outcome=Selected(option_id="allow-once"), by=PERSON)
    while not task.done():
        await asyncio.sleep(0)
        if meanwhile is not None:
            gate.mode = meanwhile
        gate.answer(RequestId("r"), allow)
    verdict = task.result()
    assert isinstance(verdict, PermissionGranted)
    return verdict


ASKS = (parse_rule("ask bash(make)"),)


async def test_a_persons_answer_frees_a_command_but_not_in_full_auto():
    assert (await answered(Gate(mode="ask", sandbox=SEALS), "make")).containment == "none"
    held = Gate(mode="full-auto", sandbox=SEALS, rules=ASKS)
    assert (await answered(held, "make")).containment == "workspace"
    bare = Gate(mode="full-auto", rules=ASKS)
    assert (await answered(bare, "make")).containment == "none"


async def test_a_change_of_mode_while_it_is_asked_frees_nothing():
    left = Gate(mode="full-auto", sandbox=SEALS, rules=ASKS)
    assert (await answered(left, "make", "ask")).containment == "workspace"
    entered = Gate(mode="ask", sandbox=SEALS)
    assert (await answered(entered, "make", "full-auto")).containment == "workspace"


async def test_a_hook_frees_like_a_rule():
    urge = HookAdvice(effect="allow", by=Decider(kind="mode", name="hook"), reason="fine")
    gate = Gate(mode="ask", sandbox=SEALS)
    assert await gate.permit(ignore, QUESTION, run("make"), urge) == PermissionGranted()
    held = Gate(mode="full-auto", sandbox=SEALS)
    outside = run("make", "/elsewhere")
    assert isinstance(decide(outside, "full-auto", sandbox=SEALS), Ask)
    verdict = await held.permit(ignore, QUESTION, outside, urge)
    assert verdict == PermissionGranted(containment="workspace")
    assert await gate.permit(ignore, QUESTION, run("ls"), urge) == PermissionGranted(
        containment="sealed"
    )


async def test_the_sandbox_is_looked_for_once_and_for_commands_only():
    looks: list[int] = []

    async def look() -> SandboxState:
        looks.append(1)
        return SEALS

    gate = Gate(mode="ask", find_sandbox=look)
    await gate.permit(ignore, QUESTION, Call(tool="think", kind="think", cwd="/w", roots=("/w",)))
    assert looks == []
    for _ in range(2):
        verdict = await gate.permit(ignore, QUESTION, run("ls"))
        assert verdict == PermissionGranted(containment="sealed")
    assert looks == [1]
