"""Reading scripts: what is written is what is played, and mistakes are named."""

import contextlib
import json
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.models.script import (
    Script,
    ScriptError,
    ScriptFault,
    ScriptReply,
    ScriptScene,
    ScriptTextPart,
    load_script,
    parse_script,
    shipped_scripts,
)
from quarterdeck.wire.errors import NewerVersionError

WANTED = (
    "text think echo image slow flood empty write shell read twotools longcmd many mcp",
    "badtool badargs e400 e401 e429 e500 e500once e529 garbage badjson drop noend midfail stall",
)


def test_default_script_has_every_promised_scene() -> None:
    assert "default" in shipped_scripts()
    assert set(" ".join(WANTED).split()) <= load_script("default").scenes.keys()


def test_toml_and_json_say_the_same(tmp_path: Path) -> None:
    toml = tmp_path / "a.toml"
    toml.write_text(
        'default = "hi"\n[[scenes.hi.replies]]\nparts = ["a", {tool="shell", '
        'arguments={command="ls"}}]\nfault = {kind="drop", after=1}\n'
    )
    same = {
        "default": "hi",
        "scenes": {
            "hi": [
                {
                    "parts": ["a", {"tool": "shell", "arguments": {"command": "ls"}}],
                    "fault": {"kind": "drop", "after": 1},
                }
            ]
        },
    }
    (tmp_path / "a.json").write_text(json.dumps(same))
    assert load_script(toml) == load_script(tmp_path / "a.json")


def test_short_forms_are_texts() -> None:
    script = parse_script('[scenes]\nhi = ["Hello", {parts = ["a", "b"]}]')
    text = ScriptTextPart
    assert script.scenes["hi"].replies == (
        ScriptReply(parts=(text(text="Hello"),)),
        ScriptReply(parts=(text(text="a"), text(text="b"))),
    )


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("[scenes.hi]\nreplies = [{partz = []}]", ["'hi'", "partz"]),
        ('[scenes.hi]\nreplies = [{parts = [{text = "a", speed = 2}]}]', ["'hi'", "speed"]),
        ('[scenes.hi]\nreplies = [{parts = [{txt = "a"}]}]', ["'hi'", "reply 1, part 1", "txt"]),
        (
            '[scenes.hi]\nreplies = [{parts = [{text="a", sleep=1}]}]',
            ["'hi'", "part 1", "text, sleep"],
        ),
        ("[scenes.hi]\nreplies = []", ["'hi'", "replies"]),
        ("[scenes.hi]\nreplys = []", ["'hi'", "replys"]),
        ("[scenes]\nhi = 3", ["'hi'"]),
        ('[scenes.hi]\nreplies = [{fault = {kind = "explode"}}]', ["'hi'", "explode"]),
        ("[scenes.hi]\nreplies = [{error = {status = 200}}]", ["'hi'", "status"]),
        ("[scenes.hi]\nreplies = [{delay = -1}]", ["'hi'", "delay"]),
        ('[scenes.hi]\nreplies = [{parts = [{tool = "fly"}]}]', ["'hi'", "fly"]),
        ('[scenes.hi]\nreplies = ["{{promt}}"]', ["'hi'", "{{promt}}"]),
        ('[scenes.hi]\nreplies = ["a"]\nwhen = {matches = "("}', ["'hi'", "'('"]),
        ("speed = 3\n[scenes]", ["speed"]),
        ('default = "no"\n[scenes]', ["'no'"]),
        ("scenes = [", ["TOML"]),
        ("", ["scenes"]),
    ],
)
def test_mistake_is_named(text: str, names: list[str]) -> None:
    with pytest.raises(ScriptError) as caught:
        parse_script(text, name="mine.toml")
    assert "mine.toml" in str(caught.value)
    for name in names:
        assert name in str(caught.value)


def test_later_version_is_refused() -> None:
    with pytest.raises(NewerVersionError):
        parse_script("version = 2\n[scenes]")


def test_missing_scripts_say_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match="default"):
        load_script("no-such-script")
    with pytest.raises(ScriptError, match=r"no\.toml"):
        load_script(tmp_path / "no.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ScriptError, match=r"bytes\.toml"):
        load_script(tmp_path / "bytes.toml")


def test_double_braces_of_other_languages_stay() -> None:
    parse_script("[scenes]\nci = ['${{ matrix.python }} {{}} {{a b}}']")


replies = st.builds(
    ScriptReply,
    parts=st.lists(
        st.builds(
            ScriptTextPart, text=st.text().filter(lambda t: "{{" not in t), chunks=st.just(3)
        ),
        max_size=3,
    ).map(tuple),
    fault=st.none() | st.builds(ScriptFault, kind=st.sampled_from(["drop", "stall"])),
)


@settings(deadline=None, max_examples=50)
@given(st.dictionaries(st.text(max_size=5), st.lists(replies, min_size=1, max_size=3).map(tuple)))
def test_a_script_survives_its_own_json(scenes: dict[str, tuple[ScriptReply, ...]]) -> None:
    script = Script(scenes={name: ScriptScene(replies=r) for name, r in scenes.items()})
    text = msgspec.json.encode(script).decode()
    assert parse_script(text, form="json") == script


@settings(deadline=None, max_examples=100)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["scenes", "replies", "parts", "text", "tool", "when", "x"]),
                inner,
                max_size=3,
            )
        ),
        max_leaves=12,
    )
)
def test_any_json_is_a_script_or_a_script_error(value: object) -> None:
    with contextlib.suppress(ScriptError):
        parse_script(json.dumps(value), form="json")


def test_importing_the_format_is_cheap() -> None:
    code = (
        "import sys, quarterdeck.models.scripted_model as m; "
        "heavy = {'httpx2', 'anthropic', 'openai', 'click', 'textual'} & sys.modules.keys(); "
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_examples_of_the_documentation_are_scripts() -> None:
    page = Path(__file__).parents[2] / "docs" / "scripted-model.md"
    blocks = re.findall(r"```toml\n(.*?)```", page.read_text("utf-8"), re.S)
    examples = [block for block in blocks if "scenes" in block]
    assert len(examples) == 3
    for example in examples:
        parse_script(example)
