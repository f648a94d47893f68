"""Types are made ready by one thread at a time, and everything decodes through one module."""

import ast
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import quarterdeck
from quarterdeck.wire.decoders import convert, decode_json, decode_msgpack, json_decoder

SOURCE = Path(quarterdeck.__file__).parent
ALLOWED = SOURCE / "wire" / "decoders.py"

_RACE = """
import sys, threading, types
from quarterdeck.wire.decoders import convert

sys.setswitchinterval(1e-6)
FIELDS = "".join(f"    a{n}: 'int | str | None' = None\\n" for n in range(20))

def make(number):
    module = types.ModuleType(f"module_{number}")
    sys.modules[module.__name__] = module
    lines = ["import msgspec"]
    for n in range(20):
        inner = f"    z: 'S{max(0, n - 1)} | None' = None\\n"
        lines.append(f"class S{n}(msgspec.Struct):\\n{FIELDS}{inner}")
    module.__dict__["__name__"] = module.__name__
    exec("\\n".join(lines), module.__dict__)
    return module

for number in range(40):
    module, ready = make(number), threading.Barrier(4)
    def run():
        ready.wait()
        convert({"z": {"z": {"a1": 3}}}, module.S19)
    threads = [threading.Thread(target=run) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
print("whole")
"""


class Point(msgspec.Struct):
    x: int
    y: int = 0


def test_threads_that_decode_into_a_new_type_at_once_do_not_crash():
    done = subprocess.run([sys.executable, "-c", _RACE], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "whole\n"), done.stderr


def test_each_kind_decodes_as_msgspec_does():
    assert convert({"x": 1}, Point) == Point(1)
    assert convert({"x": "1"}, Point, strict=False) == Point(1)
    assert decode_json(b'{"x":2}', Point | None) == Point(2)
    assert decode_json('[{"x":2}]', list[Point]) == [Point(2)]
    assert decode_msgpack(msgspec.msgpack.encode(Point(3)), Point) == Point(3)
    assert json_decoder(Point).decode(b'{"x":4}') == Point(4)
    with pytest.raises(msgspec.ValidationError):
        convert({"x": "1"}, Point)


def typed_decodes(code: str) -> list[int]:
    """The lines that decode into a type with msgspec itself."""
    found: list[int] = []
    if "msgspec" not in code and "decode" not in code:
        return found
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("msgspec"):
            names = {alias.name for alias in node.names}
            found += [node.lineno] if names & {"convert", "decode"} else []
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        is_typed = len(node.args) > 1 or any(one.arg == "type" for one in node.keywords)
        is_decode = name.endswith(("json.decode", "msgpack.decode")) and is_typed
        is_decoder = name.startswith("msgspec.") and name.endswith(".Decoder") and bool(node.args)
        if is_decode or is_decoder or name == "msgspec.convert":
            found.append(node.lineno)
    return found


def test_nothing_decodes_into_a_type_past_this_module():
    found = {
        str(path.relative_to(SOURCE)): lines
        for path in SOURCE.rglob("*.py")
        if path != ALLOWED and (lines := typed_decodes(path.read_text()))
    }
    assert found == {}


@pytest.mark.parametrize(
    "code",
    [
        "msgspec.convert(a, B)",
        "msgspec.json.decode(a, type=B)",
        "msgspec.json.Decoder(B)",
        "from msgspec import convert",
    ],
)
def test_a_decode_past_it_is_found(code: str):
    assert typed_decodes(code) == [1]
