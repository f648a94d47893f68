"""Fetching: which addresses, which redirects, how much, in which words."""

import asyncio
import gzip
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.agent.tools.fetch import FetchTool
from quarterdeck.agent.tools.fetch.download import FetchedPage, decoded
from quarterdeck.agent.tools.fetch.markdown import to_markdown
from quarterdeck.agent.tools.tool import ToolError
from quarterdeck.agent.tools.workspace import ToolOptions, ToolWorkspace
from quarterdeck.system.local import LocalSystem
from tests.support.deadlines import SOON
from tests.support.tool_calls import prepared, run, told

Answer = Callable[[str], bytes]
FetchTool()  # its description is on disk, which the loop may not touch


def page(body: bytes, kind: str = "text/plain", *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    lines += [f"Content-Type: {kind}"] if kind else []
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def moved(to: str) -> bytes:
    return page(b"", "text/plain", f"Location: {to}", status="302 Found")


class Site:
    """A server on loopback that counts what it was asked."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[str] = []
        self.heads: list[str] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            self.asked.append(head.split()[1])
            writer.write(self.answer(self.asked[-1]))
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def site(answer: Answer) -> AsyncIterator[Site]:
    served = Site(answer)
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0)
    served.port = server.sockets[0].getsockname()[1]
    async with server:
        yield served


def resolver(*addresses: str) -> Callable[[str, int], Awaitable[Sequence[str]]]:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return addresses

    return resolve


@pytest.fixture
async def workspace(tmp_path: Path) -> AsyncIterator[ToolWorkspace]:
    async with LocalSystem([tmp_path]) as system:
        yield ToolWorkspace(system=system)


@pytest.fixture
def inner(workspace: ToolWorkspace) -> ToolWorkspace:
    """A workspace that may ask this machine."""
    workspace.options = ToolOptions(
        fetch_allow_private=True, fetch_timeout=5, fetch_bytes=100_000, output_bytes=30_000
    )
    return workspace


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost/",
        "http://127.0.0.1/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://0/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://metadata.google.internal/",
        "http://10.0.0.1/",
        "http://192.168.1.1/",
        "http://[fe80::1]/",
        "http://[fd00::1]/",
        "http://224.0.0.1/",
        "http://router.lan/",
        "http://intranet/",
        "http://１２７.０.０.１/",
        "http://good.example@127.0.0.1/",
        "http://user:pass@example.com/",
        "http://example.com\\@127.0.0.1/",
        "http://exa mple.com/",
        "file:///etc/passwd",
        "gopher://example.com/",
        "example.com",
        "http:///",
        "http://example.com:99999/",
    ],
)
async def test_addresses_that_are_refused_by_their_text(workspace: ToolWorkspace, url: str):
    with pytest.raises(ToolError):
        await prepared(FetchTool(), workspace, url=url)


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["::1"],
        ["::ffff:10.0.0.1"],
        ["169.254.169.254"],
        ["fe80::1%eth0"],
        ["0.0.0.0"],
        ["93.184.215.14", "10.0.0.1"],
        ["2002:7f00:1::"],
        ["100.64.0.1"],
    ],
)
async def test_a_name_that_leads_inside_is_refused_unasked(
    workspace: ToolWorkspace, addresses: list[str]
):
    async with site(lambda _: page(b"secret")) as served:
        tool = FetchTool(resolver(*addresses))
        with pytest.raises(ToolError, match="may not access"):
            await run(tool, workspace, url=f"http://rebind.example.com:{served.port}/")
        assert served.asked == []


async def test_the_connection_goes_to_the_address_that_was_checked(inner: ToolWorkspace):
    asked: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"]

    async with site(lambda _: page(b"here")) as served:
        url = f"http://no-such-name.example:{served.port}/a?b=ü#c"
        assert told(await run(FetchTool(resolve), inner, url=url)) == "here"
        assert served.asked == ["/a?b=%C3%BC"]
        assert f"Host: no-such-name.example:{served.port}\r\n" in served.heads[0]
    assert asked == ["no-such-name.example"], "looked up once"


async def test_an_address_that_is_down_is_followed_by_the_next(inner: ToolWorkspace):
    async with site(lambda _: page(b"here")) as served:
        tool = FetchTool(resolver("127.0.0.2", "127.0.0.1"))
        assert told(await run(tool, inner, url=f"http://two.example:{served.port}/")) == "here"


async def test_redirects_on_the_host_are_followed_and_said(inner: ToolWorkspace):
    answers = {"/a": moved("/b"), "/b": moved("c#frag"), "/c": page(b"end")}
    async with site(answers.__getitem__) as served:
        text = told(await run(FetchTool(), inner, url=f"{served.url}/a"))
        assert served.asked == ["/a", "/b", "/c"]
        assert text == f"end\n\n[redirected to {served.url}/c]"


@pytest.mark.parametrize("to", ["http://other.example/x", "https://127.0.0.1/", "//127.0.0.1:1/"])
async def test_a_redirect_to_another_host_or_port_is_reported_not_followed(
    inner: ToolWorkspace, to: str
):
    async with site(lambda _: moved(to)) as served:
        outcome = await run(FetchTool(), inner, url=f"{served.url}/")
        assert "redirects to another host: " in told(outcome)
        assert to.lstrip("/") in told(outcome)
        assert len(served.asked) == 1


@pytest.mark.parametrize(
    "to", ["file:///etc/passwd", "http://a@b/", "http://[bad/", "javascript:1"]
)
async def test_a_redirect_to_no_page_is_refused(inner: ToolWorkspace, to: str):
    async with site(lambda _: moved(to)) as served:
        with pytest.raises(ToolError, match="redirects to"):
            await run(FetchTool(), inner, url=f"{served.url}/")


async def test_redirects_end(inner: ToolWorkspace):
    async with site(lambda path: moved(path + "x")) as served:
        with pytest.raises(ToolError, match="More than 10 redirects"):
            await run(FetchTool(), inner, url=f"{served.url}/")
        assert len(served.asked) == 11


async def test_a_large_page_is_read_to_the_cap_and_told_in_parts(inner: ToolWorkspace):
    body = "é" * 100_000
    async with site(lambda _: page(body.encode(), "text/plain; charset=utf-8")) as served:
        first = told(await run(FetchTool(), inner, url=served.url))
        assert first.startswith("é" * 30_000 + "\n\n[only the first 100000 of 200000 bytes")
        assert "characters 0 to 30000 of 50000; continue with offset=30000]" in first
        rest = told(await run(FetchTool(), inner, url=served.url, offset=49_999, limit=10))
        assert rest.startswith("é\n\n[")
        assert rest.endswith("characters 49999 to 50000 of 50000]")
        with pytest.raises(ToolError, match="beyond its end"):
            await run(FetchTool(), inner, url=served.url, offset=50_000)


async def test_an_endless_page_ends_at_the_cap(inner: ToolWorkspace):
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"
    async with site(lambda _: head + b"x" * 3_000_000) as served:
        assert "first 100000 bytes were read" in told(await run(FetchTool(), inner, url=served.url))


async def test_a_packed_page_cannot_swell_beyond_the_cap(inner: ToolWorkspace):
    body = gzip.compress(b"x" * 50_000_000)
    async with site(lambda _: page(body, "text/plain", "Content-Encoding: gzip")) as served:
        text = told(await run(FetchTool(), inner, url=served.url))
        assert "of 100000; continue" in text
        assert "Accept-Encoding: identity" in served.heads[0]


async def test_what_is_not_text_is_refused_with_type_and_size(inner: ToolWorkspace):
    async with site(lambda _: page(b"\x89PNG" * 100, "image/png")) as served:
        with pytest.raises(ToolError, match="'image/png' of 400 bytes, not text"):
            await run(FetchTool(), inner, url=served.url)
    async with site(lambda _: page(b"ab\0cd", "")) as served:
        with pytest.raises(ToolError, match="not text"):
            await run(FetchTool(), inner, url=served.url)


async def test_an_error_page_is_an_error_with_its_text(inner: ToolWorkspace):
    answer = page(b"<h1>Gone</h1>", "text/html", status="404 Not Found")
    async with site(lambda _: answer) as served:
        outcome = await run(FetchTool(), inner, url=f"{served.url}/x")
        assert told(outcome) == f"{served.url}/x answered with status 404.\n\n# Gone"
        assert outcome.is_error


@pytest.mark.parametrize(
    "answer",
    [b"", b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabc",
     b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 100_000,
     b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort",
     b"HTTP/1.1 200 OK\r\nx: " + b"y" * 99_999],
)  # fmt: skip
async def test_a_broken_server_is_an_error_in_words(inner: ToolWorkspace, answer: bytes):
    async with site(lambda _: answer) as served:
        with pytest.raises(ToolError, match=r"127\.0\.0\.1"):
            await run(FetchTool(), inner, url=served.url)


async def test_a_silent_server_ends_in_time(inner: ToolWorkspace):
    inner.options = ToolOptions(fetch_allow_private=True, fetch_timeout=0.3)

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(wait, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        begun = time.monotonic()
        with pytest.raises(ToolError, match=r"within 0\.3 s|silent for 0\.3 s"):
            await run(FetchTool(), inner, url=f"http://127.0.0.1:{port}/")
        assert time.monotonic() - begun < SOON


async def test_policy_sees_the_address(workspace: ToolWorkspace):
    ready = await prepared(FetchTool(), workspace, url=" https://example.com/a ")
    assert (ready.call.kind, ready.call.urls) == ("fetch", ("https://example.com/a",))


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        ("é".encode("latin-1"), "text/plain; charset=ISO-8859-1", "é"),
        ("é".encode(), "text/plain", "é"),
        (b"\xff\xfea\0", "text/plain", "a"),
        (b"\xef\xbb\xbfa", "text/plain; charset=latin-1", "a"),
        ("<meta charset=windows-1251>Я".encode("cp1251"), "text/html", "Я"),
        (b"a\xffb", "text/plain", "a\ufffdb"),
        (b"abc", "text/plain; charset=no-such", "abc"),
        (b"abc", "text/plain; charset=hex", "abc"),
        (b"abc", "text/plain; charset=idna", "abc"),
    ],
)
def test_charsets(data: bytes, kind: str, text: str):
    assert decoded(FetchedPage(url="", status=200, type=kind, data=data)).endswith(text)


def test_a_cut_through_a_character_costs_only_that_character():
    data = "aé".encode()[:-1]
    assert decoded(FetchedPage(url="", status=200, type="", data=data, is_cut=True)) == "a"


SAMPLE = """<!doctype html><html><head><title>My page</title><style>p{}</style></head><body>
<!-- <p>hidden --><h1>Hello <a href="/x y">there</a></h1><p>One <b>bold </b>and <em>it</em>,
<code>a  b</code>.<p>Two &amp; three<br>line<ul><li>a<li>b <ul><li>c</ul><li>d</ul>
<ol start=3><li><p>x</p><p>y</p></li><li>z</ol><blockquote><p>q1</p><p>q2</p></blockquote>
<pre><code class="language-py">def f():
    return "```" &lt; 1
</code></pre><table><tr><th>A<th>B</tr><tr><td>1</td><td><p>2</p><p>3</p></td></tr></table>
<script>if (a<b) { alert("<p>") }</script><a href="javascript:x">js</a> <a href="#t">top</a>
<a href="u"></a><img alt="pic" src=p.png><svg><text>no</text></svg> end</body></html>"""


def test_markdown():
    assert to_markdown(SAMPLE, base="http://e.com/d/") == (
        "# My page\n\n# Hello [there](http://e.com/x%20y)\n\nOne **bold** and *it*, `a b`.\n\n"
        "Two & three\nline\n\n- a\n- b\n  - c\n- d\n\n3. x\n\n   y\n\n4. z\n\n> q1\n>\n> q2\n\n"
        '````py\ndef f():\n    return "```" < 1\n````\n\n'
        "| A | B |\n| --- | --- |\n| 1 | 2 3 |\n\n"
        "js top ![pic](http://e.com/d/p.png) end"
    )


def test_plain_text_has_no_marks():
    text = to_markdown(SAMPLE, base="http://e.com/d/", is_plain=True)
    assert "Hello there\n\nOne bold and it, a b." in text
    assert "**" not in text
    assert "](" not in text


PIECES = st.sampled_from(
    [*"<>/\"'=& -!\n", "<a href='", "<p>", "</p>", "<ul>", "<li>", "</ul>", "<ol start=9>", "<pre>",
     "</pre>", "<table>", "<tr>", "<td>", "</td>", "</tr>", "<!--", "-->", "<script>", "</script>",
     "<b>", "</b>", "<blockquote>", "</blockquote>", "<h2>", "</h2>", "<title>", "&#99;", "&#x;",
     "<svg>", "</svg>", "<br/>", "text", "é", "\0", "<img alt=x src=", "http://[", "<code>"]
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.text(), st.lists(PIECES, max_size=60).map("".join)), st.booleans())
def test_the_converter_never_raises(text: str, is_plain: bool):
    assert isinstance(to_markdown(text, base="http://e.com/", is_plain=is_plain), str)


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=200), st.text(max_size=30))
def test_decoding_never_raises(data: bytes, charset: str):
    kind = f"text/html; charset={charset}"
    assert isinstance(decoded(FetchedPage(url="", status=200, type=kind, data=data)), str)


@pytest.mark.parametrize(
    "piece", ['<a "', "<a '>", "<!--", "</a", '<a x="', "&#", "<ul><li>", "<blockquote>x", "<b>x"]
)
def test_hostile_pages_take_linear_time(piece: str):
    begun = time.process_time()
    to_markdown(piece * 10_000)
    assert time.process_time() - begun < 5, "the standard library's parser needs minutes"
