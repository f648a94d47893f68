"""How a session with an agent that speaks ACP begins, or does not."""

from pathlib import Path

import pytest

from quarterdeck.drivers.errors import (
    AgentMissingError,
    LoginNeededError,
    OpenFailedError,
    StartTimeoutError,
    UnsupportedError,
    WrongProtocolError,
)
from quarterdeck.wire.events import (
    MessageChunk,
    ModeChanged,
    OptionsChanged,
    SessionChanged,
    SessionOpened,
)
from quarterdeck.wire.session_options import AgentMcpServer
from tests.drivers.rigs.acp import acp_rig
from tests.support.driver_rig import Driven, Rig, drive


async def opened(rig: Rig, cwd: Path, **options: object) -> SessionOpened:
    async with drive(rig, cwd, **options) as driven:
        return driven.all(SessionOpened)[0]


async def test_the_first_event_says_who_it_is(tmp_path: Path):
    first = await opened(acp_rig(), tmp_path)
    assert (first.transport, first.agent_session, first.agent_version) == ("acp", "fake-0", "1.0.0")
    assert (first.model, first.mode) == ("fake-1", "ask")


async def test_its_settings_follow(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        assert [type(event) for event in driven.events[1:3]] == [OptionsChanged, ModeChanged]
        assert [mode.id for mode in driven.all(ModeChanged)[0].modes or ()] == ["ask", "plan"]
        able = driven.session.capabilities
        assert able.sets_mode and able.sets_model and able.resumes and able.forks and able.images


@pytest.mark.parametrize("version", ["2", "0", "99"])
async def test_another_version_is_refused(version: str, tmp_path: Path):
    with pytest.raises(WrongProtocolError, match=f"ACP version {version};"):
        await opened(acp_rig("--protocol-version", version), tmp_path)


async def test_a_needed_login_names_the_ways(tmp_path: Path):
    rig = acp_rig("--needs-login", "--terminal-login", environment={"A": "b"})
    with pytest.raises(LoginNeededError) as caught:
        await opened(rig, tmp_path)
    first, second = caught.value.methods
    assert (first.id, first.command) == ("pretend", None)
    assert second.command is not None
    assert second.command[:3] == ("env", "A=b", "FAKE_LOGIN=1")
    assert second.command[-1] == "--type"
    assert "Pretend to log in" in str(caught.value)


async def test_a_login_that_was_chosen_comes_before_the_session(tmp_path: Path):
    first = await opened(acp_rig("--needs-login", login="pretend"), tmp_path)
    assert first.agent_session == "fake-0"


async def test_a_login_that_it_does_not_have_fails(tmp_path: Path):
    with pytest.raises(OpenFailedError, match="no such login"):
        await opened(acp_rig("--needs-login", login="charm"), tmp_path)


async def test_one_that_exits_at_once_is_told_with_its_code(tmp_path: Path):
    with pytest.raises(OpenFailedError) as caught:
        await opened(acp_rig("--exit-at-start", "7"), tmp_path)
    assert caught.value.exit_code == 7
    assert "leaving at once" in caught.value.stderr


async def test_one_that_does_not_answer_is_given_up(tmp_path: Path):
    with pytest.raises(StartTimeoutError):
        await opened(acp_rig("--silent"), tmp_path, start_limit=1.0)


async def test_one_that_is_not_there_is_named(tmp_path: Path):
    from quarterdeck.drivers.acp.link import AcpLink
    from quarterdeck.drivers.agent_process import Launch

    launch = Launch(agent="ghost", command=("ghost-agent",), install="npm i ghost")
    with pytest.raises(AgentMissingError, match="npm i ghost"):
        await opened(Rig(name="ghost", make=lambda: AcpLink(launch)), tmp_path)


async def test_a_directory_that_is_not_there_is_a_failure_to_open(tmp_path: Path):
    with pytest.raises(OpenFailedError):
        await opened(acp_rig(), tmp_path / "nowhere")


async def test_a_banner_before_the_first_message_is_borne(tmp_path: Path):
    async with drive(acp_rig("--banner", "Welcome {to} [the] show!"), tmp_path) as driven:
        await driven.say("echo hello")
        assert driven.text == "hello"


async def test_what_it_says_before_the_session_has_a_name_is_kept(tmp_path: Path):
    async with drive(acp_rig("--update-first"), tmp_path) as driven:
        assert driven.text == "too early"
        assert isinstance(driven.events[0], SessionOpened)


# Options


async def test_every_option_reaches_it(tmp_path: Path):
    further = tmp_path / "further"
    further.mkdir()
    async with drive(
        acp_rig("--able"),
        tmp_path,
        model="fake-2",
        agent_mode="plan",
        roots=(str(further),),
        system_prompt="Be brief.",
        title="A title",
        mcp_servers=(AgentMcpServer(name="tools", command=("tool", "x"), environment={"A": "b"}),),
    ) as driven:
        first = driven.all(SessionOpened)[0]
        assert (first.model, first.mode) == ("fake-2", "plan")
        await driven.say("told")
        assert driven.text == f"fake-2 | plan | Be brief. | {further} | tools"


async def test_a_tool_server_with_an_address_and_a_command_is_reached_by_what_it_can(
    tmp_path: Path,
):
    both = AgentMcpServer(name="tools", url="http://127.0.0.1:9/mcp", command=("tool",))
    async with drive(acp_rig(), tmp_path, mcp_servers=(both,)) as driven:
        await driven.say("told")
        assert driven.text.endswith("tools")


async def test_words_of_the_launch_go_before_the_protocol(tmp_path: Path):
    words = {"model": ("--banner", "{}")}
    async with drive(acp_rig(words=words), tmp_path, model="not a model of it") as driven:
        assert driven.session.is_running is False


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"model": "gpt-9"}, "model 'gpt-9'.*fake-1, fake-2"),
        ({"agent_mode": "yolo"}, "mode 'yolo'.*ask, plan"),
        ({"roots": ("/usr",)}, "roots"),
        ({"system_prompt": "x"}, "system_prompt"),
        ({"fork": True}, "fork"),
        ({"mcp_servers": (AgentMcpServer(name="far", url="https://example.com"),)}, "'far'"),
    ],
)
async def test_an_option_that_it_cannot_honour_is_named(
    options: dict[str, object], named: str, tmp_path: Path
):
    with pytest.raises(UnsupportedError, match=named):
        await opened(acp_rig(), tmp_path, **options)


@pytest.mark.parametrize("option", [{"resume": "x"}, {"resume": "x", "fork": True}])
async def test_an_agent_without_a_memory_cannot_resume(option: dict[str, object], tmp_path: Path):
    with pytest.raises(UnsupportedError, match=r"resume|fork"):
        await opened(acp_rig("--no-load"), tmp_path, **option)


async def test_models_in_their_old_form_can_be_chosen(tmp_path: Path):
    async with drive(acp_rig("--old-models"), tmp_path, model="fake-2") as driven:
        await driven.session.set_model("fake-1")
        await driven.say("told")
        assert driven.text.startswith("fake-1 |")
        assert [event.model for event in driven.all(SessionChanged)] == ["fake-2", "fake-1"]
        with pytest.raises(UnsupportedError, match="fake-1, fake-2"):
            await driven.session.set_model("fake-3")


async def test_an_agent_without_settings_says_so(tmp_path: Path):
    async with drive(acp_rig("--no-settings"), tmp_path) as driven:
        assert not driven.session.capabilities.sets_mode
        with pytest.raises(UnsupportedError):
            await driven.session.set_mode("plan")
    with pytest.raises(UnsupportedError, match="offers no choice of model"):
        await opened(acp_rig("--no-settings"), tmp_path, model="fake-1")


async def test_an_agent_that_never_asks_has_only_the_modes_of_its_file(tmp_path: Path):
    quirks = frozenset({"never-asks"})
    with pytest.raises(UnsupportedError, match="mode 'ask'"):
        await opened(acp_rig(quirks=quirks), tmp_path)
    rig = acp_rig(quirks=quirks, modes={"full-auto": ()})
    async with drive(rig, tmp_path, mode="full-auto") as driven:
        assert not driven.session.capabilities.asks
    rig = acp_rig(quirks=quirks, agent_modes={"open": ()})
    async with drive(rig, tmp_path, agent_mode="open") as driven:
        assert not driven.session.capabilities.asks


# Going on


async def past(rig: Rig, cwd: Path) -> str:
    async with drive(rig, cwd) as driven:
        await driven.say("remember the sea")
        return driven.session.agent_session or ""


def agent_texts(driven: Driven, role: str) -> list[str]:
    chunks = [event for event in driven.all(MessageChunk) if event.role == role]
    return [event.content.text for event in chunks if event.content.__struct_config__.tag == "text"]  # type: ignore[union-attr]


@pytest.mark.parametrize("words", [(), ("--no-resume",)])
async def test_a_resumed_session_remembers_and_does_not_tell(
    words: tuple[str, ...], tmp_path: Path
):
    state = {"FAKE_STATE": str(tmp_path / "state")}
    rig = acp_rig(*words, environment=state)
    session = await past(rig, tmp_path)
    async with drive(rig, tmp_path, resume=session) as driven:
        assert driven.session.agent_session == session
        assert driven.all(MessageChunk) == []
        await driven.say("history")
        assert driven.text == "remember the sea"


async def test_a_replay_tells_the_past(tmp_path: Path):
    rig = acp_rig(environment={"FAKE_STATE": str(tmp_path / "state")})
    session = await past(rig, tmp_path)
    async with drive(rig, tmp_path, resume=session, replay=True) as driven:
        assert agent_texts(driven, "user") == ["remember the sea"]
        assert agent_texts(driven, "agent") == ["remember the sea"]


async def test_a_fork_goes_on_in_a_copy(tmp_path: Path):
    rig = acp_rig(environment={"FAKE_STATE": str(tmp_path / "state")})
    session = await past(rig, tmp_path)
    async with drive(rig, tmp_path, resume=session, fork=True) as driven:
        assert driven.session.agent_session not in (None, session)
        await driven.say("history")
        assert driven.text == "remember the sea"


async def test_a_session_that_it_does_not_know_fails_to_open(tmp_path: Path):
    with pytest.raises(OpenFailedError, match="no such session"):
        await opened(acp_rig(), tmp_path, resume="gone")


async def test_it_lists_its_sessions_of_the_directory(tmp_path: Path):
    rig = acp_rig(environment={"FAKE_STATE": str(tmp_path / "state")})
    session = await past(rig, tmp_path)
    async with drive(rig, tmp_path) as driven:
        listed = await driven.session.list_sessions()
        assert session in [one["sessionId"] for one in listed]
