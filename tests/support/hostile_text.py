"""Text that wants to do something to a screen."""

import random

__all__ = ["hostile_strings"]

_SEEDS = [
    "[red]x[/red]", "[/b]", "[bold", "[@click=app.quit()]x[/]", "[link=http://a]b[/link]", "\\[a]",
    "\x1b[2J\x1b[31m", "\x9b31m", "\x1b]0;title\x07", "\x1b]8;;http://evil\x07x\x1b]8;;\x07",
    "a\rb", "a\x08\x08b", "\x00", "\x7f", "\x85", "\u2028\u2029", "\u202eabc\u202c",
    "\u2066x\u2069",
    "\u200bz\u200c\u200d\u2060\ufeff", "e" + "\u0301" * 40, "\u3164\u115f\u2800",
    "x\ufe0e\U000e0101",
    "\U000e0041\U000e007f", "👨\u200d👩\u200d👧", "🇩🇪", "👍🏽", "你好" * 30, "ＡＢＣ",
    "\ud800", "\t\t\t",
    "&#8238;&lt;&amp;", "<script>x</script>", "<!-- hidden -->", "![a](http://e/)", "[a]: http://e/",
    "```\nopen fence", "| a | b\n|---|", "> " * 30 + "x", "- " * 30 + "x", "1. " * 20, "#" * 9,
    "x" * 5_000, "\n" * 50, " " * 300, "$text-muted", "{0!r}%s", "\\u202e", "~~a~~ **b** `c",
]  # fmt: skip


def hostile_strings(count: int, seed: int = 1) -> list[str]:
    """So many, the same each time: each seed alone, then mixtures."""
    chance = random.Random(seed)
    mixed = (
        "".join(chance.choice(_SEEDS) + chance.choice(["", " ", "\n", "z"]) for _ in range(4))
        for _ in range(count)
    )
    return [*_SEEDS, *mixed][:count]
