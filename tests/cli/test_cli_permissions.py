"""``quarterdeck permissions``: what stands, what is added and taken back, and why."""

import asyncio
import json
from pathlib import Path

import pytest

from quarterdeck.config.places import Places
from quarterdeck.config.trust import TrustStore
from quarterdeck.models.script import Script
from quarterdeck.models.scripted_model import ScriptedModel
from quarterdeck.wire.events import PermissionAsked
from tests.support.agent_tools import FakeTool, returns
from tests.support.deadlines import SOON
from tests.support.native_agents import call, deck, says
from tests.support.scripted_fleet import fleet_of, new_agent


@pytest.fixture
def project(work: Path, environ: dict[str, str]) -> Path:
    """A repository with rules of its own, and rules of the user."""
    (work / ".git").mkdir()
    (work / ".quarterdeck").mkdir()
    theirs = '[permissions]\nallow = ["bash(make:*)"]\ndeny = ["read(.env)"]\n'
    (work / ".quarterdeck/config.toml").write_text(theirs)
    mine = Path(environ["HOME"]) / ".config/quarterdeck/config.toml"
    mine.parent.mkdir(parents=True)
    mine.write_text('[permissions]\nask = [\n  "bash(git push:*)",\n]\n')
    return work


def listed(run, *arguments: str) -> dict:
    done = run("permissions", "list", "--json", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def explained(run, *arguments: str) -> dict:
    done = run("permissions", "explain", "--json", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def added(run, *arguments: str) -> dict:
    done = run("permissions", "add", "--json", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_rules_are_listed_with_file_line_and_whether_they_count(
    run, project: Path, environ: dict[str, str]
):
    found = listed(run)
    rules = {f"{one['effect']} {one['pattern']}": one for one in found["rules"]}
    assert list(rules) == ["deny read(.env)", "ask bash(git push:*)", "allow bash(make:*)"]
    assert (rules["ask bash(git push:*)"]["layer"], rules["ask bash(git push:*)"]["line"]) == (
        "user",
        3,
    )
    assert rules["deny read(.env)"]["idle"] is None
    assert rules["deny read(.env)"]["place"].endswith(".quarterdeck/config.toml")
    assert rules["allow bash(make:*)"]["idle"] == "the workspace is not trusted"
    TrustStore(Places.find(environ).trust_file).trust(project)
    assert [one["idle"] for one in listed(run)["rules"]] == [None] * 3
    text = run("permissions", "list").stdout
    assert "config.toml:3" in text and "No grants." in text


APPROVERS = """
[people.ann]
uid = 1000
[people.bob]
uid = 1001
[[permissions.approvers]]
match = "bash(git push:*)"
people = ["ann", "bob"]
needed = 2
[[permissions.approvers]]
match = "edit(docs/)"
people = ["bob"]
"""


def test_the_people_who_have_to_allow_requests_are_listed(
    run, project: Path, environ: dict[str, str]
):
    assert listed(run)["approvers"] == []
    assert "Requests: the first answer decides." in run("permissions", "list").stdout
    mine = Path(environ["HOME"]) / ".config/quarterdeck/config.toml"
    mine.write_text(APPROVERS)
    theirs = project / ".quarterdeck/config.toml"
    theirs.write_text('[[permissions.approvers]]\npeople = ["ann", "bob"]\n' + theirs.read_text())

    found = listed(run)["approvers"]
    told = [(one["match"], one["who"], one["needed"], one["line"], one["idle"]) for one in found]
    assert told == [
        ("bash(git push:*)", "2 of ann, bob", 2, 6, None),
        ("edit(docs/)", "bob", 1, 10, None),
        (None, "ann or bob", 1, 1, "the workspace is not trusted"),
    ]
    assert [one["place"] for one in found] == [str(mine), str(mine), str(theirs)]
    text = run("permissions", "list").stdout
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert f"bash(git push:*) 2 of ann, bob {mine}:6" in lines
    assert f"every request ann or bob {theirs}:1 the workspace is not trusted" in lines
    assert "Other requests: the first answer decides." in lines

    TrustStore(Places.find(environ).trust_file).trust(project)
    assert [one["idle"] for one in listed(run)["approvers"]] == [None] * 3
    assert "the first answer decides" not in run("permissions", "list").stdout


def test_a_pattern_of_approvers_that_cannot_be_read_is_said(run, environ: dict[str, str]):
    mine = Path(environ["HOME"]) / ".config/quarterdeck/config.toml"
    mine.parent.mkdir(parents=True)
    mine.write_text(APPROVERS.replace("bash(git push:*)", "bash("))
    first, second = listed(run)["approvers"]
    assert (first["match"], "bash(" in first["idle"], second["idle"]) == ("bash(", True, None)


def test_what_is_listed_as_in_force_is_what_decides(run, project: Path):
    assert explained(run, "read", ".env")["decision"] == "deny"
    assert explained(run, "bash", "make")["decision"] == "ask"
    assert explained(run, "bash", "git push")["decision"] == "ask"


def test_an_answer_is_added_listed_and_taken_back(run, project: Path):
    made = added(run, "allow  bash(make all)")
    assert (made["pattern"], made["scope"]) == ("bash(make all)", "project")
    assert (made["project"], made["by"]) == (str(project), "command line")
    assert [one["id"] for one in listed(run)["grants"]] == [made["id"]]
    assert explained(run, "bash", "make all")["decision"] == "allow"
    done = run("permissions", "revoke", made["id"][:-3])
    assert done.stdout.startswith(f"revoked {made['id']}: allow bash(make all)")
    assert listed(run)["grants"] == []
    assert explained(run, "bash", "make all")["decision"] == "ask"


def test_an_answer_of_one_project_is_not_of_another(run, project: Path, tmp_path: Path):
    other = tmp_path / "other"
    other.mkdir()
    made = added(run, "allow bash(make all)", "-C", str(other))
    assert made["project"] == str(other)
    assert listed(run)["grants"] == []
    assert [one["id"] for one in listed(run, "--all")["grants"]] == [made["id"]]
    assert [one["id"] for one in listed(run, "--project", str(other))["grants"]] == [made["id"]]
    assert explained(run, "bash", "make all")["decision"] == "ask"
    assert explained(run, "bash", "make all", "-C", str(other))["decision"] == "allow"


def test_an_answer_for_one_agent_and_for_a_time(run, project: Path):
    made = added(run, "deny fetch(example.com)", "--user", "--for", "codex", "--expires", "7d")
    assert (made["agent"], made["scope"], "project" in made) == ("codex", "user", False)
    assert made["expires"] - made["created"] == 7 * 86_400 * 1_000_000
    assert explained(run, "fetch", "https://example.com", "--agent", "codex")["decision"] == "deny"
    assert explained(run, "fetch", "https://example.com", "--agent", "claude")["decision"] == "ask"
    assert listed(run, "--agent", "claude")["grants"] == []
    assert len(listed(run, "--agent", "codex")["grants"]) == 1


async def test_grants_for_a_tree_and_an_agent_are_listed_with_their_use_and_revoked_in_bulk(
    tmp_path: Path, run
):
    home, cwd = tmp_path / "home", tmp_path / "fleet"
    cwd.mkdir()

    async def command(*arguments: str) -> str:
        done = await asyncio.to_thread(
            lambda: run("permissions", *arguments, QUARTERDECK_HOME=str(home))
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    async with fleet_of(home) as fleet:
        ann = await fleet.spawn(new_agent(cwd, name="ann"))
        rule = ["allow bash(make all)", "--for", "tree:ann", "--uses", "3", "--reason", "release"]
        used = json.loads(await command("add", *rule, "--json"))
        assert (used["tree"], used["uses"], used["reason"]) == (ann.session, 3, "release")
        idle = json.loads(await command("add", "allow bash(x y)", "--for", "agent:ann", "--json"))
        assert idle["session"] == ann.session
        await fleet.spawn(new_agent(cwd, name="bob", parent=ann.session, prompt="ask make all"))
        await fleet.wait(["bob"], timeout=SOON)
        assert await fleet.inbox() == []
        found = json.loads(await command("list", "--json", "-C", str(cwd)))
        assert found["uses"][used["id"]]["uses"] == 1
        assert found["uses"][idle["id"]] == {"uses": 0, "last": None}
        text = await command("list", "-C", str(cwd))
        assert "tree of ann" in text and "agent ann" in text and "release" in text
        assert "after 2 calls, with its agent" in text and "once, " in text
        of_bob = json.loads(await command("list", "--agent", "bob", "--json"))
        assert [one["id"] for one in of_bob["grants"]] == [used["id"]]
        told = await command("explain", "bash", "make all", "--agent", "bob", "--json")
        assert json.loads(told)["decision"] == "allow"
    assert "its agent does not run" in await command("list", "-C", str(cwd))
    told = await command("revoke", "--unused")
    assert idle["id"] in told and used["id"] not in told and "Nothing was revoked" in told
    assert "No grants." in await command("revoke", "--unused", "--since", "1d", "--yes")
    assert (await command("revoke", "--unused", "--yes")).startswith(f"revoked {idle['id']}")
    assert "No grants." in await command("list", "--unused", "-C", str(cwd))
    assert used["id"] in await command("list", "-C", str(cwd))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["alow x"], "expected 'allow', 'ask' or 'deny'"),
        (["allow bish(x)"], "character 7"),
        (["allow *"], "--yes"),
        (["allow bash(rm:*)"], "lasting harm"),
        (["allow bash(ls)", "--for", "nobody"], "nobody"),
        (["allow bash(ls)", "--user", "--project"], "cannot be used together"),
        (["allow bash(ls)", "--expires", "soon"], "not a duration"),
        (["allow bash(ls)", "--expires", "0s"], "end at once"),
        (["allow bash(ls)", "--uses", "0"], "0 uses are none"),
        (["allow bash(ls)", "--for", "agent:zed"], "there is no agent 'zed'"),
        (["allow bash(ls)", "--for", "tree"], "tree:NAME"),
    ],
)
def test_nonsense_and_what_is_very_broad_is_refused(run, arguments: list[str], told: str):
    done = run("permissions", "add", *arguments)
    assert done.returncode in (1, 2)
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert listed(run)["grants"] == []


def test_what_is_very_broad_is_added_if_it_is_meant(run):
    assert added(run, "allow *", "--yes")["pattern"] == "*"


def test_an_id_that_is_wrong_takes_nothing_back_and_lists_those_there_are(run):
    done = run("permissions", "revoke", "x")
    assert (done.returncode, done.stdout) == (1, "")
    assert "there are none" in done.stderr
    first, second = added(run, "allow bash(a b)"), added(run, "allow bash(c d)")
    for ids in (["nope"], ["grt_"], [first["id"], "nope"]):
        done = run("permissions", "revoke", *ids)
        assert (done.returncode, done.stdout) == (1, "")
        assert first["id"] in done.stderr and "bash(c d)" in done.stderr
    assert len(listed(run)["grants"]) == 2
    done = run("permissions", "revoke", "--json", first["id"], second["id"], first["id"])
    assert [one["id"] for one in json.loads(done.stdout)["revoked"]] == [first["id"], second["id"]]


def test_calls_in_a_persons_words(run, work: Path):
    (work / "link").symlink_to("/etc")
    assert explained(run, "edit", "src/x.py")["paths"] == [str(work / "src/x.py")]
    assert explained(run, "edit", "src/x.py", "--mode", "accept-edits")["decision"] == "allow"
    outside = explained(run, "edit", "link/passwd", "--mode", "accept-edits")
    assert outside["decision"] == "ask"
    assert explained(run, "bash", "cat link/passwd")["decision"] == "ask"
    assert explained(run, "fetch", "http://127.0.0.1/")["decision"] == "ask"
    assert explained(run, "mcp", "github:create_issue")["decision"] == "ask"
    given = explained(run, "--tool", "Bash", "--input", '{"command": "ls"}')
    assert (given["tool"], given["command"], given["decision"]) == ("Bash", "ls", "allow")
    assert explained(run, "ls", "--mode", "deny-all")["decision"] == "deny"


def test_each_part_and_what_would_change_it_is_told(run, project: Path):
    done = run("permissions", "explain", "bash", "ls && make all", "-v")
    assert done.stdout.startswith("A person is asked: 'make all': no rule matches\n")
    assert "ask bash(git push:*)" in done.stdout
    assert "mode ask: allow (run reading)" in done.stdout
    assert "add rule 'allow bash(make all)': allow" in done.stdout
    told = run("permissions", "explain", "bash", "echo \x1b[31m\u202e")
    assert "\x1b" not in told.stdout and "\u202e" not in told.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "name a call"),
        (["edit"], "of what?"),
        (["bash", "ls", "--mode", "yolo"], "'full-auto'"),
        (["--tool", "Bash", "--input", "{"], "--input is not JSON"),
        (["mcp", "x"], "SERVER:TOOL"),
        (["teleport", "x"], "--tool"),
        (["bash", "ls", "--agent", "nobody"], "nobody"),
    ],
)
def test_what_cannot_be_explained_is_told(run, arguments: list[str], told: str):
    done = run("permissions", "explain", *arguments)
    assert done.returncode in (1, 2)
    assert told in done.stderr
    assert "Traceback" not in done.stderr


async def test_a_session_that_runs_asks_again_as_soon_as_an_answer_is_taken_back(
    tmp_path: Path, run, environ: dict[str, str]
):
    home = str(tmp_path / "home")

    async def command(*arguments: str) -> str:
        done = await asyncio.to_thread(
            lambda: run("permissions", *arguments, QUARTERDECK_HOME=home)
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    tool = FakeTool(returns("edited"), kind="edit", writes="src/a.txt")
    script = Script.sequence(*[says(call("fake")), "ok"] * 3)
    made = ScriptedModel(script, name="test")
    async with deck(tmp_path, tools=[tool], make_model=lambda _: made) as ship:
        project = ["-C", str(ship.cwd)]
        granted = json.loads(await command("add", "allow edit(src/a.txt)", "--json", *project))
        assert (await ship.prompt()).stop == "end_turn"
        assert await ship.events(PermissionAsked) == []
        await command("revoke", granted["id"])
        running = ship.start()
        (asked,) = await ship.asked()
        ship.answer(asked, "reject-once")
        await running
        await command("add", "allow edit(src/a.txt)", *project)
        await ship.prompt()
        assert len(await ship.events(PermissionAsked)) == 1
    assert len(tool.ran) == 2


async def test_leave_for_a_session_of_the_fleet_is_listed_and_taken_back(tmp_path: Path, run):
    home, cwd = tmp_path / "home", tmp_path / "fleet"
    cwd.mkdir()
    async with fleet_of(home) as fleet:
        await fleet.spawn(new_agent(cwd, name="ann", prompt="ask make all"))
        await fleet.wait(["ann"], timeout=SOON)
        (item,) = await fleet.inbox()
        await fleet.answer(item.request, "allow-session-1")
        await fleet.wait(["ann"], timeout=SOON)
        (grant,) = await fleet.grants()
        await fleet.close("ann")

    async def command(*arguments: str) -> dict:
        done = await asyncio.to_thread(
            lambda: run("permissions", *arguments, "--json", QUARTERDECK_HOME=str(home))
        )
        assert (done.returncode, done.stderr) == (0, "")
        return json.loads(done.stdout)

    found = await command("list", "--agent", "ann")
    assert (found["directory"], [one["id"] for one in found["grants"]]) == (str(cwd), [grant.id])
    assert (await command("explain", "bash", "make all", "--agent", "ann"))["decision"] == "allow"
    assert (await command("explain", "bash", "make all", "-C", str(cwd)))["decision"] == "ask"
    try:
        revoked = (await command("revoke", grant.id))["revoked"]
        assert [one["id"] for one in revoked] == [grant.id]
        assert (await command("list", "--agent", "ann"))["grants"] == []
    finally:
        await asyncio.to_thread(lambda: run("host", "stop", QUARTERDECK_HOME=str(home)))
    async with fleet_of(home) as fleet:
        assert await fleet.grants() == []


async def test_leave_for_a_session_without_a_host_is_taken_back_when_nobody_has_it_open(
    tmp_path: Path, run
):
    home = str(tmp_path / "home")

    async def command(*arguments: str):
        return await asyncio.to_thread(
            lambda: run("permissions", *arguments, "--json", QUARTERDECK_HOME=home)
        )

    tool = FakeTool(returns("edited"), kind="edit", writes="src/a.txt")
    model = lambda _: ScriptedModel(  # noqa: E731
        Script.sequence(says(call("fake")), "ok"), name="test"
    )
    async with deck(tmp_path, tools=[tool], make_model=model) as ship:
        running = ship.start()
        (asked,) = await ship.asked()
        option = next(o for o in asked.options if o.option_id.startswith("allow-session-"))
        assert ship.answer(asked, option.option_id)
        await running
        (grant,) = ship.session.gate.grants.all
        own = ["--session", ship.session.id]
        found = await command("list", "-C", str(ship.cwd), *own)
        assert [one["id"] for one in json.loads(found.stdout)["grants"]] == [grant.id]
        refused = await command("revoke", grant.id, *own)
        assert (refused.returncode, refused.stdout) == (1, "")
        id_ = ship.session.id
        await ship.agent.close(id_)
        done = await command("revoke", grant.id, *own)
        assert (done.returncode, done.stderr) == (0, "")
        session = await ship.agent.load(id_, options=ship.options)
        assert session.gate.grants.all == ()
    assert "there is no grant" in (await command("revoke", grant.id, *own)).stderr
    assert (await command("list", "--session", "ses_none")).returncode == 1
