import tomllib

import pytest

from quarterdeck.config.validation import check_layer


def problems(text: str) -> list[str]:
    return [str(problem) for problem in check_layer(tomllib.loads(text), "f.toml")]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("modle = 'a/b'", "f.toml: modle: unknown key; did you mean 'mode' or 'model'?"),
        ("zzz = 1", "f.toml: zzz: unknown key"),
        ("[limits]\nsecond = 1", "f.toml: limits.second: unknown key; did you mean 'seconds'?"),
        (
            "[models.'a/b']\nwindw = 1",
            "f.toml: models.\"a/b\".windw: unknown key; did you mean 'window'?",
        ),
        (
            "[vendors.x]\napi_key = 'sk-secret'",
            "f.toml: vendors.x.api_key: unknown key; did you mean 'api_key_env'?",
        ),
        ("limits = 3", "f.toml: limits: expected a table, found the number 3"),
        ("vendors = ['x']", "f.toml: vendors: expected a table, found a list"),
        ("vendors.x = 'u'", "f.toml: vendors.x: expected a table, found a text"),
        (
            "models.gpt.window = 5",
            "f.toml: models.gpt: the name must be a model's name in the form vendor/id",
        ),
        (
            "effort = 'hihg'",
            'f.toml: effort: expected "off" or "low" or "medium" or "high", '
            "found 'hihg'; did you mean 'high'?",
        ),
        (
            "limits.seconds = 'long'",
            "f.toml: limits.seconds: expected a number of seconds above 0, found a text",
        ),
        (
            "limits.model_calls = 0",
            'f.toml: limits.model_calls: expected a whole number, at least 1, or "adaptive" or '
            '"unbounded", found the number 0',
        ),
        (
            "limits.cost = nan",
            "f.toml: limits.cost: expected a number of US dollars, found the number nan",
        ),
        (
            "permissions.deny = 'all'",
            "f.toml: permissions.deny: expected a list of texts, found a text",
        ),
        (
            "permissions.deny = ['a', 1]",
            "f.toml: permissions.deny: expected a list of texts, found a list",
        ),
        (
            "sandbox.network = 1",
            "f.toml: sandbox.network: expected true or false, found the number 1",
        ),
        (
            "vendors.x.base_url = 'ftp://h'",
            "f.toml: vendors.x.base_url: expected a URL with http:// or https://, found a text",
        ),
        (
            "limits.tokens = 2026-01-01",
            "f.toml: limits.tokens: expected a whole number, at least 1, found a date or time",
        ),
    ],
)
def test_what_is_wrong_is_told_with_file_and_key(text: str, told: str):
    assert problems(text) == [told]


def test_all_problems_are_told_at_once():
    assert len(problems("a = 1\nmode = 'no'\n[limits]\nb = 2\nretries = -1")) == 4


def test_a_secret_is_not_repeated():
    told = problems("[vendors.x]\napi_key = 'sk-secret'\nheaders = 'sk-secret'\n")
    assert len(told) == 2
    assert "sk-secret" not in "".join(told)


def test_a_full_file_is_accepted():
    text = """
    model = "anthropic/some-model"
    mode = "accept-edits"
    effort = "high"
    [models."local/small"]
    window = 32_000
    images = false
    [models."local/small".prices]
    input = 0
    [vendors.local]
    base_url = "http://127.0.0.1:8080/v1"
    wire = "openai-chat"
    headers = { X-Team = "deck" }
    [limits]
    model_calls = 40
    seconds = 600
    [permissions]
    allow = ["Read"]
    [sandbox]
    writable = ["~/.cache/pip"]
    [tools.bash]
    timeout = 30
    [instructions]
    files = ["docs/style.md"]
    """
    assert problems(text) == []
