"""Students learn what their teacher writes, start from its weights, and are ordinary runs."""

import json
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from kill import fork
from recorded import Lines

from glassformer.bundled import BUNDLED
from glassformer.checkpoint import checkpoints, read_tensors
from glassformer.decoding.translator import Translator
from glassformer.errors import ConfigError, RunError
from glassformer.model.transformer import Transformer
from glassformer.run_directory import RunDirectory, load_run
from glassformer.settings import ModelConfig, RunConfig
from glassformer.text import Pair, read_pairs
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import FileSource, TaskSource
from glassformer.training.teachers import teacher as module
from glassformer.training.teachers.distill import (
    STUDENT_RATE,
    DistilledSource,
    Student,
    distill,
    recorded_source,
    teacher_layers,
)
from glassformer.training.teachers.teacher import Teacher
from glassformer.training.train import Outcome, train

Corpus = tuple[Path, Path]
SHORT = ["train.max_updates=6", "train.validate_every=3", "train.batch_tokens=512"]


def distil(run: Path, teacher: Path, *overrides: str, lines: Lines | None = None, **changes: object) -> Outcome:
    """Distil as the command does."""
    student = Student.load(teacher)
    options = {"decoder_layers": 1, "encoder_layers": None, **changes}
    text = options.pop("text", None)
    config = student.config(overrides=[*SHORT, *overrides], **options)
    writer = Teacher(teacher, student.run.config.decode)
    return distill(run, writer, student, config, lines or Lines(), text=text)


def translations_of(run: Path) -> list[str]:
    (file,) = (run / "distilled").glob("translations-*.jsonl")
    return [json.loads(line)[1] for line in file.read_text().splitlines()]


def final_bytes(run: Path) -> bytes:
    return (checkpoints(run / "final")[-1] / "model.safetensors").read_bytes()


def test_a_student_learns_each_source_once_with_the_translation_of_its_teacher(trained: Path, tmp_path: Path) -> None:
    source = DistilledSource(
        recorded_source(trained), Teacher(trained, load_run(trained).config.decode), tmp_path / "s", Lines()
    )
    learned, aside = list(source.pairs()), list(source.valid() or ())
    validated = [
        Pair(*json.loads(line)) for line in (trained / "text/valid.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert aside == validated
    own = recorded_source(trained).pairs()
    sources = list(dict.fromkeys(pair.src for pair in own if pair.src not in {pair.src for pair in validated}))
    with Translator.load(trained) as teacher:
        outputs = [module._complete_text(one) for one in teacher.translate(sources)]
    assert learned == [Pair(*both) for both in zip(sources, outputs, strict=True) if both[1]]
    assert translations_of(trained) == outputs


@pytest.mark.parametrize("damage", ["missing line", "other letter", "no JSON", "earlier form"])
def test_from_a_damaged_line_on_all_is_translated_again(damage: str, trained: Path, tmp_path: Path) -> None:
    def learned(lines: Lines) -> list[Pair]:
        writer = Teacher(trained, load_run(trained).config.decode)
        return list(DistilledSource(recorded_source(trained), writer, tmp_path / "s", lines).pairs())

    expected = learned(Lines())
    (file,) = (trained / "distilled").glob("translations-*.jsonl")
    whole = file.read_text()
    lines = whole.splitlines()
    lines[9] = {"missing line": lines[10], "other letter": lines[9].replace('", "', '", "x'), "no JSON": "[",
                "earlier form": json.dumps(json.loads(lines[9])[1])}[damage]  # fmt: skip
    file.write_text("\n".join(lines) + "\n")
    said = Lines()
    assert learned(said) == expected
    assert any(line.startswith(f"{file}:10: is damaged") for line in said.lines)
    assert file.read_text() == whole


def test_translations_that_were_cut_are_counted(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(Teacher, "translate", lambda self, texts, file, display: ["", *texts[1:]])
    lines, writer = Lines(), Teacher(trained, load_run(trained).config.decode)
    pairs = list(DistilledSource(recorded_source(trained), writer, tmp_path / "s", lines).pairs())
    assert any(line.startswith(f"1 of {len(pairs) + 1} translations are empty or were cut") for line in lines.lines)


@pytest.mark.slow
def test_the_result_is_an_ordinary_run_that_can_teach_in_turn(trained: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in trained.rglob("*.json")}
    outcome = distil(tmp_path / "student", trained)
    assert outcome.final is not None
    run = load_run(tmp_path / "student")
    assert run.config.model.n_decoder_layers == 1
    assert run.config.train.peak_rate == STUDENT_RATE["peak_rate"]
    assert run.src_tokenizer.digest == load_run(trained).src_tokenizer.digest
    with Translator.load(tmp_path / "student") as translator:
        assert translator.translate(["abc"])[0].text is not None
    assert before == {path: path.read_bytes() for path in before}
    distil(tmp_path / "grandchild", tmp_path / "student")
    _, data = RunDirectory(tmp_path / "grandchild").read_config()
    assert data["text"]["files"] == RunDirectory(trained).read_config()[1]["files"]
    assert data["teacher"] == str(tmp_path / "student")


@pytest.mark.slow
def test_two_students_share_what_the_teacher_wrote(trained: Path, tmp_path: Path) -> None:
    first, second = Lines(), Lines()
    distil(tmp_path / "one", trained, lines=first)
    distil(tmp_path / "two", trained, "model.d_ff=20", lines=second)
    assert [sum("translates" in line for line in lines.lines) for lines in (first, second)] == [1, 0]


@pytest.mark.slow
def test_a_teacher_that_must_not_be_written_leaves_its_translations_with_the_student(tmp_path, monkeypatch):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"I have {number} cats.\tIch habe {number} Katzen.\n" for number in range(30)))
    monkeypatch.setattr(Teacher, "translate", lambda self, texts, file, display: [f"{file.parent}"] * len(texts))
    text = FileSource(pairs)
    source = DistilledSource(text, Teacher(BUNDLED, load_run(BUNDLED).config.decode), tmp_path / "s", Lines())
    assert {pair.tgt for pair in source.pairs()} == {str(tmp_path / "s/distilled")}


def layered(teacher: Transformer, student: ModelConfig) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    run = replace(load_run(BUNDLED, "cpu"), model=teacher, config=RunConfig(model=teacher.config))
    model = Transformer(student)
    drawn = {name: weight.clone() for name, weight in model.state_dict().items()}
    Student(run).initialise(model)
    return model.state_dict(), drawn


def test_it_starts_from_the_teachers_weights_where_shapes_allow() -> None:
    torch.manual_seed(3)
    sizes = {"src_vocab": 13, "tgt_vocab": 13, "d_model": 8, "n_heads": 2, "d_ff": 11, "dropout": 0.0}
    teacher = Transformer(ModelConfig(**sizes, n_encoder_layers=3, n_decoder_layers=2))
    config = ModelConfig(**{**sizes, "d_ff": 7}, n_encoder_layers=2, n_decoder_layers=3)
    found, drawn = layered(teacher, config)
    theirs = teacher.state_dict()
    pairs = {"encoder.layers.1.": "encoder.layers.2.", "encoder.layers.0.": "encoder.layers.0.",
             "decoder.layers.1.": "decoder.layers.1.", "src_embedding": "src_embedding"}  # fmt: skip
    seen = 0
    for name, weight in found.items():
        if name.startswith("decoder.layers.2.") or "feed_forward.w_1" in name or "feed_forward.w_2.weight" in name:
            assert torch.equal(weight, drawn[name]), name
        for ours, origin in pairs.items():
            if name.startswith(ours) and "feed_forward" not in name:
                assert torch.equal(weight, theirs[name.replace(ours, origin)]), name
                seen += 1
    assert seen > 20


@pytest.mark.parametrize(
    ("student", "teacher", "layers"),
    [(1, 6, [0]), (3, 12, [0, 6, 11]), (4, 4, [0, 1, 2, 3]), (3, 2, [0, 1]), (1, 1, [0])],
)
def test_layers_are_taken_evenly_from_the_first_to_the_last(student: int, teacher: int, layers: list[int]) -> None:
    found = teacher_layers(
        ModelConfig(n_encoder_layers=student, n_decoder_layers=1),
        ModelConfig(n_encoder_layers=teacher, n_decoder_layers=3),
    )
    assert found == {"encoder": layers, "decoder": [0]}


def test_an_equal_student_starts_where_its_teacher_ended(trained: Path, tmp_path: Path) -> None:
    distil(tmp_path / "student", trained)
    (start,) = (path for path in checkpoints(tmp_path / "student/history") if path.name == "update-00000000")
    theirs = load_run(trained, "cpu").model.state_dict()
    for name, weight in read_tensors(start, "model").items():
        torch.testing.assert_close(weight, theirs[name], rtol=0, atol=0)


def test_recorded_texts_are_found_again_or_the_error_says_what_to_name(corpus, trained, tmp_path):
    run = RunDirectory(trained)
    config, data = run.read_config()
    for source in (FileSource(*corpus), FileSource(*corpus, *corpus), FileSource(*corpus, turned=True)):
        run.write_config(config, {**source.to_mapping(), "fingerprint": source.fingerprint()})
        assert recorded_source(trained) == source
    run.write_config(config, {"task": "dates"})
    assert isinstance(recorded_source(trained), TaskSource)
    copies = FileSource(*(Path(shutil.copy(side, tmp_path)) for side in corpus))
    run.write_config(config, {**copies.to_mapping(), "fingerprint": copies.fingerprint()})
    copies.src.write_text("another\n")
    with pytest.raises(RunError, match=r"which has changed since. Name the text"):
        recorded_source(trained)
    copies.src.unlink()
    with pytest.raises(RunError, match=r"corpus.src, which is not there now. Name the text to distil with: PAIRS"):
        recorded_source(trained)
    with pytest.raises(RunError, match=r"does not say which text it was trained on. Name the text"):
        recorded_source(BUNDLED)
    assert data["files"].keys() == {"src", "tgt"}


def test_what_cannot_be_is_refused_before_anything_is_translated(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(Teacher, "translate", None)
    with pytest.raises(ConfigError, match=r"text.joint: found False, expected True, which the teacher's tokenizers"):
        distil(tmp_path / "s", trained, "text.joint=false", "model.tie_embeddings=target")
    with pytest.raises(ConfigError, match=r"--run: found .*, the teacher's own run, expected another directory"):
        distil(trained, trained)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter.txt").write_text("dear")
    with pytest.raises(RunError, match=r"holds 'letter.txt', which no training wrote"):
        distil(tmp_path / "mine", trained)
    assert not (trained / "distilled").exists()


@pytest.mark.slow
def test_a_student_with_other_settings_or_another_teacher_is_not_continued(corpus, small_config, trained, tmp_path):
    distil(tmp_path / "student", trained)
    with pytest.raises(RunError, match=r"model.n_encoder_layers: 1, now 2"):
        distil(tmp_path / "student", trained, encoder_layers=2)
    student = Student.load(trained)
    config = student.config(overrides=SHORT, decoder_layers=1, encoder_layers=None)
    writer = Teacher(trained, student.run.config.decode.with_changes({"beam": 2}))
    with pytest.raises(RunError, match=r"other settings \(beam: 4, now 2\)"):
        distill(tmp_path / "student", writer, student, config, Lines())
    train(TrainRequest(tmp_path / "other", FileSource(*corpus), small_config(seed=2)), Lines())
    with pytest.raises(RunError, match=r"train.seed: 1, now 2; the teacher is another"):
        distil(tmp_path / "student", tmp_path / "other")


def kill_while_translating(run: Path, teacher: Path, chunks: int) -> int:
    """The status of a process that is killed after so many chunks."""

    def work() -> None:
        def on_prepare(self: Lines, progress: object, *, due: bool) -> None:
            nonlocal chunks
            chunks -= "translated" in str(progress)
            if chunks < 0:
                os.kill(os.getpid(), signal.SIGKILL)

        Lines.on_prepare = on_prepare  # type: ignore[method-assign]  # in the child only
        distil(run, teacher)

    return fork(work)


def kill_while_training(run: Path, teacher: Path, update: int) -> int:
    def work() -> None:
        def on_update(self: Lines, progress: object, *, due: bool) -> None:
            if progress.update == update:
                os.kill(os.getpid(), signal.SIGKILL)

        Lines.on_update = on_update  # type: ignore[method-assign]  # in the child only
        distil(run, teacher)

    return fork(work)


@pytest.mark.slow
def test_killed_and_continued_gives_the_same_student(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_TEXTS_PER_CHUNK", 50)
    other = shutil.copytree(trained, tmp_path / "again")
    distil(tmp_path / "whole", trained)
    assert kill_while_translating(tmp_path / "student", other, 3) == signal.SIGKILL
    assert kill_while_training(tmp_path / "student", other, 5) == signal.SIGKILL
    distil(tmp_path / "student", other)
    assert translations_of(other) == translations_of(trained)
    assert final_bytes(tmp_path / "student") == final_bytes(tmp_path / "whole")


@pytest.mark.slow
def test_it_learns_from_a_text_that_is_named(trained: Path, tmp_path: Path) -> None:
    pairs = tmp_path / "new.tsv"
    pairs.write_text("".join(f"{'ab' * number}\t{'ba' * number}\n" for number in range(1, 7)) + "fed\tdef\n" * 5)
    distil(tmp_path / "student", trained, text=FileSource(pairs))
    _, data = RunDirectory(tmp_path / "student").read_config()
    assert data["text"]["files"] == {"src": str(pairs)}
    assert len(translations_of(trained)) + len(
        (tmp_path / "student/text/valid.jsonl").read_text().splitlines()
    ) == len(set(read_pairs(pairs)))
