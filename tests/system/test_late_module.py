"""Modules are loaded when they are used, and then work as if they had been there from the start."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

OPENSSL = shutil.which("openssl")


def run(program: str, *arguments: str) -> str:
    """What a program prints in which TLS is late."""
    first = "import sys\nfrom quarterdeck.system.late_module import delay_tls\ndelay_tls()\n"
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


def test_a_connection_that_is_not_encrypted_does_not_load_it():
    program = (
        "import asyncio, socket, ssl\n"
        "async def answer(reader, writer):\n"
        "    writer.write(b'hello')\n"
        "    writer.close()\n"
        "async def main():\n"
        "    async with await asyncio.start_server(answer, '127.0.0.1', 0) as server:\n"
        "        port = server.sockets[0].getsockname()[1]\n"
        "        reader, writer = await asyncio.open_connection('127.0.0.1', port)\n"
        "        print((await reader.read()).decode(), '_ssl' in sys.modules)\n"
        "        writer.close()\n"
        "asyncio.run(main())\n"
        "plain = socket.socket()\n"
        "print(isinstance(plain, ssl.SSLSocket), '_ssl' in sys.modules)\n"
        "context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)\n"
        "encrypted = context.wrap_socket(plain, server_hostname='example.com')\n"
        "print(isinstance(encrypted, ssl.SSLSocket), isinstance(socket.socket(), ssl.SSLSocket))\n"
        "encrypted.close()\n"
    )
    assert run(program).splitlines() == ["hello False", "False False", "True False"]


def test_what_is_loaded_already_stays():
    program = (
        "import ssl\nssl.SSLContext\nimport ssl as before\n"
        "delay_tls()\nimport ssl as after\nprint(before is after)\n"
    )
    assert run(program) == "True"


def test_a_function_that_was_imported_early_loads_its_module_when_it_is_called():
    program = (
        "from quarterdeck.system.late_module import delay_functions\n"
        "delay_functions('difflib', 'get_close_matches')\n"
        "from difflib import get_close_matches as early\n"
        "print('SequenceMatcher' in vars(sys.modules['difflib']))\n"
        "print(early('appel', ['ape', 'apple', 'peach'], n=1))\n"
        "from difflib import SequenceMatcher, get_close_matches\n"
        "print(get_close_matches is not early)\n"
    )
    assert run(program).splitlines() == ["False", "['apple']", "True"]


RARELY = (
    "from quarterdeck.system.late_module import LateModule, delay_rarely_used\n"
    "delay_rarely_used()\n"
    "import asyncio, logging, msgspec, pathlib, subprocess, typing\n"
)


def test_what_is_rarely_used_is_not_loaded_by_what_every_start_imports():
    late = "[name for name, one in sys.modules.items() if type(one) is LateModule]"
    names = run(f"{RARELY}print(*sorted({late}))\n").split()
    assert set(names) == {
        *("asyncio.sslproto", "base64", "binascii", "copy", "inspect", "ipaddress"),
        *("linecache", "locale"),
        *("msgspec.inspect", "msgspec.msgpack", "msgspec.toml", "msgspec.yaml", "platform"),
        *("ssl", "textwrap", "traceback", "typing_extensions"),
    }


def test_what_is_rarely_used_works_when_it_is_used():
    program = RARELY + (
        "import inspect, ipaddress, locale, platform, textwrap, traceback, uuid\n"
        "import base64, typing_extensions\n"
        "from copy import copy\n"
        "class One(msgspec.Struct):\n"
        "    'Some.'\n"
        "    a: 'int'\n"
        "    b: typing.Annotated[str, msgspec.Meta(min_length=1)] = 'x'\n"
        "class Two(typing.TypedDict):\n"
        "    a: int\n"
        "    b: typing.NotRequired[str]\n"
        "async def wait(): pass\n"
        "try: 1 / 0\n"
        "except ZeroDivisionError: text = traceback.format_exc()\n"
        "schema = msgspec.json.schema(One)['$defs']['One']\n"
        "print(\n"
        "    platform.system() == __import__('os').uname().sysname, bool(platform.machine()),\n"
        "    'ZeroDivisionError' in text, inspect.iscoroutinefunction(wait),\n"
        "    asyncio.iscoroutinefunction(wait), ipaddress.ip_address('::1').is_loopback,\n"
        "    textwrap.dedent(' a') == 'a', bool(locale.getpreferredencoding()),\n"
        "    msgspec.json.decode(b'{\"a\": 1}', type=One) == One(1),\n"
        "    msgspec.json.decode(b'{\"a\": 1}', type=Two) == {'a': 1},\n"
        "    schema['required'] == ['a'], schema['description'] == 'Some.',\n"
        "    typing_extensions.TypedDict is not None, uuid.UUID(int=1).int == 1,\n"
        "    msgspec.json.encode(uuid.UUID(int=1)).endswith(b'1\"'),\n"
        "    msgspec.msgpack.decode(msgspec.msgpack.encode([1])) == [1],\n"
        "    msgspec.toml.decode('a = 1') == {'a': 1},\n"
        "    type(msgspec.inspect.type_info(int)).__name__ == 'IntType',\n"
        "    base64.b64decode('YQ==') == b'a', copy([1]) == [1],\n"
        ")\n"
    )
    assert set(run(program).split()) == {"True"}


def test_an_uncaught_error_is_told_with_its_lines():
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            RARELY + "import asyncio\nasync def fail(): 1 / 0\nasyncio.run(fail())",
        ],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 1
    assert "Traceback" in done.stderr and "ZeroDivisionError" in done.stderr


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
