"""One step of the decoder in twelve lines: what it read, where it looked, what it wrote."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from torch import Tensor

from glassformer.errors import InputError, check_type
from glassformer.explain.plain import clip_text
from glassformer.explain.recording.walk_data import WalkData

_SHOWN, _TOKEN_WIDTH = 3, 8


def narrate_step(walk: WalkData, position: int, *, sentence: int = 0) -> list[tuple[str, str]]:
    """What happened while the decoder chose the token at ``position``, from 0: pairs of a place and a sentence.

    ``walk`` is a whole forced walk, as ``glassformer.explain.walk`` makes it. Of the decoder's layers the first and
    the last are described, three lines each: twelve lines in all, nine for a decoder of one layer.
    """
    check_type("walk", walk, WalkData, "a walk, as glassformer.explain.walk makes it")
    for name, number, count in (
        ("sentence", sentence, len(walk.sentences.sources)),
        ("position", position, walk.sentences.batch.tgt_in_ids.shape[1]),
    ):
        if not isinstance(number, int) or not 0 <= number < count:
            raise InputError(f"{name}: found {number!r:.40}, expected a number from 0 to {count - 1}.")
    layers = sorted({0, walk.config.n_decoder_layers - 1})
    told = [_encoder(walk, sentence), *_embedding(walk, sentence, position)]
    for layer in layers:
        told += _layer(walk, layer, sentence, position)
    return [*told, *_choice(walk, sentence, position)]


def _encoder(walk: WalkData, sentence: int) -> tuple[str, str]:
    tokens = int((walk.sentences.batch.src_ids[sentence] != walk.config.pad_id).sum())
    return "encoder", f"{tokens} source tokens are now {tokens} vectors of {walk.config.d_model} numbers: the memory"


def _embedding(walk: WalkData, sentence: int, position: int) -> Iterator[tuple[str, str]]:
    token = clip_text(walk.sentences.tgt_in_tokens[sentence][position], _TOKEN_WIDTH)
    row = int(walk.sentences.batch.tgt_in_ids[sentence, position])
    times = f", times √{walk.config.d_model}" if walk.config.scale_embedding else ""
    yield "embedding", f"it reads {token}: row {row:,} of the matrix{times}"
    if "tgt_embedding.position_vectors" in walk.trace:
        yield "position", f"plus the {walk.config.positions} vector of position {position}"
    else:
        tells = "attention scores tell" if walk.config.autoregressive_sublayer == "self_attention" else "SSRU tells"
        yield "position", f"{walk.config.positions}: no vector is added, the {tells} positions apart"


def _layer(walk: WalkData, layer: int, sentence: int, position: int) -> Iterator[tuple[str, str]]:
    """Where the layer's heads look on average, and how many neurons are active."""
    place = f"decoder.layers.{layer}"
    kinds = [("cross", "cross_attention", walk.sentences.src_tokens)]
    if walk.config.autoregressive_sublayer == "self_attention":
        kinds.insert(0, ("self", "self_attention", walk.sentences.tgt_in_tokens))
    else:
        kept = float(walk.trace[f"{place}.ssru.forget_gate"][sentence, position].mean())
        yield f"layer {layer} ssru", f"keeps {kept:.0%} of its cell, the rest comes from this position"
    for short, name, tokens in kinds:
        weights = walk.trace[f"{place}.{name}.weights"][sentence, :, position].mean(dim=0)
        looks = _largest(weights[: len(tokens[sentence])], tokens[sentence], "{:.2f}".format)
        yield f"layer {layer} {short}", f"looks at {looks}"
    neurons = walk.trace[f"{place}.feed_forward.activated"][sentence, position]
    active = int((neurons > 0).sum())
    strongest = int(neurons.argmax())
    yield (
        f"layer {layer} neurons",
        f"{active} of {len(neurons)} are above zero; the largest is number {strongest}: {neurons[strongest]:.2f}",
    )


def _choice(walk: WalkData, sentence: int, position: int) -> Iterator[tuple[str, str]]:
    vector = walk.trace["decoder.output"][sentence, position].double()
    logits = walk.trace["output_projection.logits"][sentence, position]
    probabilities = walk.trace["output_projection.probabilities"][sentence, position]
    vocab = walk.sentences.vocab
    yield "decoder output", f"a vector of {len(vector)} numbers, of length {float(vector.norm()):.2f}"
    yield "logits", f"of {len(vocab):,}: {_largest(logits, vocab, '{:.2f}'.format)}"
    yield "softmax", _largest(probabilities, vocab, "{:.1%}".format)


def _largest(values: Tensor, tokens: Sequence[str], text: Callable[[float], str]) -> str:
    """The largest values with their tokens."""
    best = values.double().topk(min(_SHOWN, len(values)))
    found: Iterable[tuple[float, int]] = zip(best.values.tolist(), best.indices.tolist(), strict=True)
    return "  ".join(
        f"{clip_text(tokens[index], _TOKEN_WIDTH)} {text(value)}" for value, index in found if math.isfinite(value)
    )
