"""Secrets are taken out of texts, and nothing else is."""

import pytest

from quarterdeck.wire.redaction import mask_secrets, mask_values

KEYS = [
    "sk-ant-api03-abcdefghijklmnop",
    "ghp_abcdefghijklmnopqrstuvwxyz012345",
    "github_pat_11ABCDEFG0abcdefghijkl_mnop",
    "glpat-abcdefghijklmnop",
    "xoxb-1234567890-abcdef",
    "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "AKIAABCDEFGHIJKLMNOP",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-DEF_123",
]


@pytest.mark.parametrize("key", KEYS)
def test_keys_are_known_by_their_form(key: str):
    assert mask_secrets(f"the key is {key}, keep it") == "the key is …, keep it"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("curl -H 'Authorization: Bearer abcdefgh12'", "curl -H 'Authorization: Bearer …'"),
        ("postgres://ada:s3cret@db/x", "postgres://…@db/x"),
        ("MY_API_KEY=abcdefgh next", "MY_API_KEY=… next"),
        ('export DB_PASSWORD="two words"', 'export DB_PASSWORD="…"'),
        ("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA", "-----BEGIN…-----END RSA"),
        ("-----BEGIN PRIVATE KEY-----\ncut off", "-----BEGIN…"),
    ],
)
def test_secrets_are_known_by_what_is_before_them(text: str, left: str):
    assert mask_secrets(text) == left


@pytest.mark.parametrize(
    "text",
    [
        *(
            "max_tokens=100000",
            "TOKEN=$TOKEN_FILE",
            "a sketch of the task-list",
            "https://host/path",
        ),
        *("-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----", "KEY=", "PASSWORD="),
    ],
)
def test_what_is_none_stays(text: str):
    assert mask_secrets(text) == text


def test_values_of_variables_that_say_so_are_masked():
    environment = {"MY_TOKEN": "tr0ub4dor", "HOME": "/home/ada", "SHORT_KEY": "abc"}
    assert mask_secrets("tr0ub4dor in /home/ada abc", environment) == "… in /home/ada abc"


def test_texts_inside_a_json_value_are_masked_and_its_form_stays():
    value = {"a": [KEYS[0], 1, None], "sk-b": {"c": f"x {KEYS[1]}"}}
    assert mask_values(value) == {"a": ["…", 1, None], "sk-b": {"c": "x …"}}
