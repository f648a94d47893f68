"""Secrets out of what is shown, logged, kept or handed on.

A secret is known by its own form (a vendor's prefix), by what stands before it (``password=``, a
header, a URL), or because a variable of the environment holds it. Every pattern takes time in
proportion to the text: none begins with a repetition, and each is tried only where one of its
needles occurs.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, cast

__all__ = ["find_secret_variables", "mask_pieces", "mask_secrets", "mask_values"]

_SHORTEST = 6
_MASK = "…"
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH", re.IGNORECASE)

_PREFIXES = (
    # Prefix, characters, at least so many: OpenAI, Anthropic, Stripe, Groq, xAI, NVIDIA, …
    *((one, r"[A-Za-z0-9_-]", 10) for one in ("sk-", "sk_", "pk-", "pk_", "rk-", "rk_", "whsec_")),
    *((one, r"[A-Za-z0-9_-]", 20) for one in ("gsk_", "xai-", "nvapi-", "pplx-", "r8_", "fw_")),
    # GitHub, GitLab
    *((f"gh{one}{end}", r"[A-Za-z0-9_-]", 10) for one in "posur" for end in "-_"),
    ("github_pat_", r"[A-Za-z0-9_]", 20),
    *((one, r"[A-Za-z0-9_.-]", 10) for one in ("glpat-", "gldt-", "glrt-", "glcbt-", "glptt-")),
    *((one, r"[A-Za-z0-9_-]", 10) for one in ("glft-", "glsoat-", "glagent-", "gloas-")),
    # Slack
    *((f"xox{one}-", r"[A-Za-z0-9_-]", 10) for one in "abeprs"),
    ("xapp-", r"[A-Za-z0-9_-]", 10),
    # npm, PyPI, RubyGems, Docker, Hugging Face
    *((one, r"[A-Za-z0-9]", 20) for one in ("npm_", "hf_", "api_org_", "rubygems_")),
    *((one, r"[A-Za-z0-9_-]", 20) for one in ("pypi-", "dckr_pat_", "dckr_oat_")),
    # Google, Amazon, DigitalOcean, HashiCorp, and others
    ("AIza", r"[A-Za-z0-9_-]", 20),
    ("ya29.", r"[A-Za-z0-9_.-]", 20),
    ("GOCSPX-", r"[A-Za-z0-9_-]", 20),
    *((one, r"[A-Z0-9]", 16) for one in ("AKIA", "ASIA", "ABIA", "ACCA")),
    *((one, r"[a-f0-9]", 32) for one in ("dop_v1_", "doo_v1_", "dor_v1_", "shpat_", "shpss_")),
    *((one, r"[A-Za-z0-9_-]", 20) for one in ("hvs.", "hvb.", "hvr.", "tskey-", "lin_api_")),
    *((one, r"[A-Za-z0-9_-]", 20) for one in ("sq0atp-", "sq0csp-", "EAAA", "figd_", "ntn_")),
    ("AGE-SECRET-KEY-1", r"[A-Z0-9]", 20),
)
# What may stand before a secret; a keyword alone, so that no repetition comes before it.
_WORDS = (
    r"pass(?:word|wd|phrase)|pwd|secret|token|api[_-]?key|apikey|access[_-]?key(?:[_-]?id)?|"
    r"secret[_-]?key|private[_-]?key|account[_-]?key|signing[_-]?key|encryption[_-]?key|"
    r"client[_-]?secret|auth[_-]?token|_auth|credentials?"
)
_NEEDLES = ("pass", "pwd", "secret", "token", "key", "_auth", "credential")
# What is a type, a default, a name for something, or code that fetches it.
_NONE = (
    r"(?!(?:str|string|int|bool|bytes|number|any|object|optional|required|none|null|nil|true|false|"
    r"undefined|type|field|redacted|hidden|self|this|os|env|process|args|config|settings|request|"
    r"options|secrets|getpass|input|await|new|not|is|the|a|an|secretstr|token|password|list|dict)\b"
    r"|[<%{(\[$*…=])"
)
_LETTER = r"""[^\s"'`$;,&|<>(){}\[\]\\]"""
_VALUE = rf"{_LETTER}{{4,}}+"
_RULES: tuple[tuple[tuple[str, ...], str], ...] = (
    # eyJ….….…: only at the beginning of a run, else each of many would be tried to its end.
    (
        ("eyj",),
        r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]*",
    ),
    (("sg.",), (r"\bSG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}")),
    (("8q~",), (r"(?<![A-Za-z0-9_~.-])[A-Za-z0-9_~.-]{3}8Q~[A-Za-z0-9_~.-]{31,34}")),
    ((":aa",), (r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}")),
    (
        ("private key",),
        (r"(?s)(?<=-----BEGIN)[A-Z0-9 ]{0,40}\ ?PRIVATE KEY(?: BLOCK)?-----.*?(?=-----END|\Z)"),
    ),
    (("private-lines",), (r"(?<=Private-Lines: )[0-9]+\s[A-Za-z0-9+/=\s]+")),
    # user:password in a URL; a token alone, too
    (("://",), (r"(?<=://)[^/\s:@\"'`]*:[^/\s@\"'`]+(?=@)")),
    (
        ("hooks.slack.com", "/api/webhooks/"),
        (r"(?:hooks\.slack\.com/services|/api/webhooks)/(?P<secret>[A-Za-z0-9_/-]{10,})"),
    ),
    # headers
    (("bearer",), (r"(?i:bearer)\s{1,3}(?P<secret>[A-Za-z0-9._~+/=-]{8,})")),
    (
        ("authorization",),
        (
            r"""(?ix)authorization["']?\s{0,3}[:=]\s{0,3}["']?
            (?:(?:basic|token|digest|apikey|negotiate|bot|aws4-hmac-sha256)\s{1,3})?
            (?P<secret>[A-Za-z0-9._~+/=-]{8,})"""
        ),
    ),
    (
        ("cookie",),
        (r"""(?i)\bcookie["']?\s{0,3}:\s{0,3}["']?(?P<secret>[\w.-]{1,80}=[^\n"']{4,})"""),
    ),
    (("sig=",), (r"[?&;]sig=(?P<secret>[A-Za-z0-9%+/=_-]{16,})")),
    # NAME_KEY=value, as in the environment
    (
        ("key=", "token=", "secret=", "password=", "passwd=", "credential="),
        (
            r"""(?x)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)=
            (?:(?P<q>["'])(?P<quoted>[^"'$\n]{4,}?)(?P=q)|(?P<secret>[^\s"'$;,&|]{6,}))"""
        ),
    ),
    # password=value: nothing around the sign; a call or an item of something is code
    (
        _NEEDLES,
        (
            rf"(?i:{_WORDS})=(?P<secret>(?i:{_NONE})"
            rf"(?:{_LETTER}{{4,200}}+(?!{_LETTER}|[(\[])|{_LETTER}{{201,}}+))"
        ),
    ),
    # "password": "value", password = 'value', 'password' => "value"
    (
        _NEEDLES,
        (
            rf"""(?i:{_WORDS})\\?["']?\s{{0,3}}(?:=>|[:=])\s{{0,3}}"""
            r"""(?P<open>\\?["'])(?P<secret>[^"'\n$\\]{3,})(?P=open)"""
        ),
    ),
    # password: value at the end of a line, as in YAML and headers
    (
        _NEEDLES,
        (
            rf"(?m)(?i:{_WORDS}):[ \t]{{1,3}}(?P<secret>(?i:{_NONE}){_VALUE})"
            r"(?=[ \t]{0,3}(?:#|$))"
        ),
    ),
    # password = value at the end of a line, as in INI files; a name without digits is code
    (
        _NEEDLES,
        (
            rf"(?m)(?i:{_WORDS})[ \t]{{1,3}}=[ \t]{{1,3}}(?P<secret>(?i:{_NONE})"
            rf"(?=[^\s]{{0,60}}[0-9!@#%^+/~-]){_VALUE})(?=[ \t]{{0,3}}(?:#|$))"
        ),
    ),
    # --password value, sshpass -p value, mysql -pvalue, curl -u user:value
    (
        _NEEDLES,
        (rf"(?<![\w])--?(?:[a-z]{{1,20}}-)?(?i:{_WORDS})[ \t]{{1,3}}(?P<secret>{_VALUE})"),
    ),
    (("sshpass",), (r"\bsshpass\s{1,3}-p\s{0,3}[\"']?(?P<secret>[^\s\"'$]{3,})")),
    (
        ("mysql", "mariadb"),
        (r"\b(?:mysql|mariadb)[a-z-]{0,12}\b[^\n|;]{0,120}?\s-p(?P<secret>[^\s\"'$]{3,})"),
    ),
    (
        ("curl", "wget"),
        (
            r"\bcurl\b[^\n|;]{0,120}?\s(?:-u|--user)[ =]{1,3}[\"']?[^\s:\"'$]{1,80}:"
            r"(?P<secret>[^\s\"'$]{3,})"
        ),
    ),
)


def mask_secrets(text: str, environment: Mapping[str, str] | None = None) -> str:
    """Replace what looks like a secret, and the values of variables whose names say so."""
    spans = _spans(text, environment or {})
    if not spans:
        return text
    parts: list[str] = []
    last = 0
    for begin, end in spans:
        parts += (text[last:begin], _MASK)
        last = end
    return "".join((*parts, text[last:]))


def mask_pieces(pieces: Sequence[str], environment: Mapping[str, str] | None = None) -> list[str]:
    """Mask texts that follow one another: a secret may begin in one and end in another.

    There are as many as before; the mask stands where the secret begins.
    """
    whole = "".join(pieces)
    spans = _spans(whole, environment or {})
    if not spans:
        return list(pieces)
    masked: list[str] = []
    start = 0
    for piece in pieces:
        masked.append(_mask_part(whole, start, start + len(piece), spans))
        start += len(piece)
    return masked


def find_secret_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables whose values ``mask_secrets`` would replace."""
    return {
        name: value
        for name, value in environment.items()
        if len(value) >= _SHORTEST and _SECRET_NAME.search(name)
    }


def mask_values(value: Any, environment: Mapping[str, str] | None = None) -> Any:
    """Mask every text inside a JSON value; its keys and its form stay.

    A text under a key such as ``password`` is masked whole.
    """
    if isinstance(value, str):
        return mask_secrets(value, environment)
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {name: _mask_field(name, inner, environment) for name, inner in items}
    if isinstance(value, list):
        return [mask_values(inner, environment) for inner in cast("list[Any]", value)]
    return value


_KEY = (
    rf"(?i)(?:.{{0,80}}[_.-])?(?:{_WORDS})|authorization|(?:set-)?cookie"
    r"|.{0,80}(?-i:Password|Secret|Token|ApiKey)"
)


def _mask_field(name: str, value: Any, environment: Mapping[str, str] | None) -> Any:
    is_secret = isinstance(value, str) and len(value) > 3 and _compiled(_KEY).fullmatch(name)
    if is_secret and not value.startswith(("$", "{", "<")):
        return _MASK
    return mask_values(value, environment)


def _mask_part(whole: str, start: int, end: int, spans: Sequence[tuple[int, int]]) -> str:
    parts: list[str] = []
    last = start
    for begin, stop in spans:
        if stop <= start or begin >= end:
            continue
        parts.append(whole[last : max(begin, last)])
        if begin >= start:
            parts.append(_MASK)
        last = min(stop, end)
    return "".join((*parts, whole[last:end]))


def _spans(text: str, environment: Mapping[str, str]) -> list[tuple[int, int]]:
    """Where the secrets are: in order, none within another."""
    found = sorted(_every_span(text, environment))
    spans: list[tuple[int, int]] = []
    for begin, end in found:
        if spans and begin < spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((begin, end))
    return spans


def _every_span(text: str, environment: Mapping[str, str]) -> Iterator[tuple[int, int]]:
    for value in find_secret_variables(environment).values():
        place = text.find(value)
        while place >= 0:
            yield place, place + len(value)
            place = text.find(value, place + len(value))
    for prefixes, pattern in _by_prefix():
        if any(prefix in text for prefix in prefixes):
            yield from (match.span() for match in _compiled(pattern).finditer(text))
    lower = text.lower()
    for needles, pattern in _RULES:
        if any(needle in lower for needle in needles):
            yield from _matches(_compiled(pattern), text)


def _matches(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    for match in pattern.finditer(text):
        names = match.groupdict()
        if names.get("quoted"):
            yield match.span("quoted")
        elif names.get("secret"):
            yield match.span("secret")
        elif "secret" not in names:
            yield match.span()


@cache
def _by_prefix() -> tuple[tuple[tuple[str, ...], str], ...]:
    """The prefixes, put together by what follows them."""
    groups: dict[tuple[str, int], list[str]] = {}
    for prefix, letters, least in _PREFIXES:
        groups.setdefault((letters, least), []).append(prefix)
    return tuple(
        (
            tuple(prefixes),
            rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, prefixes))}){letters}{{{least},}}+",
        )
        for (letters, least), prefixes in groups.items()
    )


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    # Where it is first needed: hardly any text has a needle of any of them.
    return re.compile(pattern)
