"""Two runs, checkpoints or models, or one in two ways, compared over sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jaxtyping import Int
from torch import Tensor

from glassformer.bundled import find_run
from glassformer.decoding import Translator
from glassformer.errors import ConfigError, TokenizerError
from glassformer.explain.compare.align import PositionTokens
from glassformer.explain.compare.compare import compare, diff_traces
from glassformer.explain.compare.conversion import ConversionDifference, diff_conversion
from glassformer.explain.compare.difference import Difference
from glassformer.explain.compare.passes import Mode, fused_copy, run_pass, usual_tolerance
from glassformer.explain.compare.production import Sides, loss_sides, search_sides
from glassformer.explain.recording.sentence_batch import read_sentences
from glassformer.interop.programs import find_program
from glassformer.model import Transformer
from glassformer.run_directory import LoadedRun, load_run
from glassformer.settings import RunConfig
from glassformer.trace import Trace

Ways = tuple[Mode, Mode]
_PLAIN: Ways = (Mode.PLAIN, Mode.PLAIN)


@dataclass(frozen=True, eq=False)
class ModelPass:
    """One of two passes to compare: the model, how it runs, and a name."""

    model: Transformer
    way: Mode = Mode.PLAIN
    name: str = ""


def diff_sides(
    first: ModelPass,
    second: ModelPass,
    src_ids: Int[Tensor, "batch src"],
    tgt_in_ids: Int[Tensor, "batch tgt"],
    tolerance: float | None = None,
    *,
    labels: Mapping[str, Sequence[Sequence[str]]] | None = None,
    config: RunConfig | None = None,
) -> Difference:
    """Run both passes over the same padded ids and compare them without the padding.

    ``labels`` are those of ``PositionTokens``; by ``config``, ``translated`` searches and ``packed`` trains.
    """
    pad_id = first.model.config.pad_id
    real = {"src": src_ids.cpu() != pad_id, "tgt": tgt_in_ids.cpu() != pad_id}
    taps = [run_pass(side.way, side.model, src_ids, tgt_in_ids) for side in (first, second)]
    wanted = usual_tolerance(first.way, second.way) if tolerance is None else tolerance
    names = first.name or str(first.way), second.name or str(second.way)
    found = compare(taps[0], taps[1], wanted, PositionTokens(real, labels or {}), names)
    used = _production(first, second, src_ids, tgt_in_ids, config or RunConfig())
    return replace(found, taps=(*found.taps, *compare(*used, wanted).taps)) if used else found


def _production(
    first: ModelPass, second: ModelPass, src_ids: Tensor, tgt_in_ids: Tensor, config: RunConfig
) -> Sides | None:
    """The outputs of translating, or the loss of training, against a plain pass."""
    ways = {first.way: first.model, second.way: second.model}
    if Mode.PLAIN not in ways or not ways.keys() & {Mode.TRANSLATED, Mode.PACKED, Mode.FUSED}:
        return None
    plain, pad_id = ways[Mode.PLAIN], first.model.config.pad_id
    sources, read = ([row[row != pad_id].tolist() for row in ids] for ids in (src_ids, tgt_in_ids))
    targets = [[*ids[1:], plain.config.eos_id] for ids in read]
    if Mode.TRANSLATED in ways:
        longest = max(map(len, targets))
        sides = search_sides(plain, ways[Mode.TRANSLATED], sources, config.decode, longest).sides
    else:
        used = ways[Mode.PACKED] if Mode.PACKED in ways else fused_copy(ways[Mode.FUSED])
        sides = loss_sides(plain, used, sources, targets, config.train)
    return sides if first.way == Mode.PLAIN else sides[::-1]


def diff_places(
    first: Path,
    second: Path | None = None,
    sources: Sequence[str] = (),
    targets: Sequence[str] | None = None,
    *,
    ways: Ways = _PLAIN,
    tolerance: float | None = None,
    device: str = "auto",
) -> Difference | ConversionDifference:
    """What `glassformer diff` compares: two saved traces, two runs, one run in two ways, or a run and its conversion.

    Without ``targets`` both decode A's translations. ``ConfigError`` or ``TokenizerError`` if that is impossible.
    """
    first, second = find_run(first), None if second is None else find_run(second)
    if second is not None and (find_program(first) or find_program(second)):
        if ways != _PLAIN or tolerance is not None:
            raise ConfigError("diff: found a model of another program, to which no way and no tolerance applies.")
        return diff_conversion(first, second, sources, targets, device)
    saved = [place for place in (first, second) if place is not None and (place / "trace.json").is_file()]
    if len(saved) == 2 and (sources or targets or ways != _PLAIN):
        raise ConfigError("diff: found two saved traces, to which no text and no way applies. Leave these out.")
    if saved:
        if len(saved) < 2:
            raise ConfigError(f"diff: found {saved[0]}, a saved trace, expected two saved traces, or two runs.")
        found = diff_traces(Trace.load(saved[0]), Trace.load(saved[1]), tolerance or 0.0)
        return replace(found, names=(str(saved[0]), str(saved[1])))
    if second is None and ways[0] == ways[1]:
        raise ConfigError(
            f"diff: found {first}, {ways[0]}, on both sides, expected two things to compare. "
            f"Name another run, or another way: {', '.join(way for way in Mode if way != ways[0])}."
        )
    if not sources:
        raise ConfigError("diff: found no text, expected at least one sentence to compare on. Give --text.")
    left = load_run(first, device)
    right = left if second is None else load_run(second, device)
    _check_tokenizers(left, right)
    translator = Translator(left.model, left.src_tokenizer, left.tgt_tokenizer, left.config.decode)
    sentences = read_sentences(translator, sources, targets)
    names = ("", "") if second is None else (_name(first, ways[0]), _name(second, ways[1]))
    return diff_sides(
        ModelPass(left.model, ways[0], names[0]),
        ModelPass(right.model, ways[1], names[1]),
        sentences.batch.src_ids,
        sentences.batch.tgt_in_ids,
        tolerance,
        labels={"src": sentences.src_tokens, "tgt": sentences.tgt_in_tokens, "vocab": (sentences.vocab,)},
        config=left.config,
    )


def _name(place: Path, way: Mode) -> str:
    return str(place) if way == Mode.PLAIN else f"{place}, {way}"


def _check_tokenizers(left: LoadedRun, right: LoadedRun) -> None:
    for side in ("src", "tgt"):
        first, second = (getattr(run, f"{side}_tokenizer") for run in (left, right))
        if first.digest != second.digest:
            raise TokenizerError(
                f"diff: {left.checkpoint} and {right.checkpoint} have different {side} tokenizers (of {first.size} "
                f"and {second.size} entries), so their ids mean different tokens and no tap can be compared. "
                "Compare runs that were trained with the same tokenizers."
            )
