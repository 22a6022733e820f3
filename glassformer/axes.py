"""The legend of axes: the words with which every tap names its tensor's axes."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One axis word: its symbol, and the attribute of ``ModelConfig`` with its size."""

    meaning: str
    symbol: str
    size: str = ""


LEGEND: dict[str, Axis] = {
    "batch": Axis(meaning="sentences processed together", symbol="nbatches"),
    "character": Axis(meaning="characters of a text, padding included", symbol="n_char"),
    "src": Axis(meaning="source positions, padding included", symbol="n_seq_src"),
    "tgt": Axis(meaning="target positions, padding included", symbol="n_seq_tgt"),
    "position": Axis(meaning="positions of the side that the module works on", symbol="n_seq"),
    "query": Axis(meaning="positions that attend", symbol="n_seq_q"),
    "key": Axis(meaning="positions that are attended to", symbol="n_seq_k"),
    "heads": Axis(meaning="attention heads", symbol="h", size="n_heads"),
    "one": Axis(meaning="a single entry, broadcast over the axis next to it", symbol="1"),
    "d_model": Axis(meaning="width of a token's vector", symbol="d_model", size="d_model"),
    "d_ff": Axis(meaning="inner width of the feed-forward network", symbol="d_ff", size="d_ff"),
    "d_k": Axis(meaning="width of a query or key in one head", symbol="d_k", size="d_k"),
    "d_v": Axis(meaning="width of a value in one head", symbol="d_v", size="d_v"),
    "heads_d_k": Axis(meaning="queries or keys of all heads side by side", symbol="h·d_k", size="heads_d_k"),
    "heads_d_v": Axis(meaning="values of all heads side by side", symbol="h·d_v", size="heads_d_v"),
    "beam": Axis(meaning="unfinished hypotheses of a sentence, best first", symbol="beam"),
    "n_best": Axis(meaning="finished hypotheses of a sentence, best first", symbol="n_best"),
    "candidate": Axis(meaning="continuations that a search considers, best first", symbol="2·beam"),
    "phrase": Axis(meaning="sequences that an output must, or must not, contain", symbol="phrase"),
    "row": Axis(meaning="rows of a weight: outputs of a linear map, entries of a table", symbol="row"),
    "column": Axis(meaning="columns of a weight: inputs of a linear map, widths of a table", symbol="column"),
    "vocab": Axis(meaning="entries of the target vocabulary", symbol="vocab", size="tgt_vocab"),
}
