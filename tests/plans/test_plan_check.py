"""Everything that is wrong with a plan is found before anything runs, with its line."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.drivers.catalogue import load_catalogue
from quarterdeck.plans.errors import InvalidPlanError, PlanInputError, UnreadablePlanError
from quarterdeck.plans.graph import draw_graph
from quarterdeck.plans.key_lines import find_key_lines
from quarterdeck.plans.plan import CheckedPlan, expand_tasks, find_cycles, load_plan, sort_by_needs
from quarterdeck.plans.schema import make_plan_schema
from quarterdeck.plans.template import fill_template, list_names

ROOT = Path(__file__).parents[2]


def load(tmp_path: Path, text: str) -> CheckedPlan:
    path = tmp_path / "work.toml"
    path.write_text(text)
    return load_plan(path, load_catalogue().find)


def problems(tmp_path: Path, text: str) -> list[tuple[int, str, str]]:
    with pytest.raises(InvalidPlanError) as caught:
        load(tmp_path, text)
    return [(one.line, one.key, one.message) for one in caught.value.problems]


def test_all_problems_are_reported_at_once_with_their_lines(tmp_path: Path):
    text = '''agent = "codex"
[inputs.module]
[tasks.survey]
prompt = "Look at {{inputs.module}}"
[tasks.fix]
needs = ["survey", "surve"]
prompt = """
do {{ tasks.survey.output }}
and {{tasks.nope.output}} {{inputs.modul}} {{tasks.a.output}}
"""
bogus = 1
[[tasks.fix.checks]]
run = "true"
tmeout = 3
[[tasks.fix.checks]]
run = 4
[tasks.a]
needs = ["b"]
prompt = "x"
agent = "codx"
[tasks.b]
needs = [
  "a",
]
prompt_file = "missing.md"
'''
    found = problems(tmp_path, text)
    assert [(line, key) for line, key, _ in found] == [
        (6, "tasks.fix.needs.2"),
        (9, "tasks.fix.prompt"),
        (9, "tasks.fix.prompt"),
        (9, "tasks.fix.prompt"),
        (11, "tasks.fix.bogus"),
        (14, "tasks.fix.checks.1.tmeout"),
        (16, "tasks.fix.checks.2.run"),
        (18, "tasks.a.needs"),
        (20, "tasks.a.agent"),
        (25, "tasks.b.prompt_file"),
    ]
    words = "\n".join(message for *_, message in found)
    assert "did you mean 'survey'?" in words and "did you mean 'timeout'?" in words
    assert "add 'a' to needs" in words and "a → b → a" in words
    assert "did you mean 'inputs.module'?" in words and "Did you mean 'codex'?" in words


TASK = '[tasks.fix]\nagent = "codex"\nprompt = "x"\n'


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("agent = \n", 1, "not TOML"),
        ("version = 2\n" + TASK, 1, "newer"),
        ("version = 0\n" + TASK, 1, "does not exist"),
        ("", 1, "no tasks"),
        ("[tasks.fix]\nprompt = 'x'\n", 1, "no agent"),
        ("[tasks.fix]\nagent = 'codex'\n", 1, "no prompt"),
        ("[tasks.'Fix It']\nagent = 'codex'\nprompt = 'x'\n", 1, "cannot be a name"),
        ("name = 'Über'\n" + TASK, 1, "cannot be a name"),
        ("directory = 'nowhere'\n" + TASK, 1, "not a directory"),
        (TASK + 'prompt_file = "a.md"\n', 4, "one prompt"),
        (TASK + 'budget = ["many"]\n', 4, "5usd"),
        (TASK + 'budget = ["1.5agents"]\n', 4, "no part"),
        (TASK + "retries = 1\n", 4, "only count with checks"),
        (TASK + 'worktree = false\nend = "land"\n', 5, "worktree = true"),
        (TASK + 'worktree = false\nbase = "main"\n', 5, "worktree = true"),
        (TASK + 'into = "main"\n', 4, "only counts with"),
        (TASK + 'end = "push"\n', 4, "keep"),
        (TASK + 'checks = [{ name = "a" }]\n', 4, "no command"),
        (TASK + 'checks = [{ run = "a", timeout = 0 }]\n', 4, "seconds above 0"),
        (TASK + 'options = { mode = "yolo" }\n', 4, "full-auto"),
        (TASK + 'options = { resume = "x" }\n', 4, "unknown key"),
        (TASK + 'matrix = { os = ["a"] }\n', 4, "no input 'os'"),
        ("[inputs.os]\n" + TASK + "matrix = { os = [] }\n", 5, "at least one value"),
        ("[inputs.os]\n" + TASK + 'matrix = { os = ["a", "a"] }\n', 5, "twice"),
        (TASK + "[tasks.fix.race]\n", 2, "names its own agents"),
        (TASK + "[tasks.fix.race]\n", 4, "at least two"),
        (TASK.replace("codex", "nix"), 2, "no agent 'nix'"),
        (TASK + "[tasks.b]\nprompt = '''\n\n{{ open'''\nagent = 'codex'\n", 7, "not closed"),
        (TASK + 'needs = ["fix"]\n', 4, "fix → fix"),
        (TASK + 'checks = [{ run = "x {{tasks.fix.output}}" }]\n', 4, "not there yet"),
    ],
)
def test_a_problem_is_named_with_its_line(tmp_path: Path, text: str, line: int, words: str):
    found = problems(tmp_path, text)
    assert any(place == line and words in message for place, _, message in found), found


@pytest.mark.parametrize(
    ("race", "words"),
    [
        ('{ agents = ["codex", "nix"] }', "no agent 'nix'"),
        ('{ agents = ["codex", "pi"], pick = "judge" }', "add judge"),
        ('{ agents = ["codex", "pi"], judge = "pi" }', "only counts"),
        ('{ agents = ["codex", "pi"], pick = "judge", judge = "nix" }', "no agent 'nix'"),
        ('{ agents = ["codex", "pi"], rank = [] }', "at least one"),
        ('{ agents = ["codex", "pi"], pick = "worst" }', "best"),
    ],
)
def test_a_race_that_cannot_be_run_is_found(tmp_path: Path, race: str, words: str):
    text = f'[tasks.fix]\nprompt = "x"\nrace = {race}\n'
    assert any(words in message for *_, message in problems(tmp_path, text))


@pytest.mark.parametrize("how", ["absolute", "above", "link", "fifo", "large"])
def test_a_prompt_file_is_a_file_of_the_project(how: str, tmp_path: Path):
    secret = tmp_path / "secret"
    secret.write_text("a key\n")
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    named = {"absolute": str(secret), "above": "../secret"}.get(how, "fix.md")
    match how:
        case "link":
            (project / "fix.md").symlink_to(secret)
        case "fifo":
            os.mkfifo(project / "fix.md")
        case "large":
            (project / "fix.md").write_text("x" * 1_000_001)
        case _:
            pass
    path = project / "work.toml"
    path.write_text(f'[tasks.fix]\nagent = "codex"\nprompt_file = "{named}"\n')
    with pytest.raises(InvalidPlanError, match=r"work.toml:3: tasks.fix.prompt_file") as error:
        load_plan(path)
    assert "a key" not in str(error.value)


def test_a_prompt_file_has_lines_of_its_own(tmp_path: Path):
    (tmp_path / "fix.md").write_text("one\n{{inputs.x}}\n")
    path = tmp_path / "work.toml"
    path.write_text('[tasks.fix]\nagent = "codex"\nprompt_file = "fix.md"\n')
    with pytest.raises(InvalidPlanError) as caught:
        load_plan(path)
    assert str(caught.value).startswith(f"{tmp_path / 'fix.md'}:2: tasks.fix.prompt: ")


@pytest.mark.parametrize("kind", ["missing", "directory", "bytes", "large"])
def test_a_file_that_cannot_be_read_is_said(tmp_path: Path, kind: str):
    path = tmp_path / "work.toml"
    if kind == "directory":
        path.mkdir()
    elif kind == "bytes":
        path.write_bytes(b"a = '\xff'")
    elif kind == "large":
        path.write_bytes(b"#" * 1_100_000)
    with pytest.raises((UnreadablePlanError, InvalidPlanError), match=r"work\.toml"):
        load_plan(path)


def test_tasks_are_expanded_in_the_order_of_their_needs(tmp_path: Path):
    text = """agent = "codex"
[inputs.module]
[inputs.os]
default = "linux"
[tasks.report]
needs = ["fix"]
prompt = "{{tasks.fix.output}} {{inputs.os}}"
[tasks.fix]
prompt = "{{inputs.module}} on {{inputs.os}}"
matrix = { module = ["a b", "c"], os = ["linux", "mac"] }
checks = [{ run = "test {{inputs.module}}" }]
race = { agents = ["codex", "codex", "pi"] }
"""
    tasks = expand_tasks(load(tmp_path, text), {"os": "bsd"})
    assert list(tasks) == ["fix.1", "fix.2", "fix.3", "fix.4", "report"]
    assert tasks["report"].needs == ("fix.1", "fix.2", "fix.3", "fix.4")
    assert tasks["fix.2"].label == "module=a b, os=mac"
    assert tasks["fix.2"].fill(tasks["fix.2"].prompt) == "a b on mac"
    assert tasks["fix.2"].fill_command(tasks["fix.2"].fields.checks[0].run) == "test 'a b'"
    assert [one.name for one in tasks["fix.1"].contenders] == ["codex", "codex-2", "pi"]
    assert tasks["report"].inputs["os"] == "bsd"


def test_inputs_must_be_known_and_given(tmp_path: Path):
    plan = load(tmp_path, "[inputs.module]\n" + TASK.replace('"x"', '"{{inputs.module}}"'))
    with pytest.raises(PlanInputError, match="--input module=VALUE"):
        expand_tasks(plan, {})
    with pytest.raises(PlanInputError, match="did you mean 'module'"):
        expand_tasks(plan, {"modul": "a"})
    assert list(expand_tasks(plan, {"module": "a"})) == ["fix"]


def test_the_graph_is_drawn_with_lines_or_ascii(tmp_path: Path):
    text = """agent = "codex"
[tasks.a]
prompt = "x"
[tasks.b]
prompt = "x"
needs = ["a"]
gate = true
[tasks.c]
prompt = "x"
needs = ["a"]
race = { agents = ["codex", "pi"], pick = "judge", judge = "claude" }
end = "land"
[tasks.d]
prompt = "x"
needs = ["b", "c"]
checks = [{ run = "x" }]
retries = 2
"""
    plan = load(tmp_path, text)
    tasks = expand_tasks(plan, {})
    assert list(draw_graph(plan, tasks))[1:] == [
        "└─ a  codex",
        "   ├─ b  codex · gate",
        "   │  └─ d  codex · 1 check · 2 retries · needs also c",
        "   └─ c  race of codex, pi, pick judge claude · land",
    ]
    assert "".join(draw_graph(plan, tasks, ascii_only=True)).isascii()


def test_a_template_is_filled_once():
    assert fill_template(r"{{ a }} \{{b}} {{a}}", {"a": "{{b}}"}) == "{{b}} {{b}} {{b}}"
    assert list(list_names("x {{a.b}}\n{{ c }} \\{{d}} {{")) == [("a.b", 0), ("c", 1), ("{{", 1)]


def test_cycles_are_found_once_and_an_order_otherwise():
    needs = {"a": ["b"], "b": ["c"], "c": ["a", "d"], "d": [], "e": ["e"], "f": ["a"]}
    assert find_cycles(needs) == [("a", "b", "c"), ("e",)]
    assert sort_by_needs({"a": ["b"], "b": [], "c": ["a"]}) == ["b", "a", "c"]


_names = st.text("ab-1", min_size=1, max_size=3)
_values = st.recursive(
    st.integers() | st.booleans() | st.sampled_from(["x", 'q"\\"', "a # b", "two\nlines"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3),
    max_leaves=8,
)


def write_toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{k}" = {write_toml(v)}' for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[ # [\n" + "".join(f"{write_toml(v)},\n" for v in value) + "]"
    return json.dumps(value)


@settings(deadline=None, max_examples=40)
@given(st.dictionaries(_names, _values, max_size=5))
def test_every_key_of_a_text_has_a_line(values: dict[str, object]):
    lines = ["# a", ""]
    expected: dict[str, int] = {}
    for name, value in values.items():
        expected[name] = sum(line.count("\n") + 1 for line in lines) + 1
        lines.append(f"{name} = {write_toml(value)} # end")
    found = find_key_lines("\n".join(lines))
    assert {key[0]: line for key, line in found.items() if len(key) == 1} == expected


def test_the_published_schema_is_that_of_the_program_and_accepts_what_the_check_accepts():
    import jsonschema

    published = json.loads((ROOT / "docs/plan.schema.json").read_text())
    assert published == make_plan_schema(), "run: quarterdeck plan schema > docs/plan.schema.json"
    validator = jsonschema.Draft202012Validator(published)
    good = {"version": 1, "tasks": {"fix": {"prompt": "x", "checks": [{"run": "make"}]}}}
    assert not list(validator.iter_errors(good))
    assert list(validator.iter_errors({"tasks": {"fix": {"bogus": 1}}}))


def test_the_example_of_the_documentation_can_run_and_is_drawn_as_it_says(tmp_path: Path):
    page = (ROOT / "docs/plans.md").read_text()
    plan = load(tmp_path, page.partition("```toml\n")[2].partition("```")[0])
    drawn = list(draw_graph(plan, expand_tasks(plan, {})))
    assert "\n".join(drawn[1:]) in page
