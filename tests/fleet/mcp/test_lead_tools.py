"""Leading: agents start, watch, steer and end their own children, and nobody else's."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.fleet.permissions.delegation import DelegationLimits, narrow_options
from quarterdeck.fleet.supervisor import FleetLimits
from quarterdeck.wire.events import Prompted, SessionEnded, SessionSpawned
from quarterdeck.wire.session_options import SessionLimits, SessionOptions
from tests.support.deadlines import SOON
from tests.support.puppet_fleet import Led, leading
from tests.support.work_trees import git, new_repository


@pytest.fixture
async def led(tmp_path: Path) -> AsyncIterator[Led]:
    async with leading(tmp_path) as led:
        yield led


async def test_a_lead_starts_children_side_by_side_and_gets_their_results(led: Led):
    boss = await led.lead()
    one, two = await asyncio.gather(
        led.call("boss", "spawn_agent", name="one", task="say eins"),
        led.call("boss", "spawn_agent", name="two", task="say zwei", agent="codex"),
    )
    assert (one.data["name"], two.data["agent"], two.data["mode"]) == ("one", "codex", "ask")
    done = await led.call("boss", "wait_for")
    assert not done.is_error and "say eins" in done.text and "say zwei" in done.text
    assert {a["name"]: a["last_words"] for a in done.data["agents"]} == {
        "one": "say eins",
        "two": "say zwei",
    }
    (prompted,) = await led.events("one", Prompted)
    assert (prompted.origin, prompted.sender) == ("agent", boss.session)
    assert (await led.fleet.agent("one")).parent == boss.session


async def test_a_lead_says_whether_a_child_has_a_worktree_and_from_where(led: Led, tmp_path: Path):
    def prepare() -> str:
        new_repository(led.folder, {"a.txt": "first\n"})
        git(led.folder, "branch", "old")
        (led.folder / "a.txt").write_text("second\n")
        git(led.folder, "commit", "-qam", "second")
        return git(led.folder, "rev-parse", "old").strip()

    old = await asyncio.to_thread(prepare)
    await led.lead()
    (tmp_path / "home" / "config.toml").write_text("[worktrees]\ndefault = true\n")
    given = {"usual": {}, "none": {"worktree": False}, "based": {"base": "old"}}
    for name, options in given.items():
        said = await led.call("boss", "spawn_agent", name=name, task="say done", **options)
        assert not said.is_error, said.text
    found = {name: (await led.fleet.agent(name)).worktree for name in given}
    assert found["usual"] and found["usual"].base_ref == "main" and found["usual"].base != old
    assert found["none"] is None and (await led.fleet.agent("none")).cwd == str(led.folder)
    assert found["based"] and (found["based"].base_ref, found["based"].base) == ("old", old)
    refused = await led.call(
        "boss", "spawn_agent", name="both", task="say x", worktree=False, base="old"
    )
    assert refused.is_error and "base" in refused.text
    wrong = await led.call("boss", "spawn_agent", name="wrong", task="say x", base="nothing")
    assert wrong.is_error and "no commit 'nothing'" in wrong.text


async def test_a_result_can_be_asked_for_again_after_another_message(led: Led):
    await led.lead()
    await led.call("boss", "spawn_agent", name="one", task="say eins")
    await led.call("boss", "wait_for", agents=["one"])
    assert "now" in (await led.call("boss", "send_to_agent", agent="one", message="say uno")).text
    again = await led.call("boss", "wait_for", agents=["ONE"])
    assert again.data["agents"][0]["last_words"] == "say uno"


async def test_a_lead_steers_a_running_child(led: Led):
    await led.lead()
    await led.call("boss", "spawn_agent", name="one", task="wait")
    await led.state("one", "running")
    said = await led.call("boss", "send_to_agent", agent="one", message="rather blue", steer=True)
    assert "at its next step" in said.text
    assert led.told("one") == ["wait", "steered: rather blue"]
    steering = (await led.events("one", Prompted))[-1]
    assert (steering.steers, steering.origin) == (True, "agent")
    await led.call("boss", "spawn_agent", name="two", task="wait", agent="pi")
    await led.state("two", "running")
    no = await led.call("boss", "send_to_agent", agent="two", message="rather blue", steer=True)
    assert no.is_error and "cannot be steered" in no.text


async def test_any_or_all_and_a_timeout_that_is_no_error(led: Led):
    await led.lead()
    await led.call("boss", "spawn_agent", name="quick", task="say eins")
    await led.call("boss", "spawn_agent", name="slow", task="wait")
    done = await led.call("boss", "wait_for", until="any")
    assert "quick" in done.text and "Not all are done" in done.text
    late = await led.call("boss", "wait_for", agents=["slow"], timeout=0.05)
    assert not late.is_error and late.data["agents"][0]["state"] == "running"
    said = await led.call("boss", "interrupt_agent", agent="slow")
    assert said.data["state"] == "interrupted"
    both = await led.call("boss", "wait_for")
    assert "Not all" not in both.text


async def test_a_child_that_needs_a_person_is_told_of_once(led: Led):
    await led.lead()
    await led.call("boss", "spawn_agent", name="one", task="ask rm x")
    first = await led.call("boss", "wait_for")
    assert first.data["agents"][0]["needs_person"] and "permit" in first.text
    again = asyncio.create_task(led.call("boss", "wait_for"))
    (item,) = await led.fleet.inbox()
    assert await led.fleet.answer(item.request, "yes", by="another client")
    async with asyncio.timeout(SOON):
        assert (await again).data["agents"][0]["last_words"] == "allowed"


async def test_a_failed_child_is_done_and_says_why(led: Led):
    await led.lead()
    await led.call("boss", "spawn_agent", name="one", task="crash")
    done = await led.call("boss", "wait_for")
    assert done.data["agents"][0]["state"] == "failed" and "it crashed" in done.text


async def test_killed_and_archived_children(led: Led):
    await led.lead()
    await led.call("boss", "spawn_agent", name="one", task="wait")
    killed = await led.call("boss", "kill_agent", agent="one")
    assert killed.data["state"] == "killed"
    (ended,) = await led.events("one", SessionEnded)
    assert ended.how == "killed"
    await led.call("boss", "archive_agent", agent="one")
    assert (await led.call("boss", "list_agents")).data["agents"] == []
    assert "one" in (await led.call("boss", "list_agents", archived=True)).text
    assert "archived" in (await led.call("boss", "archive_agent", agent="one")).text
    await led.call("boss", "spawn_agent", name="one", task="say new")
    assert "say new" in (await led.call("boss", "wait_for", agents=["one"])).text


async def test_a_transcript_is_read_page_by_page_without_gap_or_repetition(led: Led):
    await led.lead()
    await led.call("boss", "spawn_agent", name="one", task="say 000")
    for n in range(1, 30):
        await led.call("boss", "send_to_agent", agent="one", message=f"say {n:03} {'x' * 80}")
    await led.call("boss", "wait_for")
    pages: list[str] = []
    page = await led.call("boss", "read_transcript", agent="one", characters=600)
    last = page.data["later"]
    while True:
        pages.insert(0, page.data["text"])
        if page.data["earlier"] is None:
            break
        cursor = page.data["earlier"]
        page = await led.call("boss", "read_transcript", agent="one", cursor=cursor, characters=600)
        assert len(page.data["text"]) < 1_500 and page.data["has_more"]
    assert len(pages) > 5
    backwards = "\n\n".join(pages)
    pages, cursor, more = [], "after:0", True
    while more:
        page = await led.call("boss", "read_transcript", agent="one", cursor=cursor, characters=600)
        pages.append(page.data["text"])
        cursor, more = page.data["later"], page.data["has_more"]
    assert "\n\n".join(pages) == backwards
    for n in range(30):
        assert backwards.count(f"prompt: say {n:03}") == backwards.count(f"agent: say {n:03}") == 1
    new = await led.call("boss", "read_transcript", agent="one", cursor=last)
    assert new.data["text"] == "" and not new.data["has_more"]
    bad = await led.call("boss", "read_transcript", agent="one", cursor="../x")
    assert bad.is_error and "cursor" in bad.text


@pytest.mark.parametrize(
    ("tool", "more"),
    [
        ("read_transcript", {}),
        ("send_to_agent", {"message": "hi"}),
        ("interrupt_agent", {}),
        ("kill_agent", {}),
        ("archive_agent", {}),
    ],
)
async def test_nobody_acts_on_others_than_its_own(led: Led, tool: str, more: dict[str, str]):
    await led.lead("boss")
    rival = await led.lead("rival")
    await led.call("rival", "spawn_agent", name="theirs", task="wait")
    await led.call("boss", "spawn_agent", name="sub", task="say x", lead=True)
    theirs = (await led.fleet.agent("theirs")).session
    for who, victims in {
        "boss": ("rival", "theirs", theirs, "boss", "nobody", "../../etc"),
        "sub": ("boss", "rival", "theirs", "sub"),
    }.items():
        for victim in victims:
            said = await led.call(who, tool, agent=victim, **more)
            assert said.is_error and "not an agent that you started" in said.text
    said = await led.call("boss", "wait_for", agents=["theirs"])
    assert said.is_error
    assert "theirs" not in (await led.call("boss", "list_agents", archived=True)).text
    assert (await led.fleet.agent("theirs")).state == "running"
    assert (await led.fleet.agent(rival.session)).is_live


async def test_grandchildren_are_out_of_reach_unless_it_is_so_configured(tmp_path: Path):
    for descendants in (False, True):
        home = tmp_path / str(descendants)
        home.mkdir()
        bounds = FleetLimits(reach=DelegationLimits(descendants=descendants))
        async with leading(home, bounds=bounds) as led:
            await led.lead()
            await led.call("boss", "spawn_agent", name="sub", task="say x", lead=True)
            await led.call("sub", "spawn_agent", name="leaf", task="wait")
            said = await led.call("boss", "interrupt_agent", agent="leaf")
            assert said.is_error is not descendants


async def test_a_token_of_an_agent_that_has_ended_opens_nothing(led: Led):
    await led.lead()
    url, token = await led.key("boss")
    await led.fleet.close("boss")
    assert await led.post(url, token, "list_agents", {}) == 401
    await led.fleet.resume("boss")
    await led.there("boss")
    assert await led.post(url, token, "list_agents", {}) == 401
    assert (await led.key("boss"))[1] != token
    assert "no agents" in (await led.call("boss", "list_agents")).text


async def test_a_fork_of_a_lead_has_tools_and_no_children(led: Led):
    await led.lead()
    await led.call("boss", "spawn_agent", name="one", task="wait")
    await led.fleet.fork("boss", name="twin")
    await led.there("twin")
    assert (await led.key("twin"))[1] != (await led.key("boss"))[1]
    assert "no agents" in (await led.call("twin", "list_agents")).text
    assert (await led.call("twin", "kill_agent", agent="one")).is_error


async def test_children_get_no_tools_to_lead_unless_they_shall(led: Led):
    await led.lead()
    await led.call("boss", "spawn_agent", name="one", task="say x")
    url, token = await led.key("one")
    answer = await led.post(url, token, "spawn_agent", {"task": "say x"})
    assert answer["error"]["code"] == -32602 and "ask_orchestrator" in answer["error"]["message"]
    plain = await led.fleet.spawn(
        SpawnOptions(options=SessionOptions(agent="claude", cwd=str(led.folder)), name="plain")
    )
    await led.there(plain.name)
    assert led.casting.links[-1].start_.opening.options.mcp_servers == ()


async def test_secrets_are_in_no_record_and_no_word_of_a_command(led: Led):
    await led.lead()
    await led.call("boss", "spawn_agent", name="one", task="say x")
    tokens = [(await led.key(name))[1] for name in ("boss", "one")]
    records = [str(r) for name in ("boss", "one") for r in await led.fleet.read(name, limit=1000)]
    for token in tokens:
        assert not any(token in record for record in records)
    for link in led.casting.links:
        (server,) = link.start_.opening.options.mcp_servers
        assert not any(token in word for token in tokens for word in server.command)


async def test_depth_and_number_are_limited(tmp_path: Path):
    async with leading(
        tmp_path, bounds=FleetLimits(reach=DelegationLimits(depth=2, live=3))
    ) as led:
        await led.lead()
        await led.call("boss", "spawn_agent", name="a", task="say x", lead=True)
        await led.call("a", "spawn_agent", name="b", task="say x", lead=True)
        deep = await led.call("b", "spawn_agent", name="c", task="say x")
        assert deep.is_error and "2 levels deep" in deep.text
        many = await asyncio.gather(
            *(led.call("boss", "spawn_agent", task="say x") for _ in range(4))
        )
        assert sorted(one.is_error for one in many) == [False, True, True, True]
        assert "3 agents are already live" in next(one.text for one in many if one.is_error)
        await led.call("boss", "kill_agent", agent="a")
        assert not (await led.call("boss", "spawn_agent", task="say x")).is_error


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"mode": "full-auto"}, "wider"),
        ({"mode": "yolo"}, "full-auto"),
        ({"allow": ["bash(rm:*)"]}, "no rule 'bash(rm:*)'"),
        ({"allow": ["*"]}, "no rule"),
        ({"cwd": "/"}, "outside"),
        ({"cwd": "relative"}, "outside"),
        ({"name": "../x"}, "not a valid agent name"),
        ({"name": "a/b"}, "not a valid agent name"),
        ({"agent": "nonesuch"}, "nonesuch"),
        ({"task": ""}, "schema"),
        ({"environment": {"A": "b"}}, "environment"),
    ],
)
async def test_a_child_is_given_no_more_than_its_parent_has(
    led: Led, fields: dict[str, object], told: str
):
    await led.lead(allow=("bash(git log:*)",), deny=("bash(git push)",))
    said = await led.call("boss", "spawn_agent", **{"task": "say x", **fields})
    assert said.is_error and told in said.text
    assert (await led.call("boss", "list_agents")).data["agents"] == []


async def test_a_link_does_not_lead_out_of_the_directory(led: Led, tmp_path: Path):
    await led.lead()
    (led.folder / "out").symlink_to(tmp_path)
    said = await led.call("boss", "spawn_agent", task="say x", cwd=str(led.folder / "out"))
    assert said.is_error and "outside" in said.text


async def test_a_child_takes_over_what_is_denied_and_may_be_given_what_is_allowed(led: Led):
    await led.lead(mode="accept-edits", allow=("bash(git log:*)",), deny=("bash(git push)",))
    allow, deny = ["bash(git log:*)"], ["edit(**/*.md)"]
    (led.folder / "sub").mkdir()
    said = await led.call(
        "boss",
        "spawn_agent",
        name="one",
        task="say x",
        allow=allow,
        deny=deny,
        mode="read-only",
        cwd=str(led.folder / "sub"),
    )
    assert not said.is_error
    (spawned,) = await led.events("one", SessionSpawned)
    assert (spawned.options.mode, spawned.options.allow) == ("read-only", ("bash(git log:*)",))
    assert spawned.options.deny == ("bash(git push)", "edit(**/*.md)")
    await led.call("boss", "spawn_agent", name="two", task="say x")
    (spawned,) = await led.events("two", SessionSpawned)
    assert (spawned.options.mode, spawned.options.allow, spawned.lead) == (
        "accept-edits",
        (),
        False,
    )


async def test_a_lead_that_takes_no_system_prompt_is_told_with_the_first_prompt(led: Led):
    await led.lead("boss", prompt="say x")
    assert "You lead other agents" in (
        led.casting.links[0].start_.opening.options.system_prompt or ""
    )
    await led.finished("boss")
    assert led.told("boss") == ["say x"]
    await led.lead("other", agent="opencode", prompt="say x")
    await led.finished("other")
    (prompted,) = await led.events("other", Prompted)
    assert "You lead other agents" in prompted.content[0].text
    assert prompted.content[1].text == "say x" and prompted.origin == "person"


async def test_an_agent_that_takes_no_tools_cannot_lead_but_can_be_led(led: Led):
    await led.fleet.spawn(
        SpawnOptions(options=SessionOptions(agent="pi", cwd=str(led.folder)), name="pi", lead=True)
    )
    info = await led.state("pi", "failed")
    assert "cannot lead" in (info.reason or "")
    await led.lead()
    await led.call("boss", "spawn_agent", name="one", agent="pi", task="say x")
    assert "say x" in (await led.call("boss", "wait_for")).text


async def test_a_lead_sets_the_options_of_its_agents(led: Led):
    await led.lead(agent="claude", mode="accept-edits")
    (led.folder / "sub").mkdir()
    said = await led.call(
        "boss",
        "spawn_agent",
        name="one",
        task="say x",
        effort="high",
        roots=[str(led.folder / "sub")],
        transport="acp",
        tools=["read"],
        denied_tools=["bash"],
        max_cost=0.5,
        max_tokens=9,
        max_calls=3,
        max_seconds=4,
    )
    assert not said.is_error, said.text
    (spawned,) = await led.events("one", SessionSpawned)
    options = spawned.options
    assert (options.effort, options.transport) == ("high", "acp")
    assert options.roots == (str(led.folder / "sub"),)
    assert (options.tools, options.denied_tools) == (("read",), ("bash",))
    assert options.limits == SessionLimits(model_calls=3, tokens=9, cost=0.5, seconds=4.0)


async def test_a_lead_gives_no_mode_that_may_skip_permissions_but_its_own(led: Led):
    await led.lead("boss", agent="claude", agent_mode="plan")
    for fields in ({"agent_mode": "bypassPermissions"}, {"agent_mode": "plan", "agent": "codex"}):
        said = await led.call("boss", "spawn_agent", name="one", task="say x", **fields)
        assert said.is_error and "only a person can set it" in said.text
    said = await led.call("boss", "spawn_agent", name="one", task="say x", agent_mode="plan")
    assert not said.is_error, said.text


def test_a_child_has_no_tool_that_its_lead_is_denied(tmp_path: Path):
    request = SpawnOptions.of(cwd=str(tmp_path), denied_tools=("bash",))
    held = SessionOptions(cwd=str(tmp_path), denied_tools=("fetch",))
    child = narrow_options(request, SessionSpawned(name="boss", options=held), "ask")
    assert child.options.denied_tools == ("fetch", "bash")
