"""What the documentation says is true: pages exist, links lead somewhere, examples run."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from quarterdeck.config.display import field_text, reference_markdown
from quarterdeck.config.validation import check_layer, list_settings

ROOT = Path(__file__).parent.parent
PAGES = [
    *ROOT.glob("*.md"),
    *(
        page
        for folder in ("docs", "src", "tests", "tools")
        for page in (ROOT / folder).rglob("*.md")
    ),
]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


SOURCE = ROOT / "src" / "quarterdeck"
ROOMS = {folder.name for folder in SOURCE.iterdir() if (folder / "__init__.py").exists()}
MANUAL = [ROOT / "README.md", ROOT / "AGENTS.md", *sorted((ROOT / "docs").glob("*.md"))]
"""Pages about the program as it is; those in ``docs/decisions`` keep the names of their time."""
FOREIGN_FILES = {"app.py", "conftest.py", "hooks.py", "no_push.py", "sitecustomize.py"}
FOREIGN_NAMES = {
    *("Authorization", "BaseException", "CancelledError", "Exception", "TaskGroup"),
    *("ValidationError", "Error", "Manager", "Helper", "Makefile", "Found"),
    *("Bash", "Edit", "Read", "Write", "TodoWrite", "WebFetch"),  # tools of other agents
    *("MyTool", "SchemaDrift"),
    *("BatchMode", "ControlMaster", "ProxyCommand"),  # options of OpenSSH
}


def links(page: Path) -> list[str]:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    return [link for link in LINK.findall(text) if not re.match(r"[a-z]+:", link)]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def test_agents_page_stays_a_map():
    assert len((ROOT / "AGENTS.md").read_text().splitlines()) <= 100
    assert "AGENTS.md" in (ROOT / "CLAUDE.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path):
    targets = [link.partition("#")[0] for link in links(page)]
    assert [target for target in targets if target and not (page.parent / target).exists()] == []


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings get, as GitHub makes them."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", MANUAL, ids=lambda page: page.name)
def test_every_anchor_is_a_heading(page: Path):
    for link in links(page):
        path, _, anchor = link.partition("#")
        if anchor:
            assert anchor in anchors(page.parent / path if path else page), link


def test_the_index_names_pages():
    assert len(links(ROOT / "docs/README.md")) >= 5


def test_the_settings_page_is_what_the_schema_says():
    page = (ROOT / "docs/configuration.md").read_text()
    told = page.partition("<!-- reference -->\n")[2].partition("<!-- end of reference -->")[0]
    assert told == reference_markdown()


def test_every_setting_has_a_text():
    for setting in list_settings():
        name = next(part for part in reversed(setting.key) if part != "*")
        assert field_text(setting.owner, name), setting.key


def test_examples_of_settings_are_accepted():
    examples = blocks(ROOT / "docs/configuration.md", "toml")
    assert examples
    for example in examples:
        assert check_layer(tomllib.loads(example), "example") == ()


def test_the_examples_in_the_readme_run():
    connecting, example = blocks(ROOT / "README.md", "python")
    # The other is that of docs/drivers.md, which runs in tests/drivers/test_connect.py.
    compile(connecting, "README.md", "exec")
    assert connecting.split("(", 1)[1] in "".join(blocks(ROOT / "docs/drivers.md", "python"))
    done = subprocess.run(
        [sys.executable, "-c", example],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "All hands on deck." in done.stdout


def test_commands_in_the_readme_exist():
    from quarterdeck.cli.root import root

    shown = re.findall(
        r"^quarterdeck ((?:[a-z-]+ ?)+)", "".join(blocks(ROOT / "README.md", "sh")), re.M
    )
    assert len(shown) >= 8
    for line in shown:
        command = root
        for word in line.split():
            found = getattr(command, "get_command", lambda *_: None)(None, word)
            if found is None:
                break
            command = found
        assert command is not root, line


def test_every_dependency_has_its_entry():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"].get("optional-dependencies", {}).values()
    wanted = [
        *project["project"]["dependencies"],
        *project["dependency-groups"]["dev"],
        *(line for extra in extras for line in extra),
    ]
    page = (ROOT / "docs/dependencies.md").read_text()
    names = [re.split(r"[<>=\[ ]", line)[0] for line in wanted]
    assert [name for name in names if name not in page] == []


def code_spans(page: Path) -> list[str]:
    """What stands between single backticks, outside of blocks."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    return re.findall(r"`([^`\n]+)`", text)


@cache
def defined_names() -> frozenset[str]:
    """Classes, and names that modules of ours assign."""
    found: set[str] = set()
    for file in SOURCE.rglob("*.py"):
        for node in ast.parse(file.read_text()).body:
            match node:
                case ast.ClassDef(name=name):
                    found.add(name)
                    found |= {one.name for one in node.body if isinstance(one, ast.ClassDef)}
                case ast.AnnAssign(target=ast.Name(id=name)):
                    found.add(name)
                case ast.Assign(targets=targets):
                    found |= {one.id for one in targets if isinstance(one, ast.Name)}
                case _:
                    pass
    return frozenset(found)


def is_there(path: str) -> bool:
    """Whether a path of the sources exists, in full or from a room on; a bare name anywhere."""
    path = path.removeprefix("src/quarterdeck/").rstrip("/")
    if "/" in path:
        return any((SOURCE / path).parent.glob((SOURCE / path).name))
    return path in FOREIGN_FILES or any(SOURCE.rglob(path)) or any(ROOT.glob(f"*/{path}"))


def paths_in(page: Path) -> list[str]:
    """Paths that look like ours: below ``src/quarterdeck`` or a room, or a bare ``module.py``."""
    rooms = "|".join(sorted(ROOMS))
    below = r"[\w./*-]*"
    ours = re.compile(rf"src/quarterdeck/{below}|(?:{rooms})/{below}(?:/|\.\w+)|\w+\.py")
    return [span for span in code_spans(page) if ours.fullmatch(span)]


@pytest.mark.parametrize("page", MANUAL, ids=lambda page: page.name)
def test_paths_of_modules_exist(page: Path):
    assert [path for path in paths_in(page) if not is_there(path)] == []


@pytest.mark.parametrize("page", MANUAL, ids=lambda page: page.name)
def test_names_of_classes_exist(page: Path):
    found = (
        re.match(r"([A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*)(?=$|[.(])", span)
        for span in code_spans(page)
    )
    names = {one[1] for one in found if one} - FOREIGN_NAMES
    assert sorted(names - defined_names()) == []


@pytest.mark.parametrize("page", MANUAL, ids=lambda page: page.name)
def test_examples_import_what_exists(page: Path):
    for block in blocks(page, "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("quarterdeck"):
                module = import_module(node.module or "")
                assert [one.name for one in node.names if not hasattr(module, one.name)] == []


@pytest.mark.parametrize("page", MANUAL, ids=lambda page: page.name)
def test_dotted_names_of_modules_exist(page: Path):
    for span in code_spans(page):
        if not (found := re.match(r"quarterdeck((?:\.[a-z_]+)+)", span)):
            continue
        parts = found[1].split(".")[1:]
        if parts[0] in ROOMS:
            file = SOURCE.joinpath(*parts)
            homes = [file / "__init__.py", file.with_suffix(".py")]
            homes += [file.parent / "__init__.py", file.parent.with_suffix(".py")]
            assert any(home.exists() for home in homes), span


def test_a_path_or_name_that_is_gone_is_found(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("See `fleet/crew.py`, `crew.py`, `fleet/inbox.py`, `GoneError` and `~/x.py`.\n")
    assert [path for path in paths_in(page) if not is_there(path)] == ["fleet/crew.py", "crew.py"]
    assert "GoneError" not in defined_names()


def test_the_glossary_is_linked():
    for page in ("AGENTS.md", "docs/README.md"):
        assert any(link.endswith("glossary.md") for link in links(ROOT / page))


def test_no_section_is_empty():
    empty = re.compile(r"^(#+) .*\n+(?=\1 |\Z)", re.MULTILINE)
    for page in MANUAL:
        text = re.sub(r"```.*?```", "example", page.read_text(), flags=re.DOTALL)
        assert [found[0].strip() for found in empty.finditer(text)] == [], page.name
