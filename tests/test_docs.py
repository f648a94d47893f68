"""What the documentation says is true: pages exist, links lead somewhere, examples run."""

import os
import re
import subprocess
import sys
import tomllib
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
