"""Train the tiny models of tests/interop.random_marian with Marian itself, and ask it what they answer.

    pip install pymarian sentencepiece
    python tests/interop/make_marian_models.py PYMARIAN [KIND ...]

The pairs are the phrasebook's (CLDR). One thread, some 20 seconds each; what counts is that the numbers are Marian's.
``ssru`` is a student as a browser has it: it learns what the bundled model says, has an SSRU decoder, int8 weights and
a lexical shortlist.
"""

import gzip
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import sentencepiece

from glassformer.decoding import Translator
from glassformer.interop.marian.release import import_marian
from glassformer.interop.shortlist import encode_pairs, translation_table
from glassformer.settings import DecodeConfig
from glassformer.tasks import load_task
from glassformer.text.corpus.corpus import Pair

HERE = Path(__file__).parent / "marian_models"
SIZES = (
    "--type transformer --enc-depth 2 --dec-depth 1 --transformer-dim-ffn 64 --transformer-heads 2 --cpu-threads 1 "
    "-w 300 --mini-batch 32 --learn-rate 0.004 --lr-warmup 30 --seed 7 --cost-type ce-mean-words --after-batches 200 "
    "--transformer-dropout 0.1 --dim-vocabs 300 300 --quiet"
)
SSRU = (
    "--dim-emb 64 --tied-embeddings-all --transformer-decoder-autoreg rnn --dec-cell ssru "
    "--transformer-ffn-activation relu"
)
KINDS = {
    "spm": "--dim-emb 32 --tied-embeddings-all",
    "ssru": SSRU,  # Marian's int8 wants widths that are multiples of 64
    "words": "--dim-emb 32 --tied-embeddings --transformer-ffn-activation gelu --transformer-decoder-dim-ffn 48",
}
LEXICON, FIRST, BEST = "lex.s2t.gz", 20, 6
LEXICAL = {"ssru", "spm"}  # kinds with a shortlist
SEARCHES = {"greedy": "--beam-size 1 --normalize 0", "beam6": "--beam-size 6 --normalize 0.6 --word-penalty 0.2"}


def answers(
    marian: str, model: Path, vocabs: list[Path], data: list[Path], shortlist: list[str] | None = None
) -> dict[str, str]:
    """What Marian says of the pairs: scores, greedy and beam outputs; or outputs with a shortlist."""

    def ask(command: str, *options: str, given: str = "") -> str:
        call = [marian, command, "-m", str(model), "--vocabs", *map(str, vocabs), *options, "--cpu-threads", "1"]
        if shortlist:
            call += ["--shortlist", *shortlist]
        return subprocess.run([*call, "--quiet"], input=given, capture_output=True, text=True, check=True).stdout

    found = {}
    if model.suffix == ".npz" and not shortlist:  # Marian 1.12 scores no int8
        found["scores"] = ask("score", "-t", *map(str, data))
    for name, options in SEARCHES.items():
        found[name] = ask("decode", *options.split(), given=data[0].read_text(encoding="utf-8"))
    return found


def make(marian: str, kind: str, pairs: list[tuple[str, str]], tests: list[tuple[str, str]]) -> None:
    """One directory: model, vocabularies, decoder.yml, pairs and answers."""
    place = HERE / kind
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        train = [Path(temporary) / f"train.{side}" for side in ("en", "de")]
        test = [place / f"test.{side}" for side in ("en", "de")]
        for paths, some in ((train, pairs), (test, tests)):
            for side, path in enumerate(paths):
                path.write_text("".join(f"{pair[side]}\n" for pair in some), encoding="utf-8")
        vocabs = _vocabularies(marian, kind, place, train)
        options = f"{SIZES} {KINDS[kind]}".split()
        _run(marian, "train", *options, "-t", *train, "-m", place / "model.npz", "--vocabs", *vocabs)
        models = {"": place / "model.npz"}
        if kind == "ssru":
            models["int8."] = place / "model.int8.bin"
            _run(marian, "convert", "-f", models[""], "-t", models["int8."], "--gemm-type", "intgemm8")
        for label, model in models.items():
            for name, text in answers(marian, model, vocabs, test).items():
                (place / f"{label}{name}").write_text(text, encoding="utf-8")
            if kind in LEXICAL:
                write_lexicon(place, pairs)
                limits = [str(FIRST), str(BEST), "0"]
                binary = ["--shortlist", place / LEXICON, *limits, "--dump-shortlist", place / "lex.s2t.bin"]
                _run(marian, "convert", *binary, "--vocabs", *vocabs)
                found = answers(marian, model, vocabs, test, [str(place / LEXICON), *limits])
                assert found == answers(marian, model, vocabs, test, [str(place / "lex.s2t.bin")])
                for name, text in found.items():
                    (place / f"{label}shortlist.{name}").write_text(text, encoding="utf-8")
        for odd in place.glob("model.npz.*"):
            if odd.name != "model.npz.decoder.yml":
                odd.unlink()


def write_lexicon(place: Path, pairs: list[tuple[str, str]]) -> None:
    """The target pieces that translate each source piece, with their probabilities."""
    src, tgt = import_marian(place).tokenizers
    table = translation_table(encode_pairs([Pair(*pair) for pair in pairs], (src, tgt)), src.size, tgt.size)
    rows = zip(table.src.tolist(), table.tgt.tolist(), table.probability.tolist(), strict=True)
    lines = (f"{tgt.entry(b)} {src.entry(a)} {p:.4f}\n" for a, b, p in rows if p > 0.01)
    with gzip.GzipFile(place / LEXICON, "wb", mtime=0) as stream:
        stream.write("".join(lines).encode())


def _vocabularies(marian: str, kind: str, place: Path, train: list[Path]) -> list[Path]:
    if kind != "words":
        sentencepiece.SentencePieceTrainer.train(
            input=",".join(map(str, train)), model_prefix=str(place / "vocab"), vocab_size=300, bos_id=-1, eos_id=0,
            unk_id=1, minloglevel=2, normalization_rule_name="identity" if kind == "ssru" else "nmt_nfkc",
        )  # fmt: skip
        (place / "vocab.model").replace(place / "vocab.spm")
        (place / "vocab.vocab").unlink()
        return [place / "vocab.spm"] * 2
    vocabs = [place / f"vocab.{side}.yml" for side in ("en", "de")]
    for path, text in zip(vocabs, train, strict=True):
        made = subprocess.run([marian, "vocab", "-m", "300"], stdin=text.open(), capture_output=True, check=True)
        path.write_bytes(made.stdout)
    return vocabs


def _run(*call: object) -> None:
    subprocess.run(list(map(str, call)), check=True)


def main() -> None:
    task = load_task("phrasebook-de")
    pairs, tests = ([(pair.src, pair.tgt) for pair in some] for some in (task.train, task.test))
    random.Random(1).shuffle(pairs)
    random.Random(1).shuffle(tests)
    with Translator.load(engine="torch", workers=1) as teacher:
        taught = teacher.translate([src for src, _ in pairs[:2000]], DecodeConfig(beam=2))
    student = [(src, one.text) for (src, _), one in zip(pairs, taught, strict=False)]
    for kind in sys.argv[2:] or KINDS:
        make(sys.argv[1], kind, student if kind == "ssru" else pairs[:2000], tests[:40])


if __name__ == "__main__":
    main()
