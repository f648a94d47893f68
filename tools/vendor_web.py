"""Copy the JavaScript that the browser interface uses from npm into the package.

    python -m tools.vendor_web          # fetch, verify and write
    python -m tools.vendor_web --check  # compare what is there with the recorded digests

Each package is pinned by its version and by npm's digest of it; ``vendor.json`` beside the files
has the digests of what is served. A page has no import map, since inline scripts are not allowed:
names of packages in ``import`` are replaced by paths. Source maps are left out.
"""

import argparse
import base64
import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent.parent / "src/quarterdeck/web/page/vendor"
RECORD = FOLDER / "vendor.json"


class Package(NamedTuple):
    """A package of npm, and what of it is used."""

    name: str
    version: str
    integrity: str
    licence: str
    files: dict[str, str]
    """From the path in the package to the name here."""


PACKAGES = (
    Package(
        "preact",
        "11.2.0",
        "sha512-/HfHI/7N84e6GrWBJ3J280z3mLaRJiDcSvj/A+y/4AbLnND/1UlGHe1sR6oYuTGwId0nP7dqDU9OnLxMPZ7xBg==",
        "MIT",
        {"dist/preact.mjs": "preact.mjs", "hooks/dist/hooks.mjs": "preact-hooks.mjs"},
    ),
    Package(
        "htm",
        "3.1.1",
        "sha512-983Vyg8NwUE7JkZ6NmOqpCZ+sh1bKv2iYTlUkzlWmA5JD2acKoxd4KVxbMmxX/85mtfdnDmTFoNKcg5DGAvxNQ==",
        "Apache-2.0",
        {"dist/htm.mjs": "htm.mjs"},
    ),
    Package(
        "@xterm/xterm",
        "6.0.0",
        "sha512-TQwDdQGtwwDt+2cgKDLn0IRaSxYu1tSUjgKarSDkUM0ZNiSRXFpjxEsvc/Zgc5kq5omJ+V0a8/kIM2WD3sMOYg==",
        "MIT",
        {"lib/xterm.mjs": "xterm.mjs", "css/xterm.css": "xterm.css"},
    ),
)
IMPORTS = {"preact": "./preact.mjs"}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    if parser.parse_args().check:
        problems = find_differences()
        print("\n".join(problems) or "the files are those that were recorded")
        return bool(problems)
    FOLDER.mkdir(exist_ok=True)
    record = {"packages": [write_package(package) for package in PACKAGES]}
    RECORD.write_text(json.dumps(record, indent=2) + "\n")
    return 0


def find_differences() -> list[str]:
    """What is not as ``vendor.json`` says."""
    recorded: dict[str, str] = {}
    for package in json.loads(RECORD.read_text())["packages"]:
        recorded |= package["files"]
    found = {path.name: digest(path.read_bytes()) for path in FOLDER.iterdir() if path != RECORD}
    names = sorted(recorded.keys() | found.keys())
    return [f"{name} differs" for name in names if recorded.get(name) != found.get(name)]


def write_package(package: Package) -> dict[str, Any]:
    """Write the files of a package; returns its entry in the record."""
    archive = fetch(package)
    files: dict[str, str] = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        short = package.name.rpartition("/")[2]
        for path, name in {**package.files, "LICENSE": f"{short}.LICENSE"}.items():
            member = tar.extractfile(f"package/{path}")
            assert member is not None, path
            data = adapt(member.read())
            (FOLDER / name).write_bytes(data)
            files[name] = digest(data)
    return {
        "name": package.name,
        "version": package.version,
        "integrity": package.integrity,
        "licence": package.licence,
        "files": files,
    }


def adapt(data: bytes) -> bytes:
    """Imports by path, and no comment that names a source map."""
    data = re.sub(rb"\n?//# sourceMappingURL=\S+\n?", b"\n", data)
    for name, path in IMPORTS.items():
        data = re.sub(rb"from\s*(['\"])%s\1" % name.encode(), f'from"{path}"'.encode(), data)
    return data


def fetch(package: Package) -> bytes:
    """The archive of a package, verified."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = f"{package.name}@{package.version}"
        done = subprocess.run(
            ["npm", "pack", "--silent", wanted], cwd=folder, stdout=subprocess.PIPE, check=True
        )
        data = (Path(folder) / done.stdout.decode().split()[-1]).read_bytes()
    found = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
    if found != package.integrity:
        raise SystemExit(f"{wanted} is {found}, not {package.integrity}")
    return data


def digest(data: bytes) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(data).digest()).decode()


if __name__ == "__main__":
    sys.exit(main())
