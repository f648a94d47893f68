import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from quarterdeck.models.errors import VendorUnreachableError
from quarterdeck.models.http_client import HttpClient, HttpTimeouts, read_all, tls_context
from tests.support.http_server import Exchange, serving

openssl = shutil.which("openssl")
pytestmark = [
    pytest.mark.skipif(openssl is None, reason="openssl is not installed"),
    pytest.mark.skipif(sys.platform == "darwin", reason="the keychain decides on macOS"),
]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificate and key for 127.0.0.1, signed by itself, in one file."""
    folder = tmp_path_factory.mktemp("tls")
    made = folder / "both.pem"
    command = [
        *(str(openssl), "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"),
        *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
        *("-addext", "subjectAltName=IP:127.0.0.1"),
        *("-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")),
    ]
    subprocess.run(command, check=True, capture_output=True)
    made.write_bytes((folder / "cert.pem").read_bytes() + (folder / "key.pem").read_bytes())
    return made


@pytest.fixture
def serverside(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@pytest.fixture(autouse=True)
def fresh_context() -> Iterator[None]:
    tls_context.cache_clear()
    yield
    tls_context.cache_clear()


async def hello(exchange: Exchange) -> None:
    await exchange.stream(b"data: hello\n\n")


async def test_a_trusted_certificate_is_served(
    certificate: Path, serverside: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with serving(hello, tls=serverside) as server:
        client = HttpClient(HttpTimeouts(), {})
        for _ in range(2):
            async with client.send("POST", server.url, {}, b"{}") as answer:
                assert await read_all(answer) == b"data: hello\n\n"
        await client.close()
    assert [request.connection for request in server.requests] == [1, 1]


async def test_an_untrusted_certificate_is_refused_before_anything_is_sent(
    serverside: ssl.SSLContext,
):
    async with serving(hello, tls=serverside) as server:
        client = HttpClient(HttpTimeouts(), {})
        with pytest.raises(VendorUnreachableError, match="not trusted"):
            async with client.send("POST", server.url, {"x-api-key": "k"}, b"{}"):
                pass
    assert server.requests == []


async def test_a_server_without_tls_is_unreachable_over_https():
    async with serving(hello) as server:
        client = HttpClient(HttpTimeouts(connect=0.3), {})
        with pytest.raises(VendorUnreachableError):
            async with client.send("POST", server.url.replace("http:", "https:"), {}, b"{}"):
                pass
