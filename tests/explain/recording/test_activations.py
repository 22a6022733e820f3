"""Activations in files are those of the passes, and texts are read as they are needed."""

from collections.abc import Iterator

import pytest
import torch
from safetensors.torch import load_file

from glassformer import Translator
from glassformer.errors import StorageError
from glassformer.explain import record_pass, save_activations

TEXTS = ["I love you.", "She has two dogs.", "I am hungry."]
TAP = "encoder.layers.?.output"


def test_each_file_has_what_its_sentences_have(tmp_path) -> None:
    translator, taken = Translator.load(), []

    def texts() -> Iterator[str]:
        for text in TEXTS:
            taken.append(text)
            yield text

    written = save_activations(translator, texts(), TAP, tmp_path / "new", per_file=2)
    first = next(written)
    assert taken == TEXTS[:2]
    files = [first, *written]
    assert [file.name for file in files] == ["00000.safetensors", "00001.safetensors"]
    for file, chunk in zip(files, (TEXTS[:2], TEXTS[2:]), strict=True):
        tensors = load_file(file)
        assert len(tensors["src_ids"]) == len(chunk)
        for row, text in enumerate(chunk):  # each sentence alone, without padding
            src_ids = torch.tensor([[*translator.src_tokenizer.to_ids(text), translator.model.config.eos_id]])
            trace = record_pass(translator.model, src_ids, tensors["tgt_in_ids"][row : row + 1])
            for address in tensors.keys() - {"src_ids", "tgt_in_ids"}:
                found = tensors[address][row, : src_ids.shape[1]]
                torch.testing.assert_close(found, trace[address][0], rtol=1e-4, atol=1e-4)
    with pytest.raises(StorageError, match="has files of activations"):
        next(save_activations(translator, TEXTS, TAP, tmp_path / "new"))
