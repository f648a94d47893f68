"""Hosts: read in one form, matched exactly or broadly, classified without a lookup."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.policy import parse_pattern
from quarterdeck.policy.domains import UrlTarget, address_class, parse_host, parse_target
from quarterdeck.policy.rules import FetchPattern


def target(url: str) -> UrlTarget:
    found = parse_target(url)
    assert isinstance(found, UrlTarget), found
    return found


def pattern(text: str):
    found = parse_pattern(f"fetch({text})")
    assert isinstance(found, FetchPattern)
    assert found.host is not None
    return found.host


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://Docs.Python.ORG/3/", "docs.python.org"),
        ("https://docs.python.org./", "docs.python.org"),
        ("https://münchen.de/", "xn--mnchen-3ya.de"),
        ("https://example。com/", "example.com"),
        ("http://127.1/", "127.0.0.1"),
        ("http://2130706433/", "127.0.0.1"),
        ("http://0x7f.0.0.1/", "127.0.0.1"),
        ("http://0177.0.0.1/", "127.0.0.1"),
        ("http://[::1]:8000/", "::1"),
        ("http://[::ffff:169.254.169.254]/", "::ffff:a9fe:a9fe"),
    ],
)
def test_a_host_has_one_form(url: str, host: str):
    assert target(url).host == host


@pytest.mark.parametrize(
    "url",
    [
        *(
            "https://good.com@evil.com/",
            "https://good.com\\@evil.com/",
            "https://a b.com/",
            "ftp://a.com",
        ),
        *(
            "file:///etc/passwd",
            "javascript:1",
            "https://",
            "https://%65vil.com/",
            "https://a..b/",
            "x",
        ),
        *(
            "https://a.com:99999/",
            "https://1.2.3.4.5/",
            "https://256.1.1.1/",
            "https://a.com\n/",
            "//a.com",
        ),
        *(
            "https://-a.com/",
            "http://[::1%25eth0]/",
            "https://a_*.com/",
            "http://[:::]/",
            "http://[::1",
        ),
    ],
)
def test_an_address_that_can_be_misread_is_not_certain(url: str):
    assert isinstance(parse_target(url), str)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("example.com", "public"),
        ("8.8.8.8", "public"),
        ("localhost", "loopback"),
        ("api.localhost", "loopback"),
        ("127.0.0.1", "loopback"),
        ("0.0.0.0", "loopback"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("10.1.2.3", "private"),
        ("192.168.0.1", "private"),
        ("fd12::1", "private"),
        ("100.64.0.1", "private"),
        ("printer", "private"),
        ("nas.local", "private"),
        ("169.254.1.1", "link-local"),
        ("fe80::1", "link-local"),
        ("169.254.169.254", "metadata"),
        ("168.63.129.16", "metadata"),
        ("::ffff:169.254.169.254", "metadata"),
        ("64:ff9b::a9fe:a9fe", "metadata"),
        ("metadata.google.internal", "metadata"),
        ("224.0.0.1", "reserved"),
    ],
)
def test_an_address_is_classified_by_its_text(host: str, expected: str):
    assert address_class(host) == expected


@pytest.mark.parametrize(
    ("rule", "url", "allows", "denies"),
    [
        ("a.com", "https://a.com/x", True, True),
        ("a.com", "https://a.com:8443/", False, True),
        ("a.com", "https://b.a.com/", False, False),
        ("a.com", "https://a.com.evil.com/", False, False),
        ("*.a.com", "https://b.a.com/", True, True),
        ("*.a.com", "https://c.b.a.com/", True, True),
        ("*.a.com", "https://a.com/", False, True),
        ("*.a.com", "https://nota.com/", False, False),
        ("a.com:8443", "https://a.com:8443/", True, True),
        ("a.com:8443", "https://a.com/", False, True),
        ("localhost:*", "http://localhost:3000/", True, True),
        ("127.1", "http://127.0.0.1/", True, True),
        ("[::1]:80", "http://[::1]/", True, True),
        ("münchen.de", "https://xn--mnchen-3ya.de/", True, True),
    ],
)
def test_a_host_pattern_allows_exactly_and_denies_broadly(
    rule: str, url: str, allows: bool, denies: bool
):
    assert pattern(rule).matches(target(url)) is allows
    assert pattern(rule).matches_broadly(target(url)) is denies


@settings(deadline=None, max_examples=100)
@given(st.text(max_size=40))
def test_no_text_breaks_the_reading(text: str):
    parse_target(text)
    parse_target("https://" + text)
    host = parse_host(text)
    assert host is None or (parse_host(host) == host and address_class(host))
