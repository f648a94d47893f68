"""The page's own files: vendored ones are what was recorded, scripts parse and use plain words."""

import json
import re
import shutil
import subprocess

import pytest

from quarterdeck.web.page_files import PAGE_FOLDER, PageFiles
from tests.support.hostile_text import hostile_strings
from tests.test_words import WORDS
from tools import vendor_web

SCRIPTS = sorted(PAGE_FOLDER.glob("*.js"))
LONGEST_FILE = 600


def test_vendored_files_are_those_that_were_recorded():
    assert vendor_web.find_differences() == []
    recorded = json.loads(vendor_web.RECORD.read_text())["packages"]
    pinned = [(one.name, one.version, one.integrity) for one in vendor_web.PACKAGES]
    assert [(one["name"], one["version"], one["integrity"]) for one in recorded] == pinned
    for package in recorded:
        assert any(name.endswith(".LICENSE") for name in package["files"]), package["name"]


def test_a_vendored_file_that_was_changed_is_found(monkeypatch, tmp_path):
    folder = tmp_path / "vendor"
    shutil.copytree(vendor_web.FOLDER, folder)
    monkeypatch.setattr(vendor_web, "FOLDER", folder)
    monkeypatch.setattr(vendor_web, "RECORD", folder / "vendor.json")
    (folder / "htm.mjs").write_text("export default 1\n")
    (folder / "more.js").write_text("")
    assert vendor_web.find_differences() == ["htm.mjs differs", "more.js differs"]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_short_and_in_plain_words(path):
    text = path.read_text()
    assert text.startswith("// @ts-check\n"), "the compiler does not look at it"
    assert text.count("\n") <= LONGEST_FILE
    found = [line.strip()[:80] for line in text.splitlines() if WORDS.search(line)]
    assert found == []


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_import_only_files_that_are_served(path):
    served = PageFiles.load().paths()
    for name in re.findall(r"(?:from|import\()\s*\"\./([^\"]+)\"", path.read_text()):
        assert f"/{name}" in served, name


def test_the_service_worker_knows_every_file_of_the_shell():
    listed = re.search(
        r"const FILES = \[(.*?)\];", (PAGE_FOLDER / "service-worker.js").read_text(), re.S
    )
    assert listed is not None
    files = set(re.findall(r"\"([^\"]+)\"", listed[1]))
    served = PageFiles.load()
    assert not [path for path in files if served.find(path) is None]
    own = {f"/{path.name}" for path in SCRIPTS if path.name != "service-worker.js"}
    assert own <= files


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_text_functions(tmp_path):
    """What is hidden is written out, Markdown becomes elements, changes are found."""
    shutil.copytree(PAGE_FOLDER, tmp_path / "page")
    check = tmp_path / "page" / "check.mjs"
    (tmp_path / "page" / "package.json").write_text('{"type": "module"}')
    check.write_text(
        """
import * as texts from "./text.js";
const { compareTexts, exact, formatSpan, literal, oneLine, renderMarkdown } = texts;
import { Transcript } from "./transcript.js";
const say = (value) => console.log(JSON.stringify(value));
say(literal("a\\u202eb\\u001b[31m\\u200b\\u{e0041}ok\\n"));
say([literal("a\\u200db"), exact("a\\u200db")]);
say(oneLine("a\\n  b".repeat(100), 10));
say(compareTexts("a\\nb\\nc", "a\\nx\\nc"));
say(compareTexts(null, "new"));
say(compareTexts("a\\n".repeat(3000), "b\\n".repeat(3000)).length);
say(compareTexts("a\\n", "a"));
say(formatSpan(90e6));
const kinds = (nodes) => nodes.map((node) => node.type);
const page = "# t\\n\\nw `c`\\n\\n- one\\n- two\\n\\n```js\\nx\\n```\\n\\n|a|b|\\n|-|-|\\n|1|2|\\n";
say(kinds(renderMarkdown(page)));
const link = renderMarkdown("[x](javascript:alert(1)) [y](https://a.example/z)")[0];
say(JSON.stringify(link).includes('"href":"javascript'));
say(JSON.stringify(link).includes('"href":"https://a.example/z"'));
const records = [
  { seq: 1, time: 1, event: { type: "message_chunk", content: { type: "text", text: "a" } } },
  { seq: 2, time: 2, event: { type: "message_chunk", content: { type: "text", text: "b" } } },
  { seq: 3, time: 3, event: { type: "tool_call_started", call: "c", title: "ls" } },
  { seq: 4, time: 4, event: { type: "tool_call_ended", call: "c", status: "completed" } },
  { seq: 5, time: 5, event: { type: "something_new", reason: "why" } },
  { seq: 6, time: 6, event: { type: "tool_call_ended", call: "before", status: "failed" } },
];
say(Transcript.of(records).blocks.map((block) => [block.kind, block.text ?? block.status]));
const ended = [
  { seq: 1, time: 1, event: { type: "tool_call_started", call: "c", status: "in_progress" } },
  { seq: 2, time: 2, event: { type: "command_started", command: "make", terminal: "t" } },
  { seq: 3, time: 3, event: { type: "session_ended", how: "broken" } },
];
say(Transcript.of(ended).blocks.map((block) => [block.status, block.reason]));
const start = Date.now();
for (const letter of "*`[") renderMarkdown(letter.repeat(200000));
say(Date.now() - start < 5000);
// A text that grows is drawn as if it had come at once; what is finished is drawn once.
const namesOf = (node) => Object.keys(node.props).filter((one) => one !== "children");
const bare = (node) => (Array.isArray(node) ? node.map(bare) : node?.props
  ? [node.type, namesOf(node), bare(node.props.children)] : node);
const fence = "`".repeat(3);
const more = "~~~\\na\\n\\nb\\n~~~\\r\\n\\r\\n1. x\\n\\n2. y\\n> q\\n\\n";
const long = `${page}\\n\\n${more}${fence}\\nopen\\n\\n- no list`;
const kept = {};
let same = true;
let early = null;
for (let end = 1; end <= long.length; end += 1) {
  const grown = texts.renderGrowing(long.slice(0, end), kept);
  same &&= JSON.stringify(bare(grown)) === JSON.stringify(bare(renderMarkdown(long.slice(0, end))));
  early ??= grown.length > 2 ? grown[0] : null;
  if (end === long.length) say([same, grown[0] === early, kept.text.length > 40]);
}
say(bare(texts.renderGrowing("other", kept)).length);
"""
    )
    done = subprocess.run(
        ["node", str(check)], capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0, done.stderr
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert said[0] == "a\\u{202e}b\\x1b[31m\\u{200b}\\u{e0041}ok\n"
    assert said[1] == ["a\u200db", "a\\u{200d}b"]
    assert said[2] == "a ba ba ba…"
    assert [line[:2] for line in said[3]] == [[" ", "a"], ["-", "b"], ["+", "x"], [" ", "c"]]
    assert [line[:2] for line in said[4]] == [["+", "new"]]
    assert said[5] == 6000
    assert said.pop(6) == [["…", "the new text has no newline at its end", None, None]]
    assert said[6] == "1m"
    assert said[7] == ["p", "p", "ul", "pre", "div"]
    assert said[8:10] == [False, True]
    expected = [
        ["message", "ab"],
        ["call", "completed"],
        ["fact", "something new: why"],
        ["call", "failed"],
    ]
    assert said[10] == expected
    # The call has no result; the person's own command is not the session's.
    assert said[11] == [["cancelled", "interrupted"], ["in_progress", None], [None, None]]
    assert said[12] is True
    assert said[13:] == [[True, True, True], 1]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_ten_thousand_hostile_strings_become_text_and_plain_elements(tmp_path):
    """Nothing that a browser hides is left, no link leads elsewhere, no element is unknown."""
    shutil.copytree(PAGE_FOLDER, tmp_path / "page")
    (tmp_path / "page" / "package.json").write_text('{"type": "module"}')
    strings = [one.encode("utf-8", "replace").decode() for one in hostile_strings(10_000)]
    (tmp_path / "strings.json").write_text(json.dumps(strings))
    check = tmp_path / "page" / "check.mjs"
    check.write_text(
        """
import { readFileSync } from "node:fs";
import { exact, literal, oneLine, plainOutput, renderMarkdown } from "./text.js";
const codes = [[0, 8], [11, 31], [127, 159], [0x200b, 0x200b], [0x200e, 0x200f], [0x2028, 0x202e],
  [0x2060, 0x206f], [0x2800, 0x2800], [0xfeff, 0xfeff], [0xe0000, 0xe01ef]];
const isHidden = (text) => [...text].some((letter) =>
  codes.some(([from, to]) => from <= letter.codePointAt(0) && letter.codePointAt(0) <= to));
const names = "p code strong em a span ul ol li pre blockquote div table thead tbody tr th td";
const known = new Set(names.split(" "));
const problems = [];
const walk = (node) => {
  if (Array.isArray(node)) node.forEach(walk);
  else if (typeof node === "string") { if (isHidden(node)) problems.push(node.slice(0, 60)); }
  else if (node && typeof node === "object") {
    if (!known.has(node.type)) problems.push(`element ${String(node.type)}`);
    for (const [name, value] of Object.entries(node.props ?? {})) {
      if (name === "children") walk(value);
      else if (name === "href" && !/^https?:\\/\\//.test(value)) problems.push(`href ${value}`);
      else if (/^on|html/i.test(name)) problems.push(`attribute ${name}`);
    }
  }
};
for (const text of JSON.parse(readFileSync(process.argv[2], "utf8"))) {
  for (const shown of [literal(text), exact(text), oneLine(text), plainOutput(text)]) walk(shown);
  walk(renderMarkdown(text));
}
console.log(JSON.stringify(problems.slice(0, 5)));
""".replace("\\\\", "\\")
    )
    done = subprocess.run(
        ["node", str(check), str(tmp_path / "strings.json")],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
