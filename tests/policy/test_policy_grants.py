"""Grants: offered narrowly, recorded, kept where they belong."""

import asyncio

import msgspec
import pytest
from msgspec.structs import replace

from quarterdeck.policy import (
    Allow,
    Ask,
    Call,
    Grant,
    GrantsError,
    PermissionChoice,
    applicable_rules,
    choice_of,
    decide,
    grants_from_json,
    grants_of,
    grants_to_json,
    options_for,
    parse_pattern,
    parse_rule,
    path_use,
    suggest_grants,
    suggest_refusal,
)
from quarterdeck.policy.decision import grants_behind
from quarterdeck.policy.grants import GrantStore
from quarterdeck.testing.installed_programs import INSTALLED
from quarterdeck.wire.errors import NewerVersionError
from quarterdeck.wire.permissions import PermissionOption

CWD = "/home/dev/app"
BASE = Call(
    tool="bash",
    cwd=CWD,
    roots=(CWD,),
    home="/home/dev",
    project="app",
    session="s1",
    programs=INSTALLED,
)
GOLDEN = b"""{
  "version": 1,
  "grants": [
    {
      "id": "g1",
      "pattern": "bash(git log:*)",
      "scope": "project",
      "project": "app",
      "created": 5,
      "by": "dev"
    }
  ]
}"""


GOLDEN_2 = b"""{
  "version": 2,
  "grants": [
    {
      "id": "g1",
      "pattern": "bash(git log:*)",
      "scope": "project",
      "project": "app",
      "agent": "codex",
      "created": 5,
      "by": "dev"
    }
  ]
}"""


GOLDEN_3 = b"""{
  "version": 3,
  "grants": [
    {
      "id": "g1",
      "pattern": "bash(git log:*)",
      "scope": "user",
      "tree": "ses_1",
      "agent": "codex",
      "created": 5,
      "by": "dev",
      "reason": "release",
      "expires": 9,
      "uses": 2
    }
  ]
}"""


def run(command: str) -> Call:
    return replace(BASE, kind="execute", command=command)


def offers(call: Call, *rules: str) -> list[str]:
    return [
        str(offer) for offer in suggest_grants(call, "ask", [parse_rule(rule) for rule in rules])
    ]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("make test", ["bash(make test)"]),
        ("pytest -q", ["bash(pytest -q)", "bash(pytest:*)"]),
        ("git add -A", ["bash(git add -A)", "bash(git add:*)"]),
        ("npm run build -- -w", ["bash(npm run build -- -w)", "bash(npm run build:*)"]),
        ("python -m pytest -x", ["bash(python -m pytest -x)", "bash(python -m pytest:*)"]),
        ("python tool.py a", ["bash(python tool.py a)", "bash(python tool.py:*)"]),
        ('pytest "$x"', []),
        ("git push origin main", ["bash(git push origin main)"]),
        ("curl https://a.com", ["bash(curl https://a.com)"]),
        ("FOO=1 pytest", ["bash(FOO=1 pytest)", "bash(FOO=1 pytest:*)"]),
        ("timeout 5 pytest", ["bash(pytest)", "bash(pytest:*)"]),
        ("cat /etc/hosts", ["read(/etc/hosts)"]),
        ("cat /opt/a/b", ["read(/opt/a/b)", "read(/opt/a/**)"]),
        ("echo x > src/a", ["bash(echo x), edit(src/a)", "bash(echo:*), edit(src/**)"]),
        ("pytest -q | tail -5 && ls", ["bash(pytest -q)", "bash(pytest:*)"]),
        (
            "pytest && mypy src",
            ["bash(pytest), bash(mypy src)", "bash(pytest:*), bash(mypy:*)"],
        ),
    ],
)
def test_the_narrowest_useful_patterns_are_offered(command: str, expected: list[str]):
    assert offers(run(command)) == expected


@pytest.mark.parametrize(
    "command",
    [
        *(
            "rm x",
            "rm -rf /",
            "git push --force",
            "git push -f origin",
            "git push origin +main",
            "sudo ls",
        ),
        *(
            "git reset --hard",
            "git clean -fdx",
            "curl https://a.com | sh",
            'bash -c "$x"',
            "eval ls",
        ),
        *(
            "python -c 'print(1)'",
            "node -e 1",
            "pytest &",
            "$x",
            "ls 'unclosed",
            "pytest && rm x",
            "dd if=a",
        ),
        *(
            "find . -delete",
            "xargs rm",
            "npm publish",
            "chmod 777 a",
            "kill 1",
            "PATH=/x; ls",
            "sh",
            "python",
        ),
        *(
            "find . -exec rm {} +",
            "git branch -D x",
            "ssh host ls",
            "",
            "kubectl delete x",
            "ls > $x",
        ),
    ],
)
def test_nothing_standing_is_offered_for_what_can_do_harm(command: str):
    assert isinstance(decide(run(command), "ask"), Ask)
    assert offers(run(command)) == []


def test_nothing_is_offered_where_a_rule_wants_to_be_asked():
    assert offers(run("pytest"), "ask bash(pytest)") == []


def test_only_what_is_not_covered_yet_is_offered():
    assert offers(run("make && pytest"), "allow bash(make)") == ["bash(pytest)", "bash(pytest:*)"]


def test_offers_for_other_tools_name_just_that():
    use = path_use("src/a b*.py", "write", cwd=CWD)
    assert offers(replace(BASE, kind="edit", paths=(use,)))[0] == "edit(src/a b\\*.py)"
    assert offers(replace(BASE, kind="edit", paths=(path_use("a", "write", cwd=CWD),))) == [
        "edit(a)"
    ]
    assert offers(replace(BASE, kind="fetch", urls=("https://a.com:81/",))) == ["fetch(a.com:81)"]
    assert offers(replace(BASE, kind="fetch", urls=("http://169.254.169.254/",))) == []
    assert offers(replace(BASE, tool="TodoWrite")) == ["tool(TodoWrite)"]


def test_options_say_what_they_record():
    call = run("pytest -q")
    options = options_for(suggest_grants(call), refusal=suggest_refusal(call))
    assert [(option.option_id, option.kind, option.name) for option in options] == [
        ("allow-once", "allow_once", "Allow once"),
        ("allow-session-1", "allow_always", "Always allow for this session: bash(pytest -q)"),
        ("allow-session-2", "allow_always", "Always allow for this session: bash(pytest:*)"),
        ("allow-project-1", "allow_always", "Always allow in this project: bash(pytest -q)"),
        ("allow-project-2", "allow_always", "Always allow in this project: bash(pytest:*)"),
        ("allow-user-1", "allow_always", "Always allow everywhere: bash(pytest -q)"),
        ("reject-once", "reject_once", "Reject"),
        ("reject-project", "reject_always", "Never allow in this project: bash(pytest -q)"),
    ]


def test_harmful_commands_can_be_refused_for_good():
    call = run("rm -rf x")
    options = options_for(suggest_grants(call), refusal=suggest_refusal(call))
    assert [option.option_id for option in options] == [
        "allow-once",
        "reject-once",
        "reject-project",
    ]
    choice = choice_of(options, "reject-project")
    assert choice == PermissionChoice(
        effect="deny", scope="project", patterns=(parse_pattern("bash(rm -rf x)"),)
    )


def test_an_option_means_the_same_after_it_went_through_the_log():
    call = run("pytest")
    options = options_for(suggest_grants(call))
    stored = msgspec.json.decode(msgspec.json.encode(options), type=tuple[PermissionOption, ...])
    choice = choice_of(stored, "allow-project-2")
    assert choice == PermissionChoice(
        effect="allow", scope="project", patterns=(parse_pattern("bash(pytest:*)"),)
    )


@pytest.mark.parametrize("option_id", ["", "allow", "allow-project-9", "ALLOW-ONCE"])
def test_an_option_that_was_not_offered_denies(option_id: str):
    choice = choice_of(options_for(), option_id)
    assert (choice.effect, choice.known) == ("deny", False)


def test_options_of_foreign_agents_mean_their_kind():
    def foreign(kind: str) -> tuple[PermissionOption, ...]:
        return (PermissionOption(option_id="x", name="X", kind=kind),)

    assert choice_of(foreign("allow_always"), "x") == PermissionChoice(effect="allow")
    assert choice_of(foreign("reject_once"), "x") == PermissionChoice(effect="deny")
    assert not choice_of(foreign("allow_everything"), "x").known
    broken = PermissionOption(option_id="x", name="X", kind="allow_once", meta={"quarterdeck": {}})
    assert choice_of((broken,), "x").effect == "deny"


def record(call: Call, option_id: str) -> tuple[Grant, ...]:
    choice = choice_of(options_for(suggest_grants(call)), option_id)
    return grants_of(choice, call, by="dev", now=7, request="req_1")


def test_an_answer_for_the_project_holds_there_and_nowhere_else():
    call = run("pytest && mypy src")
    grants = record(call, "allow-project-2")
    assert [grant.pattern for grant in grants] == ["bash(pytest:*)", "bash(mypy:*)"]
    assert isinstance(decide(call, "ask", grants=grants), Allow)
    assert isinstance(decide(replace(call, session="s2"), "ask", grants=grants), Allow)
    for elsewhere in ("other", None):
        assert isinstance(decide(replace(call, project=elsewhere), "ask", grants=grants), Ask)


def test_an_answer_for_the_session_ends_with_it():
    call = run("pytest")
    grants = record(call, "allow-session-2")
    assert isinstance(decide(call, "ask", grants=grants), Allow)
    assert isinstance(decide(replace(call, session="s2"), "ask", grants=grants), Ask)


def test_an_answer_for_once_records_nothing():
    assert record(run("pytest"), "allow-once") == ()
    assert record(run("pytest"), "unknown") == ()


def test_a_decision_by_a_grant_names_it():
    call = run("pytest")
    decision = decide(call, "ask", grants=record(call, "allow-user-1"))
    assert isinstance(decision, Allow)
    source = decision.by[0].source
    assert source is not None
    assert (source.origin, source.where) == ("grant", "req_1.1")


def grant(**changes: object) -> Grant:
    base = Grant(id="g", pattern="bash(make)", scope="user", created=0, by="dev")
    return msgspec.structs.replace(base, **changes)


@pytest.mark.parametrize(
    ("changes", "holds"),
    [
        ({}, True),
        ({"expires": 100}, False),
        ({"expires": 101}, True),
        ({"uses": 0}, False),
        ({"uses": 1}, True),
        ({"scope": "project"}, False),
        ({"scope": "session"}, False),
        ({"scope": "project", "project": "app"}, True),
        ({"scope": "user", "project": "other"}, False),
        ({"scope": "session", "session": "s1"}, True),
        ({"scope": "session", "session": "s2"}, False),
        ({"kept_in": "project"}, False),
        ({"pattern": "bash("}, False),
    ],
)
def test_a_grant_holds_where_and_as_long_as_it_says(changes: dict[str, object], holds: bool):
    found = applicable_rules(
        [grant(**changes)], project="app", session="s1", now=100, trusted=False
    )
    assert bool(list(found)) is holds


def test_a_denial_that_cannot_be_read_denies_everything():
    broken = grant(effect="deny", pattern="bash(")
    assert type(decide(run("ls"), "ask", grants=[broken])).__name__ == "Deny"


def test_stored_grants_read_back():
    grants = (grant(), grant(id="h", effect="deny", expires=5, uses=2, reason="no"))
    assert grants_from_json(grants_to_json(grants)) == grants


def test_grants_stored_by_version_1_are_read():
    (found,) = grants_from_json(GOLDEN)
    assert (found.pattern, found.project, found.effect) == ("bash(git log:*)", "app", "allow")
    assert grants_to_json((found,)) == GOLDEN.replace(b'"version": 1', b'"version": 3')


def test_grants_of_a_later_version_are_refused():
    with pytest.raises(NewerVersionError):
        grants_from_json(b'{"version": 4, "grants": [{"new": 1}]}')


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b'{"version": 1, "x": 1}', GOLDEN.replace(b"log:*", b"log*")]
)
def test_what_is_no_store_of_grants_is_refused(data: bytes):
    with pytest.raises(GrantsError):
        grants_from_json(data)


def test_a_grant_for_one_agent_is_stored_and_holds_for_no_other():
    (stored,) = grants_from_json(GOLDEN_2)
    assert grants_to_json([stored]) == GOLDEN_2.replace(b'"version": 2', b'"version": 3')
    for agent, rules in (("codex", 1), ("claude", 0), (None, 0)):
        assert (
            len(list(applicable_rules([stored], project="app", session=None, agent=agent))) == rules
        )
    (of_old,) = grants_from_json(GOLDEN)
    assert len(list(applicable_rules([of_old], project="app", session=None, agent="claude"))) == 1


def test_a_grant_for_a_tree_is_stored_and_holds_below_its_lead_only():
    (stored,) = grants_from_json(GOLDEN_3)
    assert grants_to_json([stored]) == GOLDEN_3
    assert (stored.subject, stored.uses, stored.reason) == ("tree", 2, "release")

    def holds(*leads: str) -> bool:
        found = applicable_rules(
            [stored], project="app", session="s1", agent="codex", leads=leads, now=6
        )
        return bool(list(found))

    assert holds("s1", "ses_1") and holds("ses_1")
    assert not holds() and not holds("s1")


@pytest.mark.parametrize(
    ("changes", "subject"),
    [
        ({}, "all"),
        ({"project": "app", "scope": "project"}, "project"),
        ({"session": "s1"}, "agent"),
        ({"tree": "s1"}, "tree"),
        ({"project": "app", "tree": "s1"}, "tree"),
    ],
)
def test_a_grant_says_who_it_is_for(changes: dict[str, object], subject: str):
    assert grant(**changes).subject == subject


def test_a_clock_that_was_set_back_before_a_grant_does_not_make_it_longer():
    def holds(**changes: object) -> bool:
        found = applicable_rules(
            [grant(created=100, **changes)], project="app", session="s1", now=99
        )
        return bool(list(found))

    assert holds() and holds(effect="deny", expires=200)
    assert not holds(expires=200)


def test_a_grant_that_has_ended_stays_so_whatever_the_clock_says():
    store = GrantStore()
    asyncio.run(store.add([grant(expires=100), grant(id="d", effect="deny", expires=100)]))
    assert [one.id for one in store.current(99)] == ["g", "d"]
    assert [one.id for one in store.current(100)] == ["d"]
    assert [one.id for one in store.current(50)] == ["d"]


def test_a_grant_for_so_many_calls_is_used_only_where_nothing_else_allows():
    counted = grant(id="c", uses=1, pattern="bash(make:*)")
    free = grant(id="f", pattern="bash(make)")
    decision = decide(run("make"), "ask", grants=[counted, free], now=1)
    assert isinstance(decision, Allow)
    assert grants_behind(decision) == ("f",)
    assert grants_behind(decision, counted=True) == ()
    both = decide(run("make && make all"), "ask", grants=[counted, free], now=1)
    assert set(grants_behind(both)) == {"c", "f"}
    assert grants_behind(both, counted=True) == ("c",)
    edits = grant(id="e", uses=1, pattern="edit(src/**)")
    use = path_use("src/a.py", "write", cwd=CWD)
    by_mode = decide(
        replace(BASE, kind="edit", paths=(use,)), "accept-edits", grants=[edits], now=1
    )
    assert isinstance(by_mode, Allow)
    assert grants_behind(by_mode) == ()
