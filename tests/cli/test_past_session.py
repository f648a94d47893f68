"""Which session ``run -a AGENT -c`` continues: the newest, whichever program recorded it."""

from pathlib import Path

import pytest

from quarterdeck.agent.session_store import NoSuchSessionError
from quarterdeck.cli.headless.past_session import PastSession, SessionInFleetError, find_past
from quarterdeck.drivers.errors import UnsupportedError
from quarterdeck.drivers.history.session import HistoryError
from quarterdeck.wire.session_options import SessionOptions
from tests.support.deadlines import SOON
from tests.support.history_homes import CLAUDE, CODEX, recorded_home
from tests.support.run_logs import write_run
from tests.support.scripted_fleet import Casting, fleet_of, new_agent, places_in

YEARS = 3 * 365 * 86_400


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    (tmp_path / "lab").mkdir()
    return tmp_path / "lab"


@pytest.fixture
def environment(tmp_path: Path, lab: Path) -> dict[str, str]:
    return {"HOME": str(recorded_home(tmp_path / "home", str(lab)))}


async def past(
    tmp_path: Path, environment: dict[str, str], lab: Path, agent: str, resume: str = ""
) -> PastSession:
    options = SessionOptions(agent=agent, cwd=str(lab), resume=resume)
    return await find_past(places_in(tmp_path / "deck"), environment, options, agent)


async def test_a_session_of_the_agent_alone_is_continued(
    tmp_path: Path, environment: dict[str, str], lab: Path
):
    found = await past(tmp_path, environment, lab, "codex")
    assert found == PastSession(id=None, agent_session=CODEX)
    found = await past(tmp_path, environment, lab, "claude", CLAUDE[:12])
    assert found == PastSession(id=None, agent_session=CLAUDE)


async def test_the_newest_wins_and_one_in_both_is_ours(
    tmp_path: Path, environment: dict[str, str], lab: Path
):
    state = places_in(tmp_path / "deck").state
    await write_run(state, "x", cwd="/elsewhere", agent="codex")
    old = await write_run(state, "x", cwd=str(lab), agent="codex", age=YEARS)
    assert (await past(tmp_path, environment, lab, "codex")).agent_session == CODEX
    both = await write_run(state, "x", cwd=str(lab), agent="codex", agent_session=CODEX, age=YEARS)
    assert (await past(tmp_path, environment, lab, "codex")).id == both
    assert (await past(tmp_path, environment, lab, "codex", CODEX)).id == both
    new = await write_run(state, "x", cwd=str(lab), agent="codex", agent_session="new")
    found = await past(tmp_path, environment, lab, "codex")
    assert found == PastSession(id=new, agent_session="new")
    assert (await past(tmp_path, environment, lab, "codex", old)).id == old


async def test_what_cannot_be_continued_is_named(
    tmp_path: Path, environment: dict[str, str], lab: Path
):
    state = places_in(tmp_path / "deck").state
    untold = await write_run(state, "x", cwd=str(lab), agent="cursor", agent_session=None)
    for wanted in ("", untold):
        with pytest.raises(UnsupportedError, match="never reported its session id"):
            await past(tmp_path, environment, lab, "cursor", wanted)
    with pytest.raises(UnsupportedError, match="Use -a cursor"):
        await past(tmp_path, environment, lab, "codex", untold)
    with pytest.raises(NoSuchSessionError, match="the latest of aider"):
        await past(tmp_path, environment, lab, "aider")
    with pytest.raises(NoSuchSessionError, match="'nothing'"):
        await past(tmp_path, environment, lab, "aider", "nothing")
    with pytest.raises(HistoryError, match="nothing"):
        await past(tmp_path, environment, lab, "codex", "nothing")


async def test_what_the_host_has_is_continued_there(
    tmp_path: Path, environment: dict[str, str], lab: Path
):
    async with fleet_of(tmp_path / "deck", Casting()) as fleet:
        info = await fleet.spawn(new_agent(lab, agent="codex", name="ann", resume=CODEX))
        await fleet.wait(["ann"], timeout=SOON)
        for wanted in ("", CODEX, info.session):
            with pytest.raises(SessionInFleetError, match="quarterdeck send ann"):
                await past(tmp_path, environment, lab, "codex", wanted)
        await fleet.close("ann")
        assert (await past(tmp_path, environment, lab, "codex")).agent_session == CODEX
