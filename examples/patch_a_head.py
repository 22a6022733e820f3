"""Which head carries the word? Heads of one sentence are patched into another, one at a time.

    python examples/patch_a_head.py

The model reads *She has two dogs* and writes *Hunde*. Each head of each cross-attention in turn is given the output
that it has for *She has two cats*. The table says how far the logit of *Katzen* then rises over that of *Hunde*.
"""

import torch

from glassformer import Translator, tracing
from glassformer.explain import walk

DOGS, CATS = "She has two dogs.", "She has two cats."
TAP = "decoder.layers.{}.cross_attention.heads"  # batch heads query d_v


def main() -> None:
    translator = Translator.load()
    model, config = translator.model, translator.model.config
    dogs, cats = walk(translator, [DOGS]), walk(translator, [CATS])
    src_ids, tgt_in_ids = dogs.sentences.batch.src_ids, dogs.sentences.batch.tgt_in_ids
    step = 3  # having read "Sie hat zwei", it writes the noun
    hunde, katzen = (int(one.sentences.batch.tgt_out_ids[0, step]) for one in (dogs, cats))

    def lead(edits: dict) -> float:
        """The logit of Katzen less that of Hunde."""
        with torch.no_grad(), tracing(model, edits, only=""):
            logits = model(src_ids, tgt_in_ids)[0, step]
        return float(logits[katzen] - logits[hunde])

    print(f"{DOGS} -> {dogs.sentences.targets[0]}\n{CATS} -> {cats.sentences.targets[0]}\n")
    print("layer  head  Katzen gains")
    for layer in range(config.n_decoder_layers):
        address = TAP.format(layer)
        for head in range(config.n_heads):

            def patch(heads, head=head, other=cats.trace[address]):
                heads[:, head, step] = other[:, head, step]
                return heads

            gain = lead({address: patch}) - lead({})
            print(f"{layer:5}  {head:4}  {gain:12.2f}  {'█' * round(4 * max(gain, 0))}")


if __name__ == "__main__":
    main()
