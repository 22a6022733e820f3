"""A post-norm model with SentencePiece's tokenizers, trained here: does Hugging Face translate as we do, and what
does fine-tuning an import give?

    python benchmarks/exchange.py --work DIR --train PAIRS.tsv.gz --minutes 8      # trains, and compares
    python benchmarks/exchange.py --work DIR --run RUN --test TEST [--tune SRC TGT] [--json FILE]

A MarianMT directory with random weights is imported, trained by ``train --init`` and exported again. Then 1,000
sentences are translated by ``generate`` and by us with the same search. Two outputs that differ are a tie or rounding
if their scores are within 1e-3. TEST names TEST.en.gz and TEST.de.gz. With ``--tune SRC TGT`` the model, read back
from its export, is trained further on the first pairs of these files; BLEU on the test is measured before and after,
each time with the search of the import. What is in DIR is used again.
"""

import argparse
import io
import json
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from machine import machine
from smoke import new_parser, parse_options, write_json

from glassformer.checkpoint import checkpoints, read_json
from glassformer.decoding import Translator
from glassformer.interop.programs import read_model
from glassformer.interop.transformers_export import export_transformers
from glassformer.run_directory import RunDirectory, load_run
from glassformer.settings import DecodeConfig
from glassformer.text.lines import read_lines
from glassformer.training.evaluation.evaluation import score
from glassformer.training.reporting.display import Display
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.train import train

SIZES = {
    "d_model": 128, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 512, "decoder_ffn_dim": 512, "max_position_embeddings": 128,
    "activation_function": "swish", "scale_embedding": True, "dropout": 0.1,
}  # fmt: skip
BEAM, LIMIT = 4, 60


def make_marian(pairs: Path, directory: Path, pieces: int) -> None:
    """A MarianMT directory with random weights and an .spm for each side."""
    import sentencepiece
    from transformers import MarianConfig, MarianMTModel

    sides = list(zip(*(line.split("\t")[:2] for line in read_lines(pairs)), strict=True))
    entries = ["</s>", "<unk>"]
    directory.mkdir(parents=True)
    for name, texts in zip(("source", "target"), sides, strict=True):
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts), model_writer=model, vocab_size=pieces, minloglevel=2
        )
        (directory / f"{name}.spm").write_bytes(model.getvalue())
        made = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        entries += [made.id_to_piece(at) for at in range(3, made.get_piece_size())]
    entries = [*dict.fromkeys(entries), "<pad>"]
    pad = len(entries) - 1
    torch.manual_seed(1)
    config = MarianConfig(
        vocab_size=len(entries), pad_token_id=pad, eos_token_id=0, decoder_start_token_id=pad,
        forced_eos_token_id=None, **SIZES,
    )  # fmt: skip
    marian = MarianMTModel(config)
    with torch.no_grad():  # transformers starts with embeddings that are too small for scaling
        marian.model.shared.weight.normal_(std=SIZES["d_model"] ** -0.5)
        marian.model.shared.weight[pad] = 0.0
    marian.generation_config.num_beams, marian.generation_config.max_length = BEAM, LIMIT
    marian.save_pretrained(directory)
    (directory / "vocab.json").write_text(json.dumps({entry: at for at, entry in enumerate(entries)}))


def fit(run: Path, data: dict[str, Any], init: Path, *settings: str) -> None:
    """``glassformer train --init``."""
    request = TrainRequest.make(run=run, data=data, init=str(init), overrides=list(settings))
    train(TrainRequest(run, request.source, request.config, init=request.init), Display())


def compare(run: Path, exported: Path, texts: list[str]) -> dict[str, Any]:
    """How many of our outputs are those of ``generate``, and how many others are ties."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    if not exported.exists():
        export_transformers(load_run(run, "cpu"), exported)
    translator = Translator.load(run, engine="torch")
    options = read_model(str(exported), print).config.decode  # the search of generation_config.json
    found = [one.text for one in translator.translate(texts, options)]
    model = AutoModelForSeq2SeqLM.from_pretrained(exported)
    targets = exported / "target" if (exported / "target").exists() else exported
    src, tgt = (AutoTokenizer.from_pretrained(place) for place in (exported, targets))
    expected: list[str] = []
    for start in range(0, len(texts), 50):
        batch = src(texts[start : start + 50], return_tensors="pt", padding=True, return_token_type_ids=False)
        expected += tgt.batch_decode(model.generate(**batch), skip_special_tokens=True)
    odd = [at for at, (one, other) in enumerate(zip(found, expected, strict=True)) if one != other]
    print(f"{len(texts) - len(odd)} of {len(texts)} translations are the same ({1 - len(odd) / len(texts):.2%})")
    ties = 0
    for at in odd:
        scores = [
            translator.score_tokens([texts[at]], [text], options)[0].score for text in (found[at], expected[at])
        ]
        tie = abs(scores[0] - scores[1]) < 1e-3
        kind, ties = "tie or rounding" if tie else "otherwise", ties + tie
        print(f"  {kind}: {scores[0]:.5f} {found[at]!r} / {scores[1]:.5f} {expected[at]!r}")
    return {"sentences": len(texts), "equal": len(texts) - len(odd), "ties": ties}


def bleu(run: Path, texts: list[str], references: list[str], options: DecodeConfig) -> float:
    """Cased BLEU (13a) of a run on a test set; CTranslate2 computes, in float32."""
    with Translator.load(run, device="cpu", engine="ctranslate2", workers=1) as translator:
        return score([one.text for one in translator.translate(texts, options)], references)["bleu"]


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--work", type=Path, required=True, help="where models are made")
    parser.add_argument("--train", type=Path, help="pairs, separated by a tab, to train a model on")
    parser.add_argument("--run", type=Path, help="or a model that is there")
    parser.add_argument("--pieces", type=int, default=3000, help="of each tokenizer")
    parser.add_argument("--minutes", type=float, default=8.0, help="of training")
    parser.add_argument("--test", type=Path, help="a test set; sentences of --train otherwise")
    parser.add_argument("--tune", type=Path, nargs=2, help="texts and translations to fine-tune on")
    parser.add_argument("--pairs", type=int, default=2000, help="of --tune")
    parser.add_argument("--updates", type=int, default=150, help="of fine-tuning")
    parser.add_argument("--sentences", type=int, default=1000, help="to compare with generate")
    options = parse_options(
        parser,
        "--work {scratch} --train {data}/tatoeba/en-de.tsv.gz --pieces 500 --minutes 0.05 --sentences 4",
        modules=["transformers", "sentencepiece"],
        files=["tatoeba/en-de.tsv.gz"],
    )
    work = options.work
    print(machine())
    run = options.run or work / "run"
    if options.run is None and not (work / "start").exists():
        make_marian(options.train, work / "marian", options.pieces)
        read_model(str(work / "marian"), print).write(work / "start")
    if options.run is None and not RunDirectory(run).final.exists():
        limit = [f"train.max_minutes={options.minutes}", "train.peak_rate=1e-3", "train.warmup=200"]
        fit(run, {"pairs": str(options.train)}, work / "start", *limit, "train.metric=loss",
            "train.valid_translations=20")  # fmt: skip
    if options.test:
        texts, references = (list(read_lines(Path(f"{options.test}.{side}.gz"))) for side in ("en", "de"))
    else:
        pairs = [line.split("\t")[:2] for line in read_lines(options.train)][-1000:]
        texts, references = ([pair[side] for pair in pairs] for side in (0, 1))
    found: dict[str, Any] = {"machine": machine(), "run": run.name}
    found["generate"] = compare(run, work / "exported", texts[: options.sentences])
    if options.tune:
        found["fine_tuning"] = tune(work, options, texts, references)
    write_json(options.json, found)


def tune(work: Path, options: argparse.Namespace, texts: list[str], references: list[str]) -> dict[str, Any]:
    """Fine-tune what was exported and imported again; BLEU before and after."""
    if not (work / "again").exists():
        read_model(str(work / "exported"), print).write(work / "again")
    files = []
    for path, side in zip(options.tune, ("en", "de"), strict=True):
        files.append(work / f"tune.{side}")
        files[-1].write_text(
            "".join(f"{line}\n" for line in islice(read_lines(path), options.pairs)), encoding="utf-8"
        )
    tuned = RunDirectory(work / "tuned")
    if not tuned.final.exists():
        data = {"src": str(files[0]), "tgt": str(files[1])}
        fit(tuned.path, data, work / "again", f"train.max_updates={options.updates}", "train.precision=bf16")
    search = RunDirectory(work / "again").read_config()[0].decode
    before, after = (bleu(work / name, texts, references, search) for name in ("again", "tuned"))
    print(f"BLEU on {len(texts)} sentences: {before:.1f} before, {after:.1f} after {options.pairs} pairs")
    counters = read_json(checkpoints(tuned.latest)[-1] / "state.json")["counters"]
    return {"pairs": options.pairs, "updates": counters["update"], "clock_minutes": counters["elapsed_s"] / 60,
            "sentences": len(texts), "bleu_before": before, "bleu_after": after}  # fmt: skip


if __name__ == "__main__":
    main()
