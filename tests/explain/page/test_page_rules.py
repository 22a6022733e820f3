"""Each pattern that the page takes from Python finds in JavaScript what it finds in Python."""

import json

from glassformer.explain.page.text_rules import _PATTERNS, to_javascript

TEXTS = [
    "Hello {name}, %d of %s <b>x</b> https://a.b/c(d). mail a@b.de `code` @foo@bar /usr/bin --opt=3 foo_bar v1.2.3",
    "I paid $2,500.50 at 3 p.m. (5 PM) -5 °C, 10:30 a.m., 1/2, 25 % and 1.000,5 €.", "Dr. Smith met J. R. Lee. “Go!” he said…",
    "Ich bin müde. ÄÖÜ straße ﬁne x² ½ Ⅷ 今日は晴れです。家に帰る。", "🎉 a 👨\u200d👩\u200d👧 🇩🇪 ☂️ b", "- item\n3) two\r\nthree\u2028four",
    "{n, plural, one {# file} other {# files}} {{#if x}}a{{/if}} {% if y %}b{% endif %}", "\u200fשלום\u200e a\u00adb &nbsp;&#173; <wbr>",
    "$VAR ${x} %(n)s %1$s %% %n :smile: #tag a=b C++ C# 0xFF x.* ~/docs C:\\x\\y readme.TXT [link] [/link] foo()", "", "..?!..", "a" * 300,
]  # fmt: skip
BODY = """
  return data.patterns.map(([source, flags]) => data.texts.map((text) =>
    [...text.matchAll(new RegExp(source, flags + "g"))].map((one) => one[0])));"""


def test_every_pattern_finds_the_same(run_js) -> None:
    given = {"patterns": [to_javascript(one) for one in _PATTERNS.values()], "texts": TEXTS}
    found = run_js("", BODY, json.loads(json.dumps(given)))
    for (name, pattern), of_pattern in zip(_PATTERNS.items(), found, strict=True):
        for text, pieces in zip(TEXTS, of_pattern, strict=True):
            assert pieces == [one[0] for one in pattern.finditer(text)], (name, text)
