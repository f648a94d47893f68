"""Which servers a session has, and what becomes of those that cannot be."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.agent.environment import prepare_environment
from quarterdeck.agent.mcp.servers import FoundServers, find_definitions
from quarterdeck.config.places import Places
from quarterdeck.config.trust import TrustStore
from quarterdeck.wire.events import NoticePosted
from tests.support.native_agents import deck


@pytest.fixture
def find(tmp_path: Path):
    project = tmp_path / "project"
    project.mkdir()
    places = Places.find({"QUARTERDECK_HOME": str(tmp_path / "home")})

    async def find(
        *,
        file: Any = None,
        trusted: bool = True,
        environment: dict[str, str] | None = None,
        **servers: Any,
    ) -> FoundServers:
        if trusted:
            await asyncio.to_thread(TrustStore(places.trust_file).trust, project)
        if file is not None:
            text = file if isinstance(file, str) else json.dumps({"mcpServers": file})
            await asyncio.to_thread((project / ".mcp.json").write_text, text)
        ground = await prepare_environment(
            places, environment or {}, str(project), flags={"mcp_servers": servers}
        )
        return await asyncio.to_thread(find_definitions, ground, environment or {})

    return find


async def test_settings_and_the_projects_file_are_taken_together_and_ours_win(find):
    file = {"a": {"command": "of-file"}, "b c": {"type": "http", "url": "http://x/"}}
    found = await find(file=file, a={"command": "of-settings", "args": ["1"]})
    assert [(each.name, each.command, each.url) for each in found.definitions] == [
        ("a", ("of-settings", "1"), None),
        ("b_c", (), "http://x/"),
    ]
    assert found.problems == ()


async def test_the_projects_file_does_nothing_in_a_workspace_that_is_not_trusted(find):
    found = await find(file={"a": {"command": "x"}}, trusted=False)
    assert found.definitions == () and "until you trust" in found.problems[0]


async def test_a_server_that_is_switched_off_is_off_in_the_file_too(find):
    found = await find(file={"a": {"command": "x"}}, a={"enabled": False})
    assert found == FoundServers(definitions=())


async def test_variables_are_put_in_and_a_models_key_never(find):
    environment = {"TOKEN": "t", "ANTHROPIC_API_KEY": "k", "EMPTY": ""}
    headers = {"A": "Bearer ${TOKEN}", "B": "${EMPTY:-default}", "C": "${X:-}"}
    found = await find(environment=environment, a={"url": "http://x/", "headers": headers})
    assert found.definitions[0].headers == {"A": "Bearer t", "B": "default", "C": ""}
    found = await find(
        environment=environment, a={"command": "x", "env": {"K": "${ANTHROPIC_API_KEY}"}}
    )
    assert found.definitions == () and "holds a model's key" in found.problems[0]


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
        ('{"mcpServers": 3}', "is not a table"),
        ({"a": 3}, "server 'a'"),
        ({"a": {}}, "either its command or its url"),
        ({"a": {"command": "x", "url": "http://x/"}}, "either its command or its url"),
        ({"a": {"type": "sse", "url": "http://x/"}}, "'sse' is not supported"),
        ({"a": {"command": "${NOPE}"}}, "NOPE is not set"),
    ],
)
async def test_what_is_wrong_in_the_file_costs_only_itself(find, file: Any, problem: str):
    if isinstance(file, dict):
        file = {**file, "good": {"command": "x"}}
    found = await find(file=file)
    assert problem in found.problems[0]
    assert [each.name for each in found.definitions] == (["good"] if isinstance(file, dict) else [])


async def test_a_session_tells_what_it_does_not_use(tmp_path: Path):
    work = tmp_path / "work"
    await asyncio.to_thread(work.mkdir)
    await asyncio.to_thread((work / ".mcp.json").write_text, '{"mcpServers": {"a": {}}}')
    async with deck(tmp_path, "one") as opened:
        titles = [notice.title for notice in await opened.events(NoticePosted)]
        assert any(".mcp.json: ignored until you trust" in title for title in titles)
