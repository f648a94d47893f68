"""Addresses of hosts: what is one, and that none of them becomes an option of ssh."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from quarterdeck.config.host_settings import RemoteHostSettings
from quarterdeck.fleet.errors import HostAddressError
from quarterdeck.fleet.remote.address import RemoteAddress, find_address, parse_address


@pytest.mark.parametrize(
    ("url", "destination", "port", "directory"),
    [
        ("ssh://box", "box", None, None),
        ("ssh://box/", "box", None, None),
        ("ssh://me@box.example.org:2222", "me@box.example.org", 2222, None),
        ("ssh://box/srv/Bücher mit Raum", "box", None, "/srv/Bücher mit Raum"),
        ("ssh://box/~/project", "box", None, "~/project"),
        ("ssh://[fe80::1%eth0]:22", "fe80::1%eth0", 22, None),
        ("ssh://me@[::1]", "me@::1", None, None),
        ("ssh://10.0.0.7", "10.0.0.7", None, None),
    ],
)
def test_a_url_is_read(url: str, destination: str, port: int | None, directory: str | None):
    found = parse_address(url)
    assert (found.destination, found.port, found.directory) == (destination, port, directory)
    assert found.name == url


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ssh://", "not a host name"),
        ("ssh://-oProxyCommand=touch%20x", "not a host name"),
        ("ssh://-l@box", "not a user name"),
        ("ssh://@box", "not a user name"),
        ("ssh://me@-box", "not a host name"),
        ("ssh://box;reboot", "not a host name"),
        ("ssh://box$(x)", "not a host name"),
        ("ssh://büro", "not a host name"),
        ("ssh://a b", "not a host name"),
        ("ssh://[::1", "not a host name"),
        ("ssh://[::1]x", "not a host name"),
        ("ssh://box:0", "not a port"),
        ("ssh://box:65536", "not a port"),
        ("ssh://box:", "not a port"),
        ("ssh://box:-1", "not a port"),
        ("ssh://box/a\x1b[2J", "cannot be printed"),
        ("http://box", "only SSH"),
        ("SSH://box", "only SSH"),
    ],
)
def test_what_is_no_address_is_refused(url: str, words: str):
    with pytest.raises(HostAddressError, match=re.escape(words)):
        parse_address(url)


def test_a_password_is_refused_and_not_repeated():
    with pytest.raises(HostAddressError, match="password cannot be part") as caught:
        parse_address("ssh://me:secret@box")
    assert "secret" not in str(caught.value)


@given(st.text(max_size=60))
@example("--\n")
@example("-box:1/x")
@settings(max_examples=150, deadline=None)
def test_no_text_becomes_an_option(text: str):
    try:
        found = parse_address("ssh://" + text)
    except HostAddressError:
        return
    assert not found.destination.startswith("-")
    assert re.fullmatch(r"[A-Za-z0-9_.+@:%-]+", found.destination)


def test_a_name_is_found_in_the_settings():
    hosts = {
        "box": RemoteHostSettings(url="ssh://me@box:22/srv", program="~/bin/quarterdeck"),
        "other": RemoteHostSettings(url="ssh://o/x", directory="/y"),
        "empty": RemoteHostSettings(),
        "odd": RemoteHostSettings(url="ssh://o", program="quarterdeck; reboot"),
    }
    assert find_address("box", hosts) == RemoteAddress(
        name="box", host="box", user="me", port=22, directory="/srv", program="~/bin/quarterdeck"
    )
    assert find_address("other", hosts).directory == "/y"
    assert find_address("ssh://box", hosts).name == "ssh://box"
    for name, words in (
        ("boxx", "did you mean 'box'"),
        ("laptop9", "write ssh://laptop9"),
        ("-oProxyCommand=x", r"write ssh://\[USER@\]HOST"),
        ("empty", "hosts.empty.url is missing"),
        ("odd", "not a program's name"),
    ):
        with pytest.raises(HostAddressError, match=words):
            find_address(name, hosts)
