"""Write ``models/catalogue.json`` from ``models/catalogue.toml``, which people edit.

Run it after a change there: ``.venv/bin/python tools/generate_catalogue.py``. A test fails until
then. Reading the one costs 12 ms of every start, reading the other none.
"""

import tomllib
from pathlib import Path

import msgspec

from quarterdeck.models import catalogue

__all__ = ["PATH", "generate"]

PATH = Path(catalogue.__file__).with_name("catalogue.json")


def generate() -> bytes:
    """The file as it should be."""
    data = tomllib.loads(PATH.with_suffix(".toml").read_text("utf-8"))
    return msgspec.json.format(msgspec.json.encode(data)) + b"\n"


if __name__ == "__main__":
    PATH.write_bytes(generate())
