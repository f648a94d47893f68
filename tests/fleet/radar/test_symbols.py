"""Top-level symbols of six languages, and which of them a change touches."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.fleet.radar.symbols import (
    LARGEST_SOURCE,
    find_language,
    symbols_of,
    touched_symbols,
)

SOURCES = {
    "a.py": (
        "X = 1\n@cached\ndef f(a):\n    return 1\nasync def g(): pass\n"
        "class Router(Base):\n    z = 3\n    def match(self): pass\n",
        {"X", "f", "g", "Router", "Router.z", "Router.match"},
    ),
    "a.mjs": (
        "import x from 'y';\nexport default function f(){ return 1 }\nconst a = () => 1, b = 2;\n"
        "export const c = 3;\nclass Q { m(){} }\nfunction* gen(){}\n",
        {"f", "a", "b", "c", "Q", "Q.m", "gen"},
    ),
    "a.ts": (
        "export interface I { a: number }\ntype T = string;\nenum E { A }\n"
        "namespace N { export function q(){} }\nexport abstract class C { m(): void {} }\n"
        "declare function d(): void;\nexport const k: number = 1;\n",
        {"I", "T", "E", "N", "N.q", "C", "C.m", "d", "k"},
    ),
    "a.tsx": ("export const App = () => <div/>;\nfunction B(){ return <p>1</p> }\n", {"App", "B"}),
    "a.go": (
        "package main\ntype Router struct { a int }\ntype (\n A int\n B = string\n)\n"
        "func (r *Router) Match(x int) int { return 1 }\nfunc (g Gen[T]) Next() {}\n"
        "func main() {}\nconst Z = 1\nvar q = 1\n",
        {"Router", "A", "B", "Router.Match", "Gen.Next", "main", "Z", "q"},
    ),
    "a.rs": (
        "use x;\npub fn f() {}\nstruct S { a: u8 }\nimpl S { fn m(&self) {} }\nenum E { A }\n"
        "trait T { fn t(&self); }\nmod inner { fn z() {} }\nconst C: u8 = 1;\n"
        "macro_rules! mm { () => {} }\n",
        {"f", "S", "S.m", "E", "T", "T.t", "inner", "inner.z", "C", "mm"},
    ),
    "a.java": (
        "package a;\npublic class Foo { int x; void m() {} void m(int a) {} Foo() {} }\n"
        "interface Bar { void q(); }\nenum Z { A; void w() {} }\nrecord R(int a) {}\n",
        {"Foo", "Foo.m", "Foo.Foo", "Bar", "Bar.q", "Z", "Z.w", "R"},
    ),
}


@pytest.mark.parametrize("name", SOURCES)
def test_the_symbols_of_a_language(name: str):
    source, expected = SOURCES[name]
    language = find_language(b"some/" + name.encode())
    assert language is not None
    assert set(symbols_of(language, source.encode())) == expected


def test_a_file_is_of_a_language_by_its_suffix():
    assert find_language(b"A.PY") == "python"
    assert find_language(b"x.d.ts") == "typescript"
    for name in (b"README", b"x.txt", b".py/x", b"\xff.c", b""):
        assert find_language(name) is None


def test_a_change_touches_what_it_adds_removes_and_rewrites():
    old = b"def same():\n    pass\ndef gone():\n    pass\ndef f():\n    return 1\n"
    new = b"import os\ndef f():\n    return 2\n\n\ndef same():\n    pass\ndef new():\n    pass\n"
    assert touched_symbols("python", old, new) == {"gone", "f", "new"}
    assert touched_symbols("python", None, new) == {"f", "same", "new"}
    assert touched_symbols("python", old, None) == {"gone", "f", "same"}
    assert touched_symbols("python", old, old) == set()


def test_decorators_belong_to_their_symbol_and_members_to_their_class():
    old = b"@a\ndef f(): pass\nclass C:\n    def m(self): pass\n    def n(self): pass\n"
    new = b"@b\ndef f(): pass\nclass C:\n    def m(self): pass\n    def n(self): return 1\n"
    assert touched_symbols("python", old, new) == {"f", "C", "C.n"}


def test_what_is_too_large_or_broken_is_no_error():
    assert symbols_of("python", b"x = 1\n" * LARGEST_SOURCE) == {}
    assert "f" in symbols_of("python", b"def f():\n    return 1\n\n<<<<<<< broken ((\n")


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["python", "tsx", "go", "rust", "java"]), st.binary(max_size=300))
def test_any_bytes_can_be_read(language: str, source: bytes):
    assert touched_symbols(language, source, source) == frozenset()


def test_a_language_without_grammar_has_no_symbols_and_is_named():
    code = (
        "import sys; sys.modules['tree_sitter_go'] = None\n"
        "from quarterdeck.fleet.radar.symbols import *\n"
        "assert missing_grammars() == []\n"
        "assert touched_symbols('python', b'', b'x = 1') == {'x'}\n"
        "assert missing_grammars() == []\n"
        "assert touched_symbols('go', b'', b'func main() {}') == frozenset()\n"
        "assert missing_grammars() == ['tree-sitter-go']\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_grammar_is_loaded_before_it_is_needed():
    code = (
        "import sys, quarterdeck.fleet.radar.service\n"
        "assert not [name for name in sys.modules if name.startswith('tree_sitter')]\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stderr) == (0, "")
