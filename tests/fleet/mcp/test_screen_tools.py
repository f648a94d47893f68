"""A lead arranges the person's screen, and can do nothing else with it."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.fleet.mcp.orchestration import SERVER
from quarterdeck.fleet.mcp.screen_tools import KEY_COMMANDS, SCREEN_TOOLS
from tests.support.puppet_fleet import Led, Said, leading

CHAT = {"type": "panel", "id": "chat", "widget": "chat"}


class Bench:
    """A workbench that notes its calls."""

    def __init__(self) -> None:
        self.layout: dict[str, Any] = {"tabs": [{"title": "main", "root": CHAT}]}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.by: set[str] = set()
        self.answer: Any = None
        self.error: Exception | None = None

    async def __call__(self, name: str, arguments: dict[str, Any], by: str) -> Any:
        self.by.add(by)
        if name == "get_layout":
            return self.layout
        self.calls.append((name, arguments))
        if self.error is not None:
            raise self.error
        return self.answer


class Sat(Led):
    """A lead, and a workbench."""

    bench: Bench

    async def do(self, tool: str, **arguments: Any) -> Said:
        return await self.call("boss", tool, **arguments)

    async def refused(self, tool: str, **arguments: Any) -> str:
        before = len(self.bench.calls)
        said = await self.do(tool, **arguments)
        assert said.is_error and self.bench.calls[before:] == []
        return said.text


@pytest.fixture
async def sat(tmp_path: Path) -> AsyncIterator[Sat]:
    async with leading(tmp_path) as led:
        sat = Sat(led.fleet, led.casting, led.folder)
        sat.bench = Bench()
        boss = await sat.lead()
        async with sat.fleet.attach_screen(sat.bench, cwd=str(sat.folder)):
            yield sat
        assert sat.bench.by <= {boss.session}


async def test_layouts_are_got_set_saved_loaded_listed_and_deleted(sat: Sat):
    got = await sat.do("screen_layout", action="get")
    assert json.loads(got.text) == got.data == sat.bench.layout
    await sat.do("screen_layout", action="set", layout=sat.bench.layout)
    for action in ("save", "load", "delete"):
        assert "needs a name" in await sat.refused("screen_layout", action=action)
        assert (await sat.do("screen_layout", action=action, name="mine")).text == "Done."
    sat.bench.answer = ["mine"]
    assert (await sat.do("screen_layout", action="list")).data == {"answer": ["mine"]}
    assert sat.bench.calls == [
        ("set_layout", {"layout": sat.bench.layout}),
        ("save_layout", {"name": "mine"}),
        ("load_layout", {"name": "mine"}),
        ("delete_layout", {"name": "mine"}),
        ("list_layouts", {}),
    ]
    assert "needs a layout" in await sat.refused("screen_layout", action="set")


async def test_tabs_are_opened_closed_and_renamed(sat: Sat):
    await sat.do("screen_tabs", action="open", title="new")
    await sat.do("screen_tabs", action="open", title="two", root={**CHAT, "id": "two"})
    await sat.do("screen_tabs", action="show", tab="1")
    await sat.do("screen_tabs", action="close", tab="2")
    await sat.do("screen_tabs", action="rename", tab="new", title="newer")
    assert sat.bench.calls == [
        ("open_tab", {"title": "new"}),
        ("open_tab", {"title": "two", "root": {**CHAT, "id": "two"}}),
        ("show_tab", {"tab": "1"}),
        ("close_tab", {"tab": "2"}),
        ("rename_tab", {"tab": "new", "title": "newer"}),
    ]
    assert "needs a tab" in await sat.refused("screen_tabs", action="close", title="x")


async def test_a_file_a_diff_an_agent_and_a_panel_are_shown(sat: Sat):
    await sat.call("boss", "spawn_agent", name="one", task="say eins")
    child, boss = await sat.fleet.agent("one"), await sat.fleet.agent("boss")
    await sat.do("screen_show", what="file", path="a/b.py", line=3)
    await sat.do("screen_show", what="file", path=str(sat.folder / "log"), how="tail")
    await sat.do("screen_show", what="diff")
    await sat.do("screen_show", what="agent", agent="ONE")
    await sat.do("screen_show", what="agent")
    await sat.do("screen_show", what="panel", panel="chat")
    await sat.do("screen_show", what="note", text="Look here.")
    assert sat.bench.calls == [
        ("open_file", {"path": str(sat.folder / "a" / "b.py"), "line": 3, "how": "view"}),
        ("open_file", {"path": str(sat.folder / "log"), "how": "tail"}),
        ("open_diff", {"path": str(sat.folder)}),
        ("open_agent", {"agent": child.session}),
        ("open_agent", {"agent": boss.session}),
        ("focus", {"panel": "chat"}),
        ("notify", {"text": "Look here."}),
    ]


@pytest.mark.parametrize("path", ["/etc/passwd", "../secret", "out/secret", "a/../../secret"])
async def test_nothing_outside_of_its_directories_is_shown(sat: Sat, path: str):
    (sat.folder / "out").symlink_to(sat.folder.parent)
    assert "outside" in await sat.refused("screen_show", what="file", path=path)
    assert "outside" in await sat.refused("screen_show", what="diff", path=path)
    panel = {"type": "panel", "id": "x", "widget": "file", "options": {"path": path}}
    layout = {"tabs": [{"title": "main", "root": {"type": "vertical", "children": [panel]}}]}
    assert "outside" in await sat.refused("screen_layout", action="set", layout=layout)
    assert "outside" in await sat.refused("screen_tabs", action="open", root=panel)


async def test_paths_of_panels_are_the_agents_own(sat: Sat):
    panel = {"type": "panel", "id": "x", "widget": "file", "options": {"path": "b.py"}}
    await sat.do("screen_tabs", action="open", root=panel)
    assert sat.bench.calls[0][1]["root"]["options"] == {"path": str(sat.folder / "b.py")}


async def test_what_the_person_has_open_can_be_moved_but_not_made(sat: Sat):
    shell = {"type": "panel", "id": "sh", "widget": "terminal", "options": {"command": "top"}}
    other = {"type": "panel", "id": "x", "widget": "file", "options": {"path": "/etc/hosts"}}
    moved = {"tabs": [{"title": "t", "root": {"type": "horizontal", "children": [shell, other]}}]}
    assert await sat.refused("screen_layout", action="set", layout=moved)
    sat.bench.layout = {"tabs": [{"title": "a", "root": shell}, {"title": "b", "root": other}]}
    assert not (await sat.do("screen_layout", action="set", layout=moved)).is_error
    changed = {"tabs": [{"title": "t", "root": {**shell, "options": {"command": "rm x"}}}]}
    assert "person" in await sat.refused("screen_layout", action="set", layout=changed)


async def test_another_agent_is_not_shown(sat: Sat):
    await sat.lead("stranger")
    assert "not an agent that you started" in await sat.refused(
        "screen_show", what="agent", agent="stranger"
    )


async def test_themes_are_listed_and_set(sat: Sat):
    sat.bench.answer = {"themes": ["day"]}
    assert (await sat.do("screen_theme")).data == {"themes": ["day"]}
    await sat.do("screen_theme", name="day")
    assert sat.bench.calls == [("list_themes", {}), ("set_theme", {"name": "day"})]


async def test_keys_do_no_more_than_show(sat: Sat):
    await sat.do("screen_keys", action="get")
    await sat.do("screen_keys", action="bind", key="f12", command="/unfold")
    await sat.do("screen_keys", action="unbind", key="f12")
    assert sat.bench.calls == [
        ("get_keys", {}),
        ("bind_key", {"key": "f12", "command": "unfold", "words": ""}),
        ("unbind_key", {"key": "f12"}),
    ]
    for command in ("kill", "answer", "quit", "mode", "interrupt", "widget", "unfold; kill"):
        told = await sat.refused("screen_keys", action="bind", key="f12", command=command)
        assert "cannot bind" in told
    for command, words in (("layout", "delete mine"), ("layout", " save x"), ("tab", "close")):
        asked = {"action": "bind", "key": "f12", "command": command, "words": words}
        assert "cannot bind" in await sat.refused("screen_keys", **asked)
    for key, words in (("f12 kill", ""), ("f12\nkill", ""), (" f12", ""), ("f12", "x\n/kill")):
        asked = {"action": "bind", "key": key, "command": "unfold", "words": words}
        assert "one word" in await sat.refused("screen_keys", **asked)


@pytest.mark.parametrize("key", ["ctrl+g", "CTRL+C", "ctrl+q", "enter", "f1"])
async def test_keys_that_a_person_relies_on_stay(sat: Sat, key: str):
    for asked in ({"action": "bind", "command": "unfold"}, {"action": "unbind"}):
        assert "cannot be changed" in await sat.refused("screen_keys", key=key, **asked)


def test_keys_of_agents_act_on_no_agent():
    from quarterdeck.workbench.commands.registry import COMMANDS

    known = {command.name: command for command in COMMANDS}
    assert known.keys() >= KEY_COMMANDS
    assert [name for name in KEY_COMMANDS if known[name].agent_action is not None] == []
    acting = {"answer", "bind", "quit", "spawn", "stop", "trust", "widget", "demo", "host"}
    assert not acting & KEY_COMMANDS


async def test_a_widget_waits_for_the_person(sat: Sat):
    sat.bench.answer = {"state": "waits for approval"}
    said = await sat.do("screen_widgets", action="offer", name="clock", source="x = 1")
    assert "waits for approval" in said.text
    await sat.do("screen_widgets", action="list")
    assert sat.bench.calls[0] == ("offer_widget", {"name": "clock", "source": "x = 1"})
    assert "needs a name" in await sat.refused("screen_widgets", action="offer", name="clock")


async def test_refusals_and_absence_are_told_with_the_error_flag(tmp_path: Path):
    async with leading(tmp_path) as led:
        await led.lead()
        none = await led.call("boss", "screen_layout", action="get")
        assert none.is_error and "No workbench is open" in none.text
        bench = Bench()
        bench.error = ValueError("tabs[0].root: there is no widget 'x'")
        async with led.fleet.attach_screen(bench, cwd=str(led.folder)):
            said = await led.call("boss", "screen_layout", action="set", layout={})
            assert said.is_error and "no widget 'x'" in said.text


async def test_a_nest_without_end_is_refused(sat: Sat):
    layout = {"tabs": [[] for _ in range(6_000)]}
    assert "at most 5000 values" in await sat.refused("screen_layout", action="set", layout=layout)


async def test_long_answers_are_cut_for_the_model(sat: Sat):
    sat.bench.answer = {"themes": ["x" * 100_000]}
    said = await sat.do("screen_theme")
    assert len(said.text) < 30_000 and "more characters" in said.text


async def test_only_leads_have_them(sat: Sat):
    await sat.call("boss", "spawn_agent", name="one", task="wait")
    url, token = await sat.key("one")
    answer = await sat.post(url, token, "screen_layout", {"action": "get"})
    assert "error" in answer


def test_they_cost_little_context():
    told = [(tool.name, tool.description, tool.schema) for tool in SCREEN_TOOLS]
    assert len(json.dumps(told)) < 7_500, "characters that every lead's model reads"
    assert SERVER == "quarterdeck"
