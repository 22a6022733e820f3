"""More pairs of the same text: a teacher of each direction translates one side of it, and all is learned together.

"Data Diversification" of Nguyen et al. 2020, arXiv 1911.01986, with one teacher of each direction and one round.
With a forward teacher alone it is sequence-level distillation (Kim and Rush 2016, arXiv 1606.07947) beside the text
itself; with a backward one alone, back-translation (Sennrich et al. 2016, arXiv 1511.06709) of its own targets.

    DIR/teachers/forward/     a run directory, trained on sources and targets, and its translations of all sources
    DIR/teachers/backward/    the other way round
    DIR/teachers/train.src    what the seeds are trained on: the text's own pairs, the sources with the forward
    DIR/teachers/train.tgt    teacher's translations, the backward teacher's translations with the targets

Knows nothing of scores.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.decoding.translator import Translator
from glassformer.reproduction.kept import write_texts
from glassformer.reproduction.order import Order
from glassformer.text.corpus import Pair, read_pairs
from glassformer.text.lines import read_lines
from glassformer.training.progress import Display
from glassformer.training.request import TrainRequest
from glassformer.training.train import Outcome, train


@dataclass(frozen=True)
class Taught:
    """How each teacher's training ended, by its direction, and how many ``pairs`` the seeds are trained on."""

    teachers: dict[str, Outcome]
    pairs: int


def teach(order: Order, display: Display) -> Taught | Outcome:
    """Train the teachers and write what the seeds learn; the outcome of a training that a signal stopped.

    Called again, it goes on: what is trained or translated is not done again.
    """
    outcomes, translations = {}, {}
    for direction in order.teachers:
        request = order.teacher_request(direction)
        display.say(f"The {direction} teacher, in {request.run}.")
        outcome = train(request.run, request.source, request.config, display)
        if outcome.final is None:
            return outcome
        outcomes[direction] = outcome
        translations[direction] = _translations(order, request, direction, display)
    pairs = _all_pairs(list(read_pairs(order.texts["src"], order.texts["tgt"])), translations)
    for key, side in zip(("src", "tgt"), zip(*pairs, strict=True), strict=True):
        write_texts(order.taught()[key], side)
    display.say(f"{len(pairs):,} pairs to learn, with the teachers' own.")
    return Taught(outcomes, len(pairs))


def _translations(order: Order, request: TrainRequest, direction: str, display: Display) -> list[str]:
    """What the teacher makes of its own side of the text, line by line; read again where they are written already."""
    kept = request.run / "train.translations"
    own = order.texts["src" if direction == "forward" else "tgt"]
    if not kept.exists():
        texts = list(read_lines(own))
        display.say(f"It translates {own.name}, {len(texts):,} sentences.")
        with Translator.load(request.run, device=request.config.train.device) as translator:
            write_texts(kept, (one.text for one in translator.translate(texts, request.config.decode)))
    return list(read_lines(kept))


def _all_pairs(own: Sequence[Pair], translations: dict[str, list[str]]) -> list[Pair]:
    """The text's own pairs, then the teachers' without empty ones and without those that say the same again."""
    written = {"forward": "tgt", "backward": "src"}
    taught = [
        pair._replace(**{written[direction]: text})
        for direction, texts in translations.items()
        for pair, text in zip(own, texts, strict=True)
    ]
    known = set(own)
    return [*own, *(pair for pair in dict.fromkeys(taught) if pair not in known and not pair.blank)]
