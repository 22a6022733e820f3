"""BPE-dropout in training: other tokens in each epoch, the same ones after a stop, all merges in validation."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from glassformer.settings import RunConfig
from glassformer.text.corpus import batches
from glassformer.text.corpus.corpus import Pair
from glassformer.text.corpus.prepare import PreparedText, prepare
from glassformer.training.request.data import BatchStream, BpeDropoutSampler, FileSource


@pytest.fixture
def config(small_config: Callable[..., RunConfig]) -> RunConfig:
    made = small_config(batch_tokens=256)
    return replace(made, text=replace(made.text, tokenizer="bpe", vocab_size=300, bpe_dropout=0.3))


@pytest.fixture
def text(corpus: tuple[Path, Path], config: RunConfig, tmp_path: Path) -> PreparedText:
    source = FileSource(*corpus)
    return prepare(source.pairs, None, config.text, tmp_path / "text", source="s", report=lambda _: None)


def epoch_of(stream: BatchStream, text: PreparedText) -> Iterator[tuple[Pair, list[int]]]:
    """The pairs of the epoch and the ids of each source."""
    epoch = stream.epoch
    while (batch := stream.next()) and stream.epoch == epoch:
        for src, tgt in zip(batch.src_ids.tolist(), batch.tgt_out_ids.tolist(), strict=True):
            yield Pair(text.src_tokenizer.to_text(src), text.tgt_tokenizer.to_text(tgt)), src


@pytest.mark.parametrize("pairs_in_window", [2**20, 90])
def test_each_epoch_has_all_pairs_with_other_tokens(text, config, pairs_in_window, monkeypatch):
    monkeypatch.setattr(batches, "PAIRS_IN_WINDOW", pairs_in_window)
    monkeypatch.setattr(batches, "PAIRS_IN_BLOCK", 8)
    sampler = BpeDropoutSampler.from_config(config, text)
    first, second = (
        list(epoch_of(BatchStream(text.train, config.train, n, 0, bpe_dropout=sampler), text)) for n in (1, 2)
    )
    plain = [text.train.src_side.ids(n).tolist() for n in range(len(text.train))]
    expected = sorted(text.src_tokenizer.to_text(ids) for ids in plain)
    for epoch in (first, second):
        assert sorted(pair.src for pair, _ in epoch) == expected
        assert all(pair.src == pair.tgt[::-1] for pair, _ in epoch)
    tokens = [{pair: [n for n in ids if n] for pair, ids in epoch} for epoch in (first, second)]
    assert sum(tokens[0][pair] != tokens[1][pair] for pair in tokens[0]) > 100


def test_batches_of_sampled_tokens_stay_within_the_budget(text: PreparedText, config: RunConfig) -> None:
    stream = BatchStream(text.train, config.train, 1, 0, bpe_dropout=BpeDropoutSampler.from_config(config, text))
    for _ in range(len(stream)):
        batch = stream.next()
        assert len(batch.src_ids) * max(batch.src_ids.shape[1], batch.tgt_out_ids.shape[1]) <= 256
    assert stream.epoch == 1


def test_the_same_batches_follow_from_any_position(text: PreparedText, config: RunConfig) -> None:
    whole = BatchStream(text.train, config.train, 1, 0, bpe_dropout=BpeDropoutSampler.from_config(config, text))
    batches = [whole.next().src_ids for _ in range(len(whole) + 5)]
    resumed = BatchStream(text.train, config.train, 1, 7, bpe_dropout=BpeDropoutSampler.from_config(config, text))
    assert all(torch.equal(resumed.next().src_ids, batch) for batch in batches[7:])
