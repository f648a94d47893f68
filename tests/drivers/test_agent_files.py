"""Agents as files: those that ship, those of the user, and those that are wrong."""

import re
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.config.places import Places
from quarterdeck.drivers.acp import quirks
from quarterdeck.drivers.agent_description import PROXIES, Agent, parse_agent
from quarterdeck.drivers.catalogue import Catalogue, find_agent, load_catalogue, make_launch
from quarterdeck.drivers.command_line import render_option
from quarterdeck.drivers.errors import BadAgentFileError, UnknownAgentError, UnsupportedError
from quarterdeck.drivers.transports import SESSION_TRANSPORTS, make_links
from tests.interop.test_agents_by_file import CELLS

WANTED = (
    *("claude", "codex", "gemini", "opencode", "qwen", "kimi", "vibe", "goose", "cursor"),
    *("copilot", "amp", "auggie", "pi", "crush", "aider", "openhands", "droid", "native"),
)
PAGES = Path(__file__).parents[2] / "docs"
SCREENS = Path(__file__).parents[1] / "fixtures" / "screens"
CAPTURES = Path(__file__).with_name("captures")


def put(name: str, text: str) -> Path:
    """Write a file into the user's folder."""
    folder = Places.find().agents
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.toml"
    file.write_text(text)
    return file


NOWHERE = Path("/nonexistent")
NOBODYS = Places(config=NOWHERE, state=NOWHERE, cache=NOWHERE, runtime=NOWHERE)


def shipped() -> list[Agent]:
    return list(load_catalogue(NOBODYS).agents.values())


class TestShipped:
    def test_every_agent_is_there_without_a_problem(self):
        catalogue = load_catalogue()
        assert not catalogue.problems
        assert set(WANTED) <= set(catalogue.agents)

    @pytest.mark.parametrize("agent", shipped(), ids=lambda agent: agent.name)
    def test_an_agent_says_what_a_person_needs(self, agent: Agent):
        assert agent.title and agent.vendor and agent.install
        assert agent.login.hint
        assert agent.transports
        for reach in agent.transports.values():
            assert reach.quirks <= quirks.KNOWN

    @pytest.mark.parametrize("agent", shipped(), ids=lambda agent: agent.name)
    def test_each_transport_that_is_tried_has_a_link(self, agent: Agent):
        for name in agent.tried:
            for make in make_links(agent, name):
                assert make().transport == name

    @pytest.mark.parametrize("agent", shipped(), ids=lambda agent: agent.name)
    def test_words_take_their_value_as_one_word(self, agent: Agent):
        for transport, reach in agent.transports.items():
            launch = make_launch(agent, transport)
            for option, words in reach.words.items():
                given = render_option(launch, transport, option, "a b; $(c)")
                assert len(given) == len(words)
                assert any("a b; $(c)" in word for word in given) == any("{}" in w for w in words)

    @pytest.mark.parametrize("agent", shipped(), ids=lambda agent: agent.name)
    def test_no_mode_of_ours_skips_permissions(self, agent: Agent):
        loud = re.compile("yolo|force|danger|bypass|skip-perm|allow-all|--auto$|full-access")
        for reach in agent.transports.values():
            for words in (reach.command, *reach.modes.values()):
                assert not [word for word in words if loud.search(word)]

    def test_names_and_aliases_mean_one_agent_each(self):
        names = [name for agent in shipped() for name in (agent.name, *agent.aliases)]
        assert len(names) == len(set(names))

    def test_an_agent_sees_its_keys_and_the_proxies_and_not_those_of_others(self):
        launch = make_launch(find_agent("codex"), "pipe")
        assert {"OPENAI_API_KEY", "CODEX_HOME", *PROXIES} <= set(launch.inherit)
        assert "ANTHROPIC_API_KEY" not in launch.inherit

    def test_our_own_agent_is_this_program_and_no_folder_of_that_name(self):
        launch = make_launch(find_agent("native"), "acp")
        assert launch.command == (sys.executable, "-P", "-m", "quarterdeck", "acp")

    def test_one_that_speaks_no_protocol_says_so(self):
        agent = find_agent("aider")
        assert agent.tried == ()
        with pytest.raises(UnsupportedError, match="Use it in a terminal"):
            make_links(agent)
        assert len(make_links(agent, "pty")) == 1

    def test_what_is_called_proven_was_recorded_or_is_run_live(self):
        ours = ("native", "acp")
        for agent in shipped():
            for transport, reach in agent.transports.items():
                if not reach.verified:
                    continue
                assert transport in SESSION_TRANSPORTS
                assert re.fullmatch(r"[\w-]+ \d+\.\d+\.\d+", reach.verified)
                recorded = CAPTURES / reach.verified.replace(" ", "-") / transport
                if transport == "pty":
                    recorded = SCREENS / agent.name
                live = (agent.name, transport) in CELLS
                assert live or recorded.is_dir() or (agent.name, transport) == ours


class TestNames:
    @pytest.mark.parametrize("name", ["claude", "Claude", " claude-code ", "CLAUDE-CODE"])
    def test_an_agent_is_found_by_its_names(self, name: str):
        assert find_agent(name).name == "claude"

    def test_an_unknown_name_is_told_with_the_nearest(self):
        with pytest.raises(UnknownAgentError) as told:
            find_agent("cluade")
        assert "Did you mean 'claude'" in str(told.value)
        assert "gemini" in str(told.value)

    def test_a_transport_that_the_file_lacks_is_refused_with_those_it_has(self):
        with pytest.raises(UnsupportedError, match="described over acp, pty"):
            make_launch(find_agent("goose"), "pipe")


class TestOwn:
    def test_a_file_adds_an_agent(self):
        file = put("mein-agent", '[transports.acp]\ncommand = ["mein", "acp"]')
        agent = find_agent("mein-agent")
        assert (agent.title, agent.tried, agent.is_own) == ("mein-agent", ("acp",), True)
        assert agent.sources == (str(file),)
        assert make_launch(agent, "acp").command == ("mein", "acp")

    def test_names_may_be_in_any_script(self):
        put("助手-ñ", '[transports.acp]\ncommand = ["助手"]')
        assert find_agent("助手-Ñ").name == "助手-ñ"

    def test_a_file_changes_a_shipped_agent_field_by_field(self):
        before = find_agent("claude")
        put("claude", 'order = ["acp"]\n[transports.acp.environment]\nA = "1"')
        after = find_agent("claude")
        assert after.tried == ("acp",)
        assert make_launch(after, "acp").environment == {"A": "1"}
        assert after.transports["acp"].command == before.transports["acp"].command
        assert after.transports["pipe"] == before.transports["pipe"]
        assert (after.title, after.is_own, before.is_own) == (before.title, True, False)

    def test_a_bad_file_harms_no_other(self):
        put("bad", "this is not toml")
        put("claude", 'order = ["telepathy"]')
        put("good", '[transports.acp]\ncommand = ["good"]')
        catalogue = load_catalogue()
        assert set(catalogue.problems) == {"bad", "claude"}
        assert catalogue.find("good").name == "good"
        assert not catalogue.find("claude").is_own, "the shipped one goes on"
        with pytest.raises(BadAgentFileError, match="not TOML"):
            catalogue.find("bad")

    def test_an_alias_of_the_user_goes_before_a_shipped_one(self):
        put("zz", 'aliases = ["claude-code"]\n[transports.acp]\ncommand = ["zz"]')
        assert find_agent("claude-code").name == "zz"

    def test_files_that_are_none_are_left_alone(self):
        folder = put("x", '[transports.acp]\ncommand = ["x"]').parent
        (folder / "notes.txt").write_text("hello")
        (folder / "pipe.toml").mkdir()
        catalogue = load_catalogue()
        assert "x" in catalogue.agents
        assert "pipe" in catalogue.problems


class TestWrong:
    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ('comand = ["x"]', "comand: no such field; did you mean 'command'?"),
            ('[transports.acp]\ncommand = "x"', "transports.acp.command: Expected `array`"),
            ("[transports.acp]\ncommand = []", "transports.acp.command: the program is missing"),
            ('[transports.acp]\ndialect = "x"', "transports.acp.command: is missing"),
            ('[transports.acp]\ncommand = ["x"]\ncolour = 1', "transports.acp.colour: no such"),
            ('[transports.radio]\ncommand = ["x"]', "transports"),
            ('order = ["acp"]', "order: there is no table [transports.acp]"),
            ('[transports.pipe]\ncommand = ["x"]', "transports.pipe.dialect: '' is not one of"),
            ('name = "other"', "name: 'other' is not the file's name"),
            ("title = 1", "title: Expected `str`"),
            ('sources = ["x"]', "sources: no such field"),
            (
                '[transports.pipe]\ncommand=["x"]\ndialect="codex"\nmodes.yolo=["--yolo"]',
                "transports.pipe.modes",
            ),
            ('[transports.pipe]\ncommand=["x"]\ndialect="generic"', "events"),
            (
                '[transports.pipe]\ncommand=["x"]\ndialect="generic"\n'
                'events.rules=[{means="mood"}]',
                "mood",
            ),
        ],
    )
    def test_a_mistake_is_told_with_file_and_place(self, text: str, told: str):
        file = put("mine", text)
        problem = str(load_catalogue().problems["mine"])
        assert problem.startswith(str(file))
        assert told in problem
        assert "docs/agents" in problem

    @pytest.mark.parametrize("name", [".hidden", "a b", "-x", "a" * 70])
    def test_a_name_that_no_agent_can_have_is_told(self, name: str):
        put(name, '[transports.acp]\ncommand = ["x"]')
        assert "cannot be a name" in str(load_catalogue().problems[name])

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["transports", "acp", "pipe", "command", "words", "order"])
                    | st.text(max_size=5),
                    inner,
                    max_size=4,
                )
            ),
            max_leaves=12,
        ).filter(lambda value: isinstance(value, dict))
    )
    @settings(deadline=None, max_examples=150)
    def test_nothing_but_an_agent_or_a_bad_file_comes_of_any_table(self, table: dict):
        try:
            agent = parse_agent("x", table, ("/x.toml",))
        except BadAgentFileError:
            return
        for transport in agent.transports:
            make_launch(agent, transport)


class TestPages:
    def examples(self) -> list[tuple[str, str]]:
        text = (PAGES / "agents.md").read_text()
        return re.findall(r"`([\w-]+)\.toml`[^\n]*\n\n```toml\n(.*?)```", text, re.DOTALL)

    def test_the_examples_of_the_page_are_agents(self):
        examples = self.examples()
        assert len(examples) >= 3
        for name, text in examples:
            put(name, text)
        catalogue = load_catalogue()
        assert not catalogue.problems
        for name, _ in examples:
            assert make_links(catalogue.agents[name])

    def test_the_page_names_every_field(self):
        text = (PAGES / "agents.md").read_text()
        fields = re.findall(r"^\| `([\w.]+)` \|", text, re.MULTILINE)
        known = parse_agent("x", {"transports": {"acp": {"command": ["x"]}}}, ("/x.toml",))
        agent = set(known.__struct_fields__) - {"sources", "login", "transports"}
        reach = {f"transports.T.{name}" for name in known.transports["acp"].__struct_fields__}
        login = {f"login.{name}" for name in known.login.__struct_fields__}
        assert agent | reach | login <= set(fields)

    def test_the_page_tells_of_each_agent_what_its_file_tells(self):
        text = (PAGES / "agents.md").read_text()
        for agent in shipped():
            row = re.search(rf"^\| `{agent.name}` \|(.*)\|$", text, re.MULTILINE)
            assert row, f"{agent.name} is not in the table of docs/agents.md"
            for name in agent.tried:
                claim = agent.transports[name].verified or "unverified"
                assert f"{name}: {claim}" in row[1]


def test_a_catalogue_is_read_without_a_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("QUARTERDECK_HOME", str(tmp_path / "nowhere"))
    catalogue = load_catalogue()
    assert isinstance(catalogue, Catalogue)
    assert not (tmp_path / "nowhere").exists(), "looking creates nothing"


def test_every_shipped_file_is_formatted_like_the_others():
    for file in sorted(Path("src/quarterdeck/drivers/agents").glob("*.toml")):
        fields = tomllib.loads(file.read_text())
        assert fields.get("inherit", []) == sorted(set(fields.get("inherit", []))), file
        login = fields.get("login", {}).get("variables", [])
        assert login == sorted(set(login)), file
        assert not set(login) & set(fields.get("inherit", [])), file
