"""The page's tokenizers give the ids, labels, steps and texts of Python's, on ordinary and on hostile texts."""

import io
import json
import sys
import unicodedata
from functools import cache
from typing import Any

import pytest
from covering import FULL
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from glassformer.bundled import BUNDLED
from glassformer.decoding.sentences import read_source_sentences
from glassformer.explain.page.text_rules import pack_rules
from glassformer.run_directory import RunDirectory
from glassformer.settings import DecodeConfig
from glassformer.text import Tokenizer
from glassformer.text.lines import normalize_source
from glassformer.text.sentence_splitter import split_sentences
from glassformer.text.tokenizer.derivation import Lookup, Match, Merge, Segmentation
from glassformer.text.tokenizer.kinds import CONTROL_TOKENS, KINDS
from glassformer.text.tokenizer.sentencepiece import SentencePieceModel

IMPORT = 'import { createTokenizer } from "./worker/tokenizer.js";'
CORPUS = [
    "I love you, too. Don't you?", "Ich liebe dich auch. Größe 42, Straße 7!", "Él no está aquí… ¿Dónde?", "Ελλάδα ΣΟΦΟΣ",
    "東京 に 行く", "x = (a + b) < c && \"quoted\" 'single'", "we've they're it's I'll",
] * 6  # fmt: skip
TEXTS = [
    "", " ", "  two  spaces ", "\t\n\r\n", "I love you, too.", "</s> <unk> <pad> <s>", "<" * 50, "a" * 2000, "ab" * 700,
    "ΣΟΦΟΣ ΟΔΥΣΣΕΥΣ", "İstanbul ıI", "e\u0301 \u1e9b\u0323 \ufb01", "👩‍👩‍👧‍👦 🇩🇪 ☂️", "مرحبا بالعالم", "שלום", "a\u0085b\ufeffc\u2028d\u3000e",
    "</script><script>alert(1)</script>", "\x00\x01\x7f\u200d", "\ud800 lone \udfff", "don't 'S 'll 're", "▁ typed ▁▁", "Don ' t n't do not",
    "x²³ ½ Ⅷ ٣", "foo_bar-baz", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𠮷野家", "$100 + 5% = ^_^ `code` ~|", "__proto__ constructor toString",
    "मेरी बिल्ली सोती है।", "நான் வீட்டில்", "\u0301e (\u0301a\t\u0301b 1\u20e3", "שָׁלוֹם", "می\u200cخواهم", "ภาษาไทย", "a\u200db",
]  # fmt: skip
STEPS = {Merge: "merge", Match: "match", Segmentation: "segmentation", Lookup: "lookup"}


def tokenizer_of(kind: str, lowercase: bool) -> Tokenizer:
    size = 700 if kind in ("bpe", "unigram") else 400
    return Tokenizer.train(kind, CORPUS, size if kind != "unigram" else 200, lowercase=lowercase)


@pytest.mark.parametrize("options", [{"marked": True}, {"decompose": True}, {"marked": True, "decompose": True}])
def test_marked_and_decomposed_characters_are_those_of_python(run_js, options):
    tokenizer = Tokenizer.train("characters", [*CORPUS, "go (V) (PST;PL)", "(N)한국 é"], 400, **options)
    compare(run_js, [tokenizer], [*TEXTS, "go (V) (PST;PL) (N)", "(V)(N) ( a)", "한국 é e\u0301"], steps=True)


@cache
def imported_tokenizer(rules: str = "nmt_nfkc", collapses_spaces: bool = True) -> Tokenizer:
    """As a Marian model brings it, such as those of OPUS-MT: SentencePiece's defaults, and a target language."""
    sentencepiece = pytest.importorskip("sentencepiece")
    model = io.BytesIO()
    lines = [f"{line} {at} ﬁne {word}" for line in CORPUS for at, word in enumerate(("½ e\u0301", "ｆｕｌｌ", "x²"))]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=150, minloglevel=2, hard_vocab_limit=False,
        normalization_rule_name=rules, remove_extra_whitespaces=collapses_spaces,
    )  # fmt: skip
    read = SentencePieceModel.from_bytes(model.getvalue())
    assert bool(read.charsmap) == (rules != "identity")
    return Tokenizer(read.tokenizer_json([*CONTROL_TOKENS, *read.scores, "▁elsewhere", ">>deu<<"]))


OF_IMPORTS = [
    ">>deu<< I love",
    ">>deu<<I",
    "a <s> </s><pad>",
    ">>deu<< >>deu<<",
    "a\n>>deu<< b",
    "ﬁ ½ ｆ x²³ Ⅷ é e\u0301 각 ﷺ",
    "ｶﾞ ㌔",
]


@pytest.mark.parametrize(("rules", "collapses"), [("nmt_nfkc", True), ("nfkc_cf", False), ("identity", True)])
def test_an_imported_sentencepiece_model_has_the_ids_labels_steps_and_texts_of_python(run_js, rules, collapses):
    compare(run_js, [imported_tokenizer(rules, collapses)], [*TEXTS, *OF_IMPORTS], steps=True)


@pytest.mark.slow
def test_ids_of_generated_texts_by_an_imported_model(run_js) -> None:
    compare(run_js, [imported_tokenizer()], generate_texts(1000), steps=False)


def known_characters() -> st.SearchStrategy[str]:
    """Characters of an old Unicode version: of later ones the library and Node.js know different sets."""
    old = [
        code for code in range(sys.maxunicode + 1) if unicodedata.ucd_3_2_0.category(chr(code)) not in ("Cn", "Cs")
    ]
    return st.one_of(st.sampled_from("abeIiστΣß 's<▁_.,!?\n\t<>"), st.sampled_from(old).map(chr))


def generate_texts(count: int) -> list[str]:
    found: list[str] = []

    @settings(max_examples=count, database=None, derandomize=True, deadline=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.text(known_characters(), max_size=40))
    def collect(text: str) -> None:
        found.append(text)

    collect()
    return found


def python_result(tokenizer: Tokenizer, text: str, *, steps: bool) -> dict[str, Any]:
    ids = tokenizer.to_ids(text)
    found: dict[str, Any] = {"ids": ids, "tokens": tokenizer.to_tokens(ids), "text": tokenizer.to_text(ids)}
    if steps:
        derivation = tokenizer.derive(text)
        found["normalised"] = derivation.normalised
        found["steps"] = [
            {
                "text": word.text, "symbols": list(word.symbols), "tokens": list(word.tokens), "ids": list(word.ids),
                "steps": [{"step": STEPS[type(step)], **vars(step)} for step in word.steps],
            }
            for word in derivation.pre_tokens
        ]  # fmt: skip
    return found


BODY = """
  return data.tokenizers.map((json, at) => {
    const tokenizer = createTokenizer(json);
    return data.texts[at].map((text) => {
      const { ids, tokens, normalised, steps } = tokenizer.encode(text), found = { ids, tokens, text: tokenizer.decode(ids) };
      return data.steps ? { ...found, normalised, steps } : found;
    });
  });"""


def round_numbers(value: Any) -> Any:
    """With floats to 12 digits: the library reads those of a unigram vocabulary with another last bit."""
    if isinstance(value, dict):
        return {name: round_numbers(one) for name, one in value.items()}
    if isinstance(value, list):
        return [round_numbers(one) for one in value]
    return float(f"{value:.12g}") if isinstance(value, float) else value


def compare(run_js: Any, tokenizers: list[Tokenizer], texts: list[str], *, steps: bool) -> None:
    given_ = [tokenizer.json for tokenizer in tokenizers]
    found = run_js(IMPORT, BODY, {"tokenizers": given_, "texts": [texts] * len(given_), "steps": steps})
    for tokenizer, of_tokenizer in zip(tokenizers, found, strict=True):
        for text, one in zip(texts, of_tokenizer, strict=True):
            wanted = json.loads(json.dumps(python_result(tokenizer, text, steps=steps)))
            assert round_numbers(one) == round_numbers(wanted), (tokenizer.kind, text)


def test_a_text_is_cut_and_read_as_translate_does(run_js):
    spaces = [chr(code) for code in range(0x3100) if chr(code).isspace()]
    texts = [*TEXTS[:-1], *(f" I{space}{space}love you\u200b.{space}" for space in spaces), "I am he\u200cr\u200de.",
             "می\u200cخواهم", "क्\u200dष", "👨\u200d👩\u200d👧", "❤\ufe0f\u200d🔥", "a\U0001d7ff\u200db"]  # fmt: skip
    body = "return data.texts.map(normalizeSource);"
    found = run_js('import { normalizeSource } from "./worker/tokenizer.js";', body, {"texts": texts})
    assert found == [normalize_source(text) for text in texts]
    texts = ["I am tired. I go home.", "  What?! No... Yes! ", "Dr. Smith met J. R. Lee. He left.", "one. two. Three.", "",
             "He said: “Go.” I went.", "At 5 p.m. he came. See fig. 3 now.", "No end", "私は疲れた。家に帰る。", "Really? - Yes.",
             "Item 3. Next", "3.5 is more. U.S. law. Mr. X vs. Mrs. Y.", "Hm… Well. \"Yes.\" (No.) Ok."]  # fmt: skip
    rules = pack_rules(tokenizer_of("bpe", False), "en", None)
    body = "const rules = readRules(data.rules); return data.texts.map((text) => splitSentences(text, rules));"
    imports = 'import { readRules } from "./worker/text/codes.js"; import { splitSentences } from "./worker/text/sentences.js";'
    found = run_js(imports, body, {"rules": rules, "texts": texts})
    assert found == [[one._asdict() for one in split_sentences(text, "en")] for text in texts]


def test_styles_and_codes_of_a_typed_text_are_read_as_translate_reads_them(run_js):
    lines = [text for text in TEXTS[:-1] if len(text.splitlines()) < 2]  # the field of the page has one line
    texts = [*lines, "I AM AT HOME.", "  where do you live", "house", "hello!", "x2", "eBay", "ok...", "ǆep", "straße", "ªb", "naïve", "NATO", "iPhone is new", "I love you ❤️",
             "🎉 HELLO 🎉🎉 ", "My cat 🐱 sleeps.", "tired 😴, but", "bad😴news", "(❤️ you)", "a 🎉  🎉\ufe0f b", "AM 🍕 AB",
             "👨\u200d👩\u200d👧 my family", "ΣΟΦΟΣ ΟΔΟΣ", "ßtraße am see", "🎉🎉", "3 MEN SLEEP", "ǆ džep je tu",
             "МОЙ ДОМ", "今日は晴れです。", "ﬁne words", "\u3000a b\u3000",
             "- item one", "3) 🎉 (WHAT?!)", "(a) or (b)", "[ Wait... ]", "1...", "\"i don't know.\"", "(", "-5 degrees"]  # fmt: skip
    body = """
    const worker = new PageWorker();
    worker.readTexts(data.decode, data.rules, {});
    return data.texts.map((text) => worker.split(text).map((one) => worker.readSource(one)));
    """
    rules = pack_rules(tokenizer_of("bpe", False), "en", ("en", "de"))
    options = DecodeConfig(match_style=True, keep_codes=False)
    asked = {"decode": options.to_mapping(), "rules": rules, "texts": texts}
    found = run_js('import { PageWorker } from "./worker/worker.js";', body, asked)
    assert found == [read_source_sentences(text, options) for text in texts]
    texts = ["Dear {name}, your order %s is ready.", "She said <b>no</b>. Then she left!", "I love you.", "{{count}} files",
             "Visit https://example.com/path today.", "Mail me at bob@example.org.", "Click <b>Save</b> to keep %d files.",
             "HELLO {name}!", "where is {city}?", "Tom met {name} in %(place)s 🎉", "Fish &amp; chips", "100 % sure", "{name}",
             "%s", "<i>a</i> {b}", "It costs $price.", "Press `Enter` now.", "{greeting} Welcome!",
             "Hi {name}. How are you? %d of {total} are done.", "Hello {first} {last}!", "A < b and c > d", "😀😀", "50% off"]  # fmt: skip
    options = DecodeConfig(match_style=True, split_sentences=True)
    asked |= {"decode": options.to_mapping(), "texts": texts}
    found = run_js('import { PageWorker } from "./worker/worker.js";', body, asked)
    assert dict(zip(texts, found, strict=True)) == {text: read_source_sentences(text, options) for text in texts}


@pytest.mark.parametrize("lowercase", [False, True])
def test_every_kind_has_the_ids_labels_steps_and_texts_of_python(run_js, lowercase) -> None:
    compare(run_js, [tokenizer_of(kind, lowercase) for kind in KINDS], TEXTS, steps=True)


@pytest.mark.slow
@pytest.mark.parametrize("lowercase", [False, True])
def test_ids_and_steps_of_generated_texts(run_js, lowercase) -> None:
    texts = generate_texts(2000 if FULL else 500)
    compare(run_js, [tokenizer_of(kind, lowercase) for kind in KINDS], texts, steps=True)


def test_the_bundled_tokenizer(run_js) -> None:
    tokenizer = RunDirectory(BUNDLED).load("cpu").src_tokenizer
    compare(run_js, [tokenizer], [*CORPUS[:7], *TEXTS], steps=True)


def change_part(kind: str, path: str, value: object) -> dict[str, Any]:
    tokenizer = imported_tokenizer() if kind == "imported" else tokenizer_of(kind, False)
    parts = json.loads(tokenizer.json)
    *places, last = path.split(".")
    at: Any = int(last) if last.isdigit() else last
    part = parts
    for place in places:
        part = part[int(place)] if place.isdigit() else part[place]
    part[at] = value
    return parts


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("bpe", "model.dropout", 0.1), ("bpe", "model.magic", 1), ("unigram", "model.byte_fallback", True),
        ("bpe", "normalizer.normalizers.0.type", "NFKC"), ("wordpiece", "decoder.cleanup", False),
        ("unigram", "pre_tokenizer.pretokenizers.1.behavior", "Removed"), ("words", "decoder", {"type": "Fuse"}),
        ("characters", "pre_tokenizer.pattern.String", "x"), ("bpe", "post_processor", {"type": "BertProcessing"}),
        ("bpe", "model.type", "Other"), ("imported", "normalizer.normalizers.1.strip_left", False),
        ("imported", "normalizer.normalizers.2", {"type": "Precompiled", "precompiled_charsmap": "QUJD" * 5000}),
        ("imported", "decoder.decoders.0.content", "QUJD" * 5000),
    ],
)  # fmt: skip
def test_what_is_not_known_is_refused_by_name(run_js, kind, path, value) -> None:
    body = "try { createTokenizer(data); } catch (error) { return error.message; }"
    message = run_js(IMPORT, body, change_part(kind, path, value))
    assert message.startswith("its tokenizer has a part that the page does not know: ")
    assert path.split(".")[0] in message
    assert message.count(". ") == 0, "one sentence"
    assert len(message) < 200
    assert "QUJD" not in message
