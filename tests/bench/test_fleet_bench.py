"""The benchmark for agents and clients: what it counts, and that it measures a whole subject."""

import json
import sys
from pathlib import Path

import pytest

from bench.fleet_bench.__main__ import main
from bench.fleet_bench.figures import Figure, Results, SubjectResults, summarize
from bench.fleet_bench.numbers import count_numbers, write_numbers
from bench.fleet_bench.subject import InvalidSubjectError, Subject, parse_subject, split_command

STAND_IN = Path(__file__).parents[2] / "bench" / "fleet_bench" / "stand_in.py"
SMALL = ("--rounds", "1", "--words", "40", "--settle", "0.01")
NOBODY = "http://127.0.0.1:9"


def agent(*words: str) -> str:
    return " ".join([sys.executable, "-S", str(STAND_IN), *words])


def test_lost_doubled_and_swapped_words_are_counted():
    assert write_numbers(3) == "no1 no2 no3 "
    whole = count_numbers(write_numbers(12), 12)
    assert (whole.lost, whole.doubled, whole.out_of_order) == (0, 0, 0)
    broken = count_numbers("no1 no2 no2 no5 no4 no12345", 6)
    assert (broken.lost, broken.doubled, broken.out_of_order) == (2, 1, 1)
    assert count_numbers('{"text":"chunk 0\\n"}{"text":"chunk 1\\n"}', 2).lost == 0
    assert count_numbers("", 5).lost == 5


def test_every_figure_of_an_agent_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "out.json"
    words = ("--agent", f"least={agent('-', '40')}", "--model-url", NOBODY, "--json", str(out))
    assert main([*words, *SMALL]) == 0
    results = json.loads(out.read_text())
    (subject,) = results["subjects"]
    figures = {one["what"]: one["value"] for one in subject["figures"]}
    assert results["format"] == 1 and subject["name"] == "least"
    assert 0 < figures["spawn → session/new"] <= figures["spawn → first token"]
    assert figures["memory of an idle agent (PSS)"] > 0
    assert figures["updates a second over ACP"] > 0
    assert figures["prompt → permission request"] > 0
    assert figures["lost in a stream"] == figures["lost after noise and a pause"] == 0
    assert "session/load" in subject["missing"]["recovery"]
    assert "| spawn → session/new, ms |" in capsys.readouterr().out


def test_an_agent_that_loses_words_is_seen(capsys: pytest.CaptureFixture[str]):
    assert main(["--agent", agent("-", "30"), "--model-url", NOBODY, *SMALL]) == 0
    assert "| lost in a stream, words | 10 (of 40) |" in capsys.readouterr().out


def test_an_agent_that_does_not_speak_acp_fails_by_name(capsys: pytest.CaptureFixture[str]):
    status = main(["--agent", "mute=false", "--model-url", NOBODY, *SMALL])
    shown = capsys.readouterr().out
    assert status == 1
    assert "mute: no figure for spawn:" in shown


def test_a_path_is_measured_with_the_stand_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    program = tmp_path / "client.py"
    program.write_text(CLIENT)
    command = f"bare={sys.executable} {program} {{prompt}} {{agent}}"
    assert main(["--path", command, *SMALL]) == 0
    shown = capsys.readouterr().out
    assert "| lost, words | 0 (of 40) |" in shown
    assert "| doubled or out of order, words | 0 |" in shown


CLIENT = """
import json, shlex, subprocess, sys
agent = subprocess.Popen(
    shlex.split(sys.argv[2]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
)
content = [{"type": "text", "text": sys.argv[1]}]
calls = (("initialize", {}), ("session/new", {}), ("session/prompt", {"prompt": content}))
for number, (method, params) in enumerate(calls):
    agent.stdin.write(json.dumps({"id": number, "method": method, "params": params}) + "\\n")
    agent.stdin.flush()
    while "id" not in (answer := json.loads(agent.stdout.readline())):
        print(answer["params"]["update"]["content"]["text"], flush=True)
agent.stdin.close()
agent.wait()
"""


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([], "name something to measure"),
        (["--agent", "no-such-program-anywhere"], "is not on the PATH"),
        (["--agent", "'unclosed"], "cannot be split"),
        (["--agent", ""], "a command is empty"),
        (["--client", "true"], "needs --spawn and --ready"),
        (["--agent", "true", "--env", "NAME"], "write NAME=VALUE"),
        (["--agent", "true", "--home", "/no/such/place"], "is not a directory"),
        (["--agent", "true", "--rounds", "0"], "not a number from 1 on"),
    ],
)
def test_bad_input_is_named(words: list[str], error: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert error in capsys.readouterr().err


def test_a_subject_gets_a_clean_home_and_no_variable_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SECRET_KEY", "hidden")
    files = {".config/ä.toml": 'url = "{url}"\nother = {{}}\n'}
    subject = Subject("it", ("prog", "{home}/x"), {"MODEL": "{url}/v1"}, files)
    command, environment = subject.prepare(tmp_path / "it", "http://127.0.0.1:1")
    home = Path(environment["HOME"])
    assert command == ["prog", f"{home}/x"]
    assert environment["MODEL"] == "http://127.0.0.1:1/v1"
    assert "SECRET_KEY" not in environment
    assert home.is_relative_to(tmp_path)
    written = (home / ".config" / "ä.toml").read_text()
    assert written == 'url = "http://127.0.0.1:1"\nother = {{}}\n'


def test_a_subject_is_named_after_its_program_or_as_asked():
    assert parse_subject("true --x=1", {}).name == "true"
    assert parse_subject("mine=true --x=1", {}).name == "mine"
    assert parse_subject("mine=true --x=1", {}).command[1:] == ("--x=1",)
    with pytest.raises(InvalidSubjectError, match="not on the PATH"):
        split_command("not-there-at-all")


def test_results_of_several_subjects_stand_side_by_side():
    one = SubjectResults("a|b", "agent", "x", [summarize("memory", "MB", [3, 1, 2], "idle")])
    other = SubjectResults("c", "agent", "y", [Figure("lost", "", 0)], {"memory": "it died"})
    text = Results([one, other]).to_markdown()
    assert "|  | a\\|b | c |" in text
    assert "| memory, MB | 2 (idle) | – |" in text
    assert "| lost | – | 0 |" in text
    assert "c: no figure for memory: it died" in text
    with pytest.raises(ValueError, match="'memory' was not measured"):
        summarize("memory", "MB", [])
