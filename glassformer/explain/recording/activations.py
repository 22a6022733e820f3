"""Activations of many sentences, written to files as they are computed."""

from collections.abc import Iterable, Iterator
from itertools import count, islice
from pathlib import Path

from safetensors.torch import save_file

from glassformer.decoding import Translator
from glassformer.errors import StorageError, check_path
from glassformer.explain.recording.recording import record_pass
from glassformer.explain.recording.sentence_batch import read_sentences
from glassformer.files import storage_errors


def save_activations(
    translator: Translator, texts: Iterable[str], only: str, directory: str | Path, *, per_file: int = 32
) -> Iterator[Path]:
    """Write what the taps ``only`` have for each text and its translation, ``per_file`` texts a file.

    Yields ``00000.safetensors`` and so on; each has a tensor for an address, and ``src_ids`` and ``tgt_in_ids``,
    padded. Only one file's texts are in memory. Raises ``StorageError`` for a directory with files of this kind.
    """
    place = check_path("directory", directory)
    with storage_errors(place):
        place.mkdir(parents=True, exist_ok=True)
    if any(place.glob("*.safetensors")):
        raise StorageError(f"{place}: has files of activations. Choose another directory, or remove them.")
    remaining = iter(texts)
    for number in count():
        chunk = list(islice(remaining, per_file))
        if not chunk:
            return
        batch = read_sentences(translator, chunk, None).batch
        trace = record_pass(translator.model, batch.src_ids, batch.tgt_in_ids, only)
        tensors = {step.address: step.value.contiguous() for step in trace}
        tensors |= {"src_ids": batch.src_ids, "tgt_in_ids": batch.tgt_in_ids}
        path = place / f"{number:05}.safetensors"
        with storage_errors(path):
            save_file(tensors, path)
        yield path
