"""Secrets of many vendors and forms, what is none of them, and hostile texts."""

import time

import pytest

from quarterdeck.wire.redaction import mask_pieces, mask_secrets, mask_values

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJ0123456789"
VENDORS = [
    f"npm_{LETTERS[:36]}",
    f"hf_{LETTERS[:34]}",
    f"sk-proj-{LETTERS[:40]}",
    f"sk-ant-api03-{LETTERS}-AA",
    f"sk_live_{LETTERS[:24]}",
    f"rk_test_{LETTERS[:24]}",
    f"whsec_{LETTERS[:32]}",
    f"gsk_{LETTERS}",
    f"xai-{LETTERS}",
    *(f"gh{kind}_{LETTERS[:36]}" for kind in "posur"),
    f"github_pat_{LETTERS}",
    f"glpat-{LETTERS[:20]}",
    f"glrt-{LETTERS[:20]}",
    f"xoxb-1234567890-{LETTERS[:24]}",
    f"xapp-1-A111-222-{LETTERS[:40]}",
    f"AIza{LETTERS[:35]}",
    f"ya29.{LETTERS}",
    f"GOCSPX-{LETTERS[:28]}",
    "AKIAIOSFODNN7EXAMPLE",
    "ASIAIOSFODNN7EXAMPLE",
    f"pypi-AgEIcHlwaS5vcmc{LETTERS}",
    f"dckr_pat_{LETTERS[:27]}",
    f"hvs.{LETTERS}",
    "dop_v1_" + "0123456789abcdef" * 4,
    "shpat_" + "0123456789abcdef" * 2,
    f"SG.{LETTERS[:22]}.{LETTERS[:43]}",
    f"abc8Q~{LETTERS[:34]}",
    f"123456789:AA{LETTERS[:33]}",
    f"eyJhbGciOiJIUzI1NiJ9.eyJ{LETTERS}.{LETTERS}",
    f"tskey-auth-{LETTERS[:30]}",
]


@pytest.mark.parametrize("secret", VENDORS, ids=lambda one: one[:12])
def test_vendors_secrets_are_known_by_their_form(secret: str):
    assert mask_secrets(f"use {secret} for it") == "use … for it"
    assert mask_secrets(f'{{"x":"{secret}"}}') == '{"x":"…"}'
    assert mask_secrets(f"({secret})") == "(…)"
    assert mask_secrets(f"x{secret}"[1:] + "\n") == "…\n"


HIDDEN = "hunter2-x!9"


@pytest.mark.parametrize(
    "text",
    [
        "password=§",
        "PASSWORD=§",
        "Passwd=§ and more",
        "pwd=§;Server=db",
        "secret=§",
        "client_secret=§",
        "token=§&page=2",
        "api_key=§",
        "api-key=§",
        "apikey=§",
        "AWS_SECRET_ACCESS_KEY=§",
        "aws_session_token=§",
        "AccountKey=§",
        "//registry.npmjs.org/:_authToken=§",
        "//registry.example.com/:_auth=§",
        "//registry.example.com/:_password=§",
        "https://host/path?access_token=§",
        "https://host/blob?se=1&sig=0123456789abcdef%2Bxyz",
        '"password": "§"',
        '"password":"§"',
        "'api_key': '§'",
        '\\"token\\": \\"§\\"',
        'password = "§"',
        "password => '§'",
        'Password="two words §"',
        "password: §",
        "  db_password: §   # the old one",
        "password: §\nuser: ada",
        "password = §",
        "smtp_passwd = § # mail",
        "--password § --user ada",
        "--password=§",
        "mytool --api-key §",
        "mytool --auth-token § run",
        "sshpass -p § ssh host",
        "sshpass -p'§' ssh host",
        "mysql -u root -p§ db",
        "mysqldump --single -h db -p§ x",
        "curl -sS -u ada:§ https://x",
        "curl --user 'ada:§' https://x",
        "postgres://ada:§@db/x",
        "redis://:§@cache:6379",
        "Authorization: Basic YWRhOmh1bnRlcjI=",
        "authorization: token 0123456789abcdef",
        "Authorization: 0123456789abcdef",
        "-H 'authorization: Bearer 0123456789abcdef'",
        "Cookie: session=§; theme=dark",
        "Set-Cookie: sid=§; HttpOnly",
        "X-Api-Key: §",
        "Private-Token: §",
        "https://hooks.slack.com/services/T0/B0/0123456789abcdef",
        "https://discord.com/api/webhooks/123456/0123456789abcdef",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaA==\n-----END OPENSSH PRIVATE KEY-----",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\nlQdGBF\n-----END PGP PRIVATE KEY BLOCK-----",
        '"private_key": "-----BEGIN PRIVATE KEY-----\\nMIIE\\n-----END PRIVATE KEY-----\\n"',
    ],
)
def test_secrets_are_known_by_what_stands_before_them(text: str):
    text = text.replace("§", HIDDEN)
    masked = mask_secrets(text)
    assert "…" in masked
    for part in (HIDDEN, "YWRhOmh1bnRlcjI", "0123456789abcdef", "b3Blb", "lQdGBF", "MIIE"):
        assert part not in masked


@pytest.mark.parametrize(
    "text",
    [
        'password=os.environ["DB_PASSWORD"]',
        "password=get_password(user)",
        "password=self.password",
        "connect(user=user, password=None)",
        "def login(user: str, password: str) -> Token:",
        "    password: string",
        "password: Optional[str] = None",
        "token = next_token",
        "token = tokens[0]",
        "password=$DB_PASSWORD",
        "password=${DB_PASSWORD}",
        "TOKEN=$(cat file)",
        "password=<your password>",
        "password={password}",
        "password=%s",
        "if password == other:",
        "The password must be long; a token is not a secret.",
        "max_tokens=4096 input_tokens: 12000",
        "tokenizer=fast",
        "see passwords.md and secrets/README",
        "https://host:8080/path@2",
        "git@github.com:owner/repo.git",
        "a sketch of the task-list for pkg-config",
        "Authorization is needed",
        "a cookie: sweet",
        "hf_transfer and npm_config_cache",
        "mysql -p",
    ],
)
def test_code_and_prose_stay_readable(text: str):
    assert mask_secrets(text) == text


def test_a_text_under_a_key_that_says_so_is_masked_whole():
    value = {
        "password": "two words",
        "db_password": "abcd",
        "apiKey": "abcd",
        "accessToken": "abcd",
        "env": {"OPENAI_API_KEY": "abcd"},
        "headers": {"Authorization": "abcd efgh", "Cookie": "a=b"},
        "token": 17,
        "max_tokens": "many",
        "tokens": "many",
        "key": "name",
        "secret": "$SECRET",
    }
    assert mask_values(value) == {
        "password": "…",
        "db_password": "…",
        "apiKey": "…",
        "accessToken": "…",
        "env": {"OPENAI_API_KEY": "…"},
        "headers": {"Authorization": "…", "Cookie": "a=b"},
        "token": 17,
        "max_tokens": "many",
        "tokens": "many",
        "key": "name",
        "secret": "$SECRET",
    }


def test_a_secret_that_comes_in_pieces_is_masked_in_all_of_them():
    pieces = ["the key is sk-an", "t-api03-abcdef", "ghijklmnop, keep", " it"]
    assert mask_pieces(pieces) == ["the key is …", "", ", keep", " it"]
    assert mask_pieces(["pass", "word=", "hun", "ter2"]) == ["pass", "word=", "…", ""]
    assert mask_pieces(["a", "", "b"]) == ["a", "", "b"]
    assert mask_pieces(["x tr0ub", "4dor y"], {"MY_TOKEN": "tr0ub4dor"}) == ["x …", " y"]
    assert mask_pieces([]) == []


HOSTILE = [
    "eyJ",
    "-eyJ",
    "eyJa.",
    "sk-",
    "sk-a ",
    "token=",
    "token=(",
    "token:",
    "token: ",
    "token: a",
    "password = ",
    "password='",
    '"password":"',
    "KEY='",
    "://",
    "://a",
    "://a:",
    ":",
    "a:b",
    "-----BEGIN",
    "-----BEGIN A",
    "-----BEGIN PRIVATE KEY-----",
    "Authorization: ",
    "Cookie: a",
    "cookie:a=",
    "mysql ",
    "mysql -u ",
    "curl ",
    "curl -u a",
    "sshpass -p ",
    "Bearer ",
    "--token ",
    "--a-token",
    "8Q~",
    "abc8Q~",
    "SG.",
    "1234567890:AA",
    "pass",
    " ",
    "\t",
    "\n",
    "\\",
    '\\"',
    "a",
    "A",
    "=",
]


@pytest.mark.parametrize("piece", HOSTILE)
@pytest.mark.parametrize("end", ["", "("])
def test_hostile_texts_take_time_in_proportion(piece: str, end: str):
    """A pattern that takes quadratic time would need minutes for so much."""
    began = time.process_time()
    mask_secrets(piece * (60_000 // len(piece)) + end)
    assert time.process_time() - began < 2
