"""TLS is loaded when it is used, and then works as if it had been there from the start."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

OPENSSL = shutil.which("openssl")


def run(program: str, *arguments: str) -> str:
    """What a program prints in which TLS is late."""
    first = (
        "import sys\nfrom quarterdeck.system.late_module import TLS, delay_modules\n"
        "delay_modules(*TLS)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", first + program, *arguments],
        capture_output=True,
        text=True,
        timeout=50,
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_an_event_loop_does_not_load_it():
    program = (
        "import asyncio, ssl\n"
        "async def wait(): await asyncio.sleep(0)\n"
        "asyncio.run(wait())\n"
        "print('_ssl' in sys.modules)\n"
    )
    assert run(program) == "False"


def test_what_was_imported_early_is_the_real_thing_later():
    program = (
        "import ssl as early, asyncio\n"
        "from asyncio import base_events, sslproto as early_protocol\n"
        "context = early.create_default_context()\n"
        "import ssl, importlib\n"
        "protocol = importlib.import_module('asyncio.sslproto')\n"
        "print(ssl is not early, isinstance(context, ssl.SSLContext),\n"
        "    base_events.ssl.SSLContext is ssl.SSLContext,\n"
        "    issubclass(early.SSLError, OSError), not hasattr(early, 'no_such_name'),\n"
        "    early_protocol.SSLProtocol is sys.modules['asyncio.sslproto'].SSLProtocol)\n"
    )
    assert set(run(program).split()) == {"True"}


def test_threads_that_ask_at_once_get_the_same():
    program = (
        "import ssl, threading\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "start = threading.Barrier(8)\n"
        "def ask(_):\n"
        "    start.wait()\n"
        "    return ssl.SSLContext, ssl.create_default_context\n"
        "with ThreadPoolExecutor(8) as pool: print(len(set(pool.map(ask, range(8)))))\n"
    )
    assert run(program) == "1"


def test_what_is_loaded_already_stays():
    program = (
        "import ssl\nssl.SSLContext\nimport ssl as before\n"
        "delay_modules(*TLS)\nimport ssl as after\nprint(before is after)\n"
    )
    assert run(program) == "True"


@pytest.mark.skipif(OPENSSL is None, reason="openssl is not installed")
def test_connections_are_encrypted(tmp_path: Path):
    certificate = [
        *(str(OPENSSL), "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"),
        *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
        *("-addext", "subjectAltName=IP:127.0.0.1"),
        *("-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")),
    ]
    subprocess.run(certificate, check=True, capture_output=True)
    program = (
        "import asyncio, ssl\n"
        "async def answer(reader, writer):\n"
        "    writer.write((await reader.readline()).upper())\n"
        "    writer.close()\n"
        "async def main():\n"
        "    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\n"
        "    theirs.load_cert_chain(sys.argv[1], sys.argv[2])\n"
        "    async with await asyncio.start_server(answer, '127.0.0.1', 0, ssl=theirs) as server:\n"
        "        port = server.sockets[0].getsockname()[1]\n"
        "        ours = ssl.create_default_context(cafile=sys.argv[1])\n"
        "        reader, writer = await asyncio.open_connection('127.0.0.1', port, ssl=ours)\n"
        "        writer.write(b'hello\\n')\n"
        "        print((await reader.read()).decode())\n"
        "        writer.close()\n"
        "        try: await asyncio.open_connection('127.0.0.1', port, ssl=True)\n"
        "        except ssl.SSLCertVerificationError: print('refused')\n"
        "asyncio.run(main())\n"
    )
    said = run(program, str(tmp_path / "cert.pem"), str(tmp_path / "key.pem"))
    assert said.split() == ["HELLO", "refused"]
