"""Workers beside each other find what one process finds, and say so when one of them is gone."""

import os
import signal
from pathlib import Path

import pytest
import torch
from words import TEXTS as FEW

from glassformer.decoding import Translator
from glassformer.errors import ConfigError, WorkerError
from glassformer.settings import DecodeConfig

OPTIONS = DecodeConfig(beam=3, n_best=2, batch_tokens=24)
TEXTS = FEW * 3


@pytest.fixture(scope="module")
def pooled(make_model, tokenizer):
    model = make_model(vocab=14, seed=2, bias={2: 2.5, 3: -30.0})
    with Translator(model, tokenizer, tokenizer, OPTIONS, precision="float32", workers=2) as translator:
        yield translator


@pytest.mark.slow
def test_they_find_what_one_process_finds_in_the_order_of_the_texts(pooled, tokenizer):
    alone = Translator(pooled.model, tokenizer, tokenizer, OPTIONS)
    found = pooled.translate(TEXTS)
    expected = alone.translate(TEXTS)
    assert [[one.ids for one in each.hypotheses] for each in found] == [
        [one.ids for one in each.hypotheses] for each in expected
    ]
    assert [each.hypotheses[0].score for each in found] == pytest.approx(
        [each.hypotheses[0].score for each in expected], abs=1e-5
    )


@pytest.mark.slow
def test_a_worker_that_is_killed_is_told_of(make_model, tokenizer):
    with Translator(make_model(vocab=14), tokenizer, tokenizer, OPTIONS, workers=2) as translator:
        translator.translate(TEXTS)
        for process in list(translator._sentences.engine._executor._processes):
            os.kill(process, signal.SIGKILL)
        for _ in range(2):  # noticed while it works, and known beforehand
            with pytest.raises(WorkerError, match=r"workers: a worker process ended before its work did"):
                translator.translate(TEXTS)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"workers": 0}, "workers: found 0, expected a whole number from 1 to "),
        ({"workers": 10**30}, "workers: found 10{30}, expected a whole number from 1 to "),
        ({"precision": "int4"}, "precision: found 'int4'"),
    ],
)
def test_what_there_is_not_is_refused(make_model, tokenizer, given, message):
    with pytest.raises(ConfigError, match=message):
        Translator(make_model(vocab=14), tokenizer, tokenizer, OPTIONS, **given)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files in /proc")
def test_attention_that_comes_back_is_what_one_process_sees_and_keeps_no_file_open(pooled, tokenizer):
    def opened() -> int:
        return len(os.listdir("/proc/self/fd"))

    pooled.translate(TEXTS)
    before = opened()
    found = pooled.translate(TEXTS * 4, attention=True)
    assert opened() <= before + 4
    alone = Translator(pooled.model, tokenizer, tokenizer, OPTIONS).translate(TEXTS * 4, attention=True)
    for one, expected in zip(found, alone, strict=True):
        torch.testing.assert_close(one.hypotheses[0].attention, expected.hypotheses[0].attention)
