"""On each vendor's wire: its words for a full window lead to one compaction and one retry."""

from pathlib import Path

import pytest

from quarterdeck.agent.native import NativeAgent, NativeSessionOptions
from quarterdeck.config.places import Places
from quarterdeck.models.script import Script, ScriptFailure, ScriptReply
from quarterdeck.models.script import ScriptTextPart as Says
from quarterdeck.testing.model_server import ModelServer
from quarterdeck.wire.content import text
from quarterdeck.wire.events import CompactionChanged, ModelCallFinished
from tests.support.native_agents import call, says
from tests.support.window_models import loud

MODELS = [
    "anthropic/claude-opus-5-5",
    "openai/gpt-6.1-sol",
    "google/gemini-3.8-flash",
    "openai-chat/gpt-6.1-sol",
]


def script(*, overflows: int) -> Script:
    full = ScriptFailure(kind="overflow", status=400, times=overflows)
    refused = ScriptReply(error=full, parts=(Says(text="# Goal\nAll is well."),))
    return Script.sequence(*(says(call("fake", n=n)) for n in range(12)), refused, "Finished.")


@pytest.mark.parametrize("model", MODELS)
async def test_a_full_window_leads_to_one_compaction_and_one_retry(tmp_path: Path, model: str):
    (tmp_path / "work").mkdir()
    async with ModelServer(script(overflows=1)) as server:
        environment = {"HOME": str(tmp_path)}
        for vendor, path in (("ANTHROPIC", ""), ("OPENAI", "/v1"), ("GEMINI", "")):
            environment[f"{vendor}_API_KEY"] = "dummy"
            environment[f"{vendor}_BASE_URL"] = f"{server.url}{path}"
        tool = loud()
        options = NativeSessionOptions.of(model=model, make_tools=lambda: (tool,))
        places = Places.find({"QUARTERDECK_HOME": str(tmp_path / "home")})
        async with NativeAgent(places, environment) as agent:
            session = await agent.new(options.at(str(tmp_path / "work")))
            ended = await session.prompt((text("Never push. Go."),))
            records = [r.event async for r in session.journal.history(session=session.id)]
    assert (ended.stop, ended.reason) == ("end_turn", None)
    changed = [event for event in records if isinstance(event, CompactionChanged)]
    assert [event.status for event in changed] == ["in_progress", "completed"]
    assert changed[1].summary == "# Goal\nAll is well."
    calls = [event for event in records if isinstance(event, ModelCallFinished)]
    assert [number for number, each in enumerate(calls) if each.error] == [12]
    assert len(calls) == 14
