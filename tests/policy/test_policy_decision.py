"""Decisions: modes, scopes, who decided, and calls that are not commands."""

import subprocess
import sys

import pytest
from msgspec.structs import replace

from quarterdeck.policy import (
    MODES,
    Allow,
    Ask,
    Call,
    Decision,
    Deny,
    McpTool,
    Mode,
    Rule,
    RuleSource,
    SandboxState,
    UnknownModeError,
    decide,
    decider_of,
    explain,
    find_mentions,
    parse_mode,
    parse_rule,
    path_use,
)
from quarterdeck.testing.installed_programs import INSTALLED

CWD = "/home/dev/app"
BASE = Call(
    tool="x",
    cwd=CWD,
    roots=(CWD,),
    home="/home/dev",
    project="app",
    session="s1",
    programs=INSTALLED,
)


def touch(
    path: str, access: str = "write", resolved: str | None = None, kind: str = "edit"
) -> Call:
    use = path_use(path, access, cwd=CWD, home="/home/dev", resolved=resolved)  # type: ignore[arg-type]
    return replace(BASE, tool=kind, kind=kind, paths=(use,))  # type: ignore[arg-type]


def fetch(url: str) -> Call:
    return replace(BASE, tool="fetch", kind="fetch", urls=(url,))


def run(command: str) -> Call:
    return replace(BASE, tool="bash", kind="execute", command=command)


READ = touch("a.py", "read", kind="read")
MCP = replace(BASE, tool="mcp__a__b", mcp=McpTool(server="a", tool="b"))
THINK = replace(BASE, tool="think", kind="think")
OTHER = replace(BASE, tool="TodoWrite")
SANDBOX = SandboxState(in_force=True)


def word(decision: Decision) -> str:
    return type(decision).__name__.lower()


@pytest.mark.parametrize(
    ("name", "call", "by_mode"),
    [
        # read-only, ask, accept-edits, plan, full-auto, deny-all
        ("read inside", READ, "allow allow allow allow allow deny"),
        ("read outside", touch("/etc/x", "read", kind="read"), "ask ask ask ask ask deny"),
        ("write inside", touch("a.py"), "deny ask allow deny allow deny"),
        ("write outside", touch("/etc/x"), "deny ask ask deny ask deny"),
        ("write protected", touch(".git/config"), "deny ask ask deny ask deny"),
        ("command", run("make"), "deny ask ask ask ask deny"),
        ("command that reads", run("ls"), "allow allow allow allow allow deny"),
        ("fetch", fetch("https://a.com/"), "ask ask ask ask ask deny"),
        ("fetch inner", fetch("http://localhost:1/"), "ask ask ask ask ask deny"),
        ("mcp", MCP, "ask ask ask ask ask deny"),
        ("think", THINK, "allow allow allow allow allow deny"),
        ("other", OTHER, "ask ask ask ask ask deny"),
    ],
)
def test_each_mode_has_its_answer(name: str, call: Call, by_mode: str):
    found = {mode: word(decide(call, mode)) for mode in MODES}
    assert found == dict(zip(MODES, by_mode.split(), strict=True)), name


@pytest.mark.parametrize(
    ("call", "sandbox", "expected"),
    [
        (run("make"), SANDBOX, "allow"),
        (run("cat /etc/x"), SANDBOX, "allow"),
        (touch("a.py"), SANDBOX, "allow"),
        (touch("/etc/x"), SANDBOX, "ask"),
        (MCP, SANDBOX, "ask"),
        (MCP, SandboxState(in_force=True, whole_agent=True), "allow"),
        (fetch("https://a.com/"), SANDBOX, "ask"),
        (fetch("https://a.com/"), SandboxState(in_force=True, network=True), "allow"),
        (fetch("http://10.0.0.1/"), SandboxState(in_force=True, network=True), "ask"),
        (run("make"), SandboxState(whole_agent=True, network=True), "ask"),
    ],
)
def test_full_auto_leaves_unasked_what_the_sandbox_contains(
    call: Call, sandbox: SandboxState, expected: str
):
    assert word(decide(call, "full-auto", sandbox=sandbox)) == expected


def test_a_sandbox_changes_no_other_mode():
    for mode in ("ask", "accept-edits", "plan"):
        assert isinstance(decide(run("make"), mode, sandbox=SANDBOX), Ask)


def test_without_a_sandbox_the_reason_says_so():
    decision = decide(run("make"), "full-auto")
    assert isinstance(decision, Ask)
    assert "no sandbox is active" in decision.reason


@pytest.mark.parametrize(("name", "hint"), [("yolo", "full-auto"), ("x", "read-only"), ("", "ask")])
def test_an_unknown_mode_says_what_to_write(name: str, hint: str):
    with pytest.raises(UnknownModeError, match=hint):
        parse_mode(name)


@pytest.mark.parametrize(
    ("call", "rule", "expected"),
    [
        (touch("src/a"), "allow edit(src/**)", "allow"),
        (touch("src/../b"), "allow edit(src/**)", "ask"),
        (touch("src/a", resolved="/etc/x"), "allow edit(src/**)", "ask"),
        (touch("src/a", resolved="/etc/x"), "allow edit", "allow"),
        (touch("a", resolved="/home/dev/secret"), "deny edit(~/secret)", "deny"),
        (touch("src/a"), "allow read(src/**)", "ask"),
        (touch("/etc/x", "read", kind="read"), "allow edit(/etc/**)", "allow"),
        (touch("src/a"), "deny read(src/**)", "deny"),
        (touch("src/a", "read", kind="read"), "deny edit(src/**)", "allow"),
        (touch("src", kind="delete"), "deny edit(src/keep/**)", "ask"),
        (touch("SRC/A"), "deny edit(src/**)", "deny"),
        (touch(".git/hooks/x"), "allow edit(**)", "ask"),
        (touch(".git/hooks/x"), "allow edit", "ask"),
        (touch(".git/hooks/x"), "allow edit(.git/hooks/*)", "allow"),
        (fetch("https://a.com/"), "allow fetch(a.com)", "allow"),
        (fetch("https://a.com/"), "allow fetch", "allow"),
        (fetch("http://localhost/"), "allow fetch", "ask"),
        (fetch("http://localhost/"), "allow *", "ask"),
        (fetch("http://localhost:8000/"), "allow fetch(localhost:8000)", "allow"),
        (fetch("http://169.254.169.254/"), "allow fetch(169.254.169.254)", "allow"),
        (fetch("https://a.com@b.com/"), "allow fetch(a.com)", "ask"),
        (fetch("https://a.com@b.com/"), "allow fetch", "ask"),
        (fetch("https://a.com@b.com/"), "allow *", "ask"),
        (replace(BASE, tool="WebSearch", kind="fetch"), "allow fetch", "allow"),
        (fetch("https://a.com@b.com/"), "deny fetch(b.com)", "ask"),
        (fetch("https://a.com@b.com/"), "deny fetch", "deny"),
        (MCP, "allow mcp(a:b)", "allow"),
        (MCP, "allow mcp(a)", "allow"),
        (MCP, "allow mcp(b)", "ask"),
        (MCP, "allow mcp(a:c)", "ask"),
        (MCP, "deny mcp(A:B)", "deny"),
        (OTHER, "allow tool(TodoWrite)", "allow"),
        (OTHER, "allow tool(todowrite)", "ask"),
        (OTHER, "deny tool(todowrite)", "deny"),
        (run("make"), "allow tool(bash)", "ask"),
        (run("make"), "deny tool(Bash)", "deny"),
        (READ, "deny *", "deny"),
        (READ, "ask read(a.py)", "ask"),
        (OTHER, "allow bash", "ask"),
    ],
)
def test_a_rule_holds_for_what_it_names(call: Call, rule: str, expected: str):
    assert word(decide(call, "ask", [parse_rule(rule)])) == expected


def test_deny_beats_ask_beats_allow_whatever_the_scope():
    allow = parse_rule("allow bash(make)", scope="call")
    ask = parse_rule("ask bash(make)", scope="project")
    deny = parse_rule("deny bash(make)", scope="user")
    assert word(decide(run("make"), "ask", [allow])) == "allow"
    assert word(decide(run("make"), "ask", [allow, ask])) == "ask"
    assert word(decide(run("make"), "ask", [allow, ask, deny])) == "deny"


def test_the_most_specific_scope_is_the_one_that_decided():
    rules = [
        parse_rule("allow bash(make)", scope="user"),
        parse_rule("allow bash(make:*)", scope="session"),
        parse_rule("allow bash", scope="project"),
    ]
    decision = decide(run("make"), "ask", rules)
    assert isinstance(decision, Allow)
    assert [(by.text, by.scope) for by in decision.by] == [("allow bash(make:*)", "session")]


def test_a_decision_says_who_made_it():
    source = RuleSource(origin="user file", where="/home/dev/.config/quarterdeck/config.toml")
    rule = Rule(effect="deny", pattern=parse_rule("deny bash(rm)").pattern, source=source)
    denied = decide(run("ls && rm x"), "ask", [rule])
    assert isinstance(denied, Deny)
    assert denied.by.source == source
    assert "'rm x'" in denied.reason
    assert "deny bash(rm)" in denied.reason
    assert decider_of(denied).kind == "rule"
    allowed = decide(run("ls"), "ask")
    assert isinstance(allowed, Allow)
    assert (decider_of(allowed).kind, decider_of(allowed).name) == ("mode", "ask")


def test_a_compound_line_names_every_rule_that_it_needed():
    rules = [parse_rule("allow bash(make)"), parse_rule("allow bash(pytest:*)")]
    decision = decide(run("make && pytest -q && ls"), "ask", rules)
    assert isinstance(decision, Allow)
    assert [by.text for by in decision.by] == ["allow bash(make)", "allow bash(pytest:*)", "ask"]


def test_a_switch_of_the_mode_applies_to_the_next_call():
    modes: list[Mode] = ["ask", "accept-edits", "read-only"]
    assert [word(decide(touch("a"), mode)) for mode in modes] == ["ask", "allow", "deny"]


def test_what_an_untrusted_workspace_denies_or_asks_about_holds():
    source = RuleSource(origin="project file", where=".quarterdeck/config.toml")
    for effect in ("deny", "ask"):
        theirs = [parse_rule(f"{effect} bash(ls)", scope="project", source=source)]
        assert word(decide(run("ls"), "ask", trusted=False)) == "allow"
        assert word(decide(run("ls"), "ask", theirs, trusted=False)) == effect


def test_what_an_untrusted_workspace_allows_does_nothing():
    source = RuleSource(origin="project file", where=".quarterdeck/config.toml")
    theirs = [parse_rule("allow bash(make)", scope="project", source=source)]
    mine = [parse_rule("allow bash(make)", scope="project")]
    assert word(decide(run("make"), "ask", theirs)) == "allow"
    assert word(decide(run("make"), "ask", theirs, trusted=False)) == "ask"
    assert word(decide(run("make"), "ask", mine, trusted=False)) == "allow"


def test_a_call_with_a_doubt_is_allowed_by_a_rule_for_all_of_its_tool_only():
    doubtful = replace(run("make"), doubts=("the agent gives a title only",))
    assert word(decide(doubtful, "ask", [parse_rule("allow bash(make)")])) == "ask"
    assert word(decide(doubtful, "ask", [parse_rule("allow bash")])) == "allow"


@pytest.mark.parametrize("cwd", ["/tmp/x", "/home/dev/app2", "/home/dev", "/"])
def test_a_rule_for_a_command_holds_in_the_workspace_only(cwd: str):
    rules = [parse_rule("allow bash(make)"), parse_rule("allow read(/**)")]
    assert word(decide(run("make"), "ask", rules)) == "allow"
    assert word(decide(replace(run("make"), cwd=cwd), "ask", rules)) == "ask"
    assert word(decide(run(f"cd {cwd} && make"), "ask", rules)) == "ask"
    assert word(decide(replace(run("make"), cwd=cwd), "ask", [parse_rule("allow bash")])) == "allow"


def test_a_call_that_says_nothing_is_asked_about():
    for kind in ("execute", "read", "edit", "delete", "fetch", "other"):
        call = replace(BASE, kind=kind)  # type: ignore[arg-type]
        assert isinstance(decide(call, "accept-edits"), Ask)


def test_links_that_lead_elsewhere_count():
    call = run("cat docs/link")
    assert find_mentions(call).paths == (CWD, f"{CWD}/docs/link")
    assert word(decide(call, "ask")) == "allow"
    linked = replace(call, links={f"{CWD}/docs/link": "/etc/passwd"})
    assert word(decide(linked, "ask")) == "ask"
    assert word(decide(linked, "ask", [parse_rule("deny read(/etc/**)")])) == "deny"


def test_an_explanation_shows_what_was_considered():
    rules = [parse_rule("deny bash(rm)"), parse_rule("allow bash(make:*)", scope="session")]
    told = explain(run("make all && ls"), "ask", rules)
    assert isinstance(told.decision, Allow)
    lines = {(step.part, step.by.text, step.outcome) for step in told.steps}
    assert ("make all", "deny bash(rm)", "does not apply") in lines
    assert ("make all", "allow bash(make:*)", "applies") in lines
    assert ("ls", "ask", "allow (run reading)") in lines


def test_importing_the_room_loads_no_parser():
    code = "import sys, quarterdeck.policy; sys.exit('tree_sitter' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
