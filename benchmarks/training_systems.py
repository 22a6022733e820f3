"""The systems that ``training.py`` measures: for each a function that builds its training step.

All but Eole normalise after each sublayer, as in the paper. All share one matrix between both embeddings and the
output, and use label smoothing and a fused Adam. Each is built as its own documentation does it.
"""

import math
import random
from collections.abc import Callable, Iterable
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from marian_process import MarianTurns
from torch import Tensor, nn

from glassformer.model import Transformer
from glassformer.model.positions import angles
from glassformer.settings import ModelConfig, TrainConfig
from glassformer.text.corpus.batches import Batch, plan_batches
from glassformer.training.loop.cpu import keep_freed_memory
from glassformer.training.loop.distributed import make_strategy
from glassformer.training.loop.optimizer import adam_step, clip_gradients, new_optimizer
from glassformer.training.loop.update import backward_batches
from glassformer.training.objective.objective import autocast
from glassformer.world import ALONE

VOCAB, CELLS, PAIRS, BATCHES = 10_000, 1_850, 4_000, 12
CPU = torch.device("cpu")
# An update; returns the mean smoothed loss of the batch before it.
Step = Callable[[Batch], float | Tensor]


def batches_of(seed: int, cells: int = CELLS, pairs: int = PAIRS) -> list[Batch]:
    """Batches of sentences of similar length: sources of some 13 tokens, and targets about as long.

    A batch has at most ``cells`` positions of a side, padding counted.
    """
    draw = random.Random(seed)
    src = np.array([max(4, round(draw.gauss(13.4, 3.8))) for _ in range(pairs)])
    tgt = np.array([max(4, round(length + draw.gauss(0.4, 2.4))) for length in src])
    plan = plan_batches(src, tgt, cells, seed=seed, epoch=1, bucket=2)
    generator = torch.Generator().manual_seed(seed)
    return [_batch(src[places], tgt[places], generator) for places in plan if len(places) > 1][:BATCHES]


def _batch(src: Any, tgt: Any, generator: torch.Generator) -> Batch:
    def ids(lengths: Any) -> Tensor:
        made = torch.randint(3, VOCAB, (len(lengths), int(lengths.max())), generator=generator)
        return made.masked_fill(torch.arange(made.shape[1]) >= torch.from_numpy(lengths)[:, None], 0)

    tgt_in, tgt_out = ids(tgt), ids(tgt)
    return Batch(ids(src), tgt_in, tgt_out)


def config_of(size: str, dropout: float) -> ModelConfig:
    return getattr(ModelConfig, size)(  # type: ignore[no-any-return]
        src_vocab=VOCAB, tgt_vocab=VOCAB, tie_embeddings="all", norm="post", dropout=dropout, max_length=256
    )


def glassformer_step(
    config: ModelConfig, precision: str, device: torch.device = CPU, *, compiled: bool = False
) -> Step:
    """An update as ``glassformer train`` makes it, without gradient clipping."""
    keep_freed_memory()
    settings = TrainConfig(precision=precision, clip_norm=0.0, compile="on" if compiled else "off")
    strategy = make_strategy(ALONE, Transformer(config).train(), settings, device)
    optimizer = new_optimizer(strategy.model, settings)
    tokens: dict[int, int] = {}  # of each batch, counted once: a training counts them on the CPU

    def step(batch: Batch) -> float:
        count = tokens.setdefault(id(batch), batch.target_tokens)
        sums = backward_batches(strategy, [batch], count, settings)
        norm = clip_gradients(strategy.model, settings)
        loss, *_ = torch.cat([sums, norm[None]]).tolist()
        adam_step(strategy.model, optimizer, 1e-4)
        return float(loss) / count

    return step


class TorchTransformer(nn.Module):
    """nn.Transformer with a shared embedding, a table of sinusoids, and an output layer tied to the embedding."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d = config.d_model
        self.tokens = nn.Embedding(VOCAB, d, padding_idx=0)
        nn.init.normal_(self.tokens.weight, std=d**-0.5)
        angle = angles(config.max_length, d)
        self.register_buffer("table", torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1).float())
        self.dropout, self.scale = nn.Dropout(config.dropout), math.sqrt(d)
        self.body = nn.Transformer(
            d, config.n_heads, config.n_encoder_layers, config.n_decoder_layers, config.d_ff, config.dropout,
            batch_first=True,
        )  # fmt: skip

    def forward(self, src_ids: Tensor, tgt_in_ids: Tensor) -> Tensor:
        """Logits (batch tgt vocab)."""
        src, tgt = (self.dropout(self.tokens(ids) * self.scale + self.table[: ids.shape[1]])
                    for ids in (src_ids, tgt_in_ids))  # fmt: skip
        causal = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1], device=tgt.device, dtype=torch.bool)
        hidden = self.body(
            src, tgt, tgt_mask=causal, tgt_is_causal=True, src_key_padding_mask=src_ids == 0,
            memory_key_padding_mask=src_ids == 0,
        )  # fmt: skip
        return hidden @ self.tokens.weight.t()


def marian(config: ModelConfig) -> nn.Module:
    """MarianMT of the same sizes, with dropout where the paper has it."""
    from transformers import MarianConfig, MarianMTModel

    sizes = {"d_model": config.d_model, "max_position_embeddings": config.max_length, "vocab_size": VOCAB}
    for side in ("encoder", "decoder"):
        layers = config.n_encoder_layers if side == "encoder" else config.n_decoder_layers
        sizes |= {f"{side}_layers": layers, f"{side}_ffn_dim": config.d_ff, f"{side}_attention_heads": config.n_heads}
    settings = {"dropout": config.dropout, "attention_dropout": 0.0, "activation_dropout": 0.0}
    return MarianMTModel(
        MarianConfig(
            **sizes, **settings, activation_function="relu", scale_embedding=True, decoder_vocab_size=VOCAB,
            tie_word_embeddings=True, share_encoder_decoder_embeddings=True, pad_token_id=0, eos_token_id=2,
            decoder_start_token_id=1, forced_eos_token_id=None, use_cache=False,
        )
    )  # fmt: skip


def x_transformers(config: ModelConfig) -> nn.Module:
    """x-transformers' encoder-decoder of the same sizes; it drops out attention weights and inner activations."""
    from x_transformers import XTransformer

    sizes: dict[str, Any] = {}
    for side, layers in (("enc", config.n_encoder_layers), ("dec", config.n_decoder_layers)):
        sizes |= {
            f"{side}_num_tokens": VOCAB, f"{side}_max_seq_len": config.max_length, f"{side}_depth": layers,
            f"{side}_heads": config.n_heads, f"{side}_attn_dim_head": config.d_k, f"{side}_pre_norm": False,
            f"{side}_ff_mult": config.d_ff / config.d_model, f"{side}_emb_dropout": config.dropout,
            f"{side}_ff_dropout": config.dropout, f"{side}_attn_dropout": config.dropout,
        }  # fmt: skip
    model = XTransformer(dim=config.d_model, tie_token_emb=True, pad_value=0, **sizes)
    model.decoder.net.to_logits.weight = model.decoder.net.token_emb.emb.weight
    return model


def x_transformers_logits(model: nn.Module, batch: Batch) -> Tensor:
    mask = batch.src_ids != 0
    memory = model.encoder(batch.src_ids, mask=mask, return_embeddings=True)
    return model.decoder.net(batch.tgt_in_ids, context=memory, context_mask=mask)  # type: ignore[no-any-return]


class _JoeyVocabulary:
    """The part of a vocabulary that JoeyNMT's model uses."""

    pad_index, bos_index, eos_index, unk_index, sep_index, lang_tags, specials = 0, 1, 2, 3, None, (), ()

    def __len__(self) -> int:
        return VOCAB


def joeynmt_sizes(config: ModelConfig) -> dict[str, Any]:
    """The model section of JoeyNMT's configuration."""

    def half(layers: int) -> dict[str, Any]:
        return {
            "type": "transformer", "num_layers": layers, "num_heads": config.n_heads, "hidden_size": config.d_model,
            "ff_size": config.d_ff, "dropout": config.dropout, "layer_norm": "post",
            "embeddings": {"embedding_dim": config.d_model, "scale": True, "dropout": config.dropout},
        }  # fmt: skip

    return {
        "encoder": half(config.n_encoder_layers), "decoder": half(config.n_decoder_layers), "tied_embeddings": True,
        "tied_softmax": True, "initializer": "xavier_uniform", "embed_initializer": "xavier_uniform",
        "bias_initializer": "zeros",
    }  # fmt: skip


def joeynmt_step(config: ModelConfig, precision: str, device: torch.device = CPU) -> Step:
    """JoeyNMT's model with its own loss, which materialises the smoothed distribution."""
    from joeynmt.model import build_model

    vocabulary: Any = _JoeyVocabulary()
    model = build_model(joeynmt_sizes(config), src_vocab=vocabulary, trg_vocab=vocabulary).train().to(device)
    model.loss_function = ("crossentropy", 0.1)
    optimizer = _adam(model)

    def step(batch: Batch) -> Tensor:
        src_mask, trg_mask = (batch.src_ids != 0)[:, None], (batch.tgt_in_ids != 0)[:, None]
        with autocast(precision, device):
            loss, _, _, _ = model(
                return_type="loss", src=batch.src_ids, trg_input=batch.tgt_in_ids, trg=batch.tgt_out_ids,
                src_mask=src_mask, src_length=src_mask.sum(-1).flatten(), trg_mask=trg_mask,
            )  # fmt: skip
        return _descend(loss / batch.target_tokens, optimizer)

    return step


def _adam(model: nn.Module) -> torch.optim.Adam:
    return torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)


def _descend(loss: Tensor, optimizer: torch.optim.Adam) -> Tensor:
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.detach()


def peer_step(
    model: nn.Module, precision: str, device: torch.device, logits_of: Callable[[nn.Module, Batch], Tensor]
) -> Step:
    """The step of a module, with PyTorch's cross-entropy and fused Adam."""
    model.train().to(device)
    optimizer = _adam(model)

    def step(batch: Batch) -> Tensor:
        with autocast(precision, device):
            logits = logits_of(model, batch)
        loss = nn.functional.cross_entropy(
            logits.float().flatten(0, 1), batch.tgt_out_ids.flatten(), ignore_index=0, label_smoothing=0.1
        )
        return _descend(loss, optimizer)

    return step


def torch_step(config: ModelConfig, precision: str, device: torch.device = CPU) -> Step:
    return peer_step(TorchTransformer(config), precision, device, lambda m, b: m(b.src_ids, b.tgt_in_ids))


def marian_step(config: ModelConfig, precision: str, device: torch.device = CPU) -> Step:
    return peer_step(
        marian(config), precision, device,
        lambda m, b: m(input_ids=b.src_ids, attention_mask=(b.src_ids != 0).long(),
                       decoder_input_ids=b.tgt_in_ids).logits,
    )  # fmt: skip


def x_transformers_step(config: ModelConfig, precision: str, device: torch.device = CPU) -> Step:
    return peer_step(x_transformers(config), precision, device, x_transformers_logits)


def eole(config: ModelConfig) -> nn.Module:
    """Eole's model of the same sizes, with norms before each sublayer, the only order that its decoder supports."""
    from eole.config.models import TransformerModelConfig
    from eole.config.training import TrainingConfig
    from eole.constants import DefaultTokens
    from eole.models.model import EncoderDecoderModel

    sizes = TransformerModelConfig(
        encoder={"encoder_type": "transformer", "layers": config.n_encoder_layers},
        decoder={"decoder_type": "transformer", "layers": config.n_decoder_layers},
        hidden_size=config.d_model, heads=config.n_heads, transformer_ff=config.d_ff, mlp_activation_fn="relu",
        add_qkvbias=True, add_ffnbias=True, generator_bias=False,
        share_embeddings=True, share_decoder_embeddings=True,
        embeddings={"position_encoding_type": "SinusoidalInterleaved", "word_vec_size": config.d_model},
    )  # fmt: skip
    settings = TrainingConfig(dropout=[config.dropout], attention_dropout=[0.0], param_init_method="xavier_uniform")
    words = {DefaultTokens.PAD: 0, **{str(number): number for number in range(1, VOCAB)}}
    vocabularies = {"src": words, "tgt": words, "specials": {"pad_token": DefaultTokens.PAD}}
    model = EncoderDecoderModel.build_blocks(sizes, vocabularies, settings)
    model.build_generator(sizes, settings, vocabularies)
    model.init_weights(settings)
    return model  # type: ignore[no-any-return]


def eole_logits(model: nn.Module, batch: Batch) -> Tensor:
    """The logits (batch tgt vocab); Eole drops the last target position itself."""
    tgt = nn.functional.pad(batch.tgt_in_ids, (0, 1))
    return model.generator(model(batch.src_ids, tgt, None).dec_out)  # type: ignore[no-any-return]


def eole_step(config: ModelConfig, precision: str, device: torch.device = CPU) -> Step:
    return peer_step(eole(config), precision, device, eole_logits)


def marian_itself(config: ModelConfig, precision: str) -> MarianTurns:
    """``pymarian train``, which is no function of a batch."""
    return MarianTurns(config, batches_of(1))


# For each system: its name in tables, the module that it needs, and the function that builds its step.
SYSTEMS: dict[str, tuple[str, str, Callable[..., Any]]] = {
    "glassformer": ("glassformer", "glassformer", glassformer_step),
    "torch": ("nn.Transformer", "torch", torch_step),
    "hf": ("MarianMT", "transformers", marian_step),
    "x-transformers": ("x-transformers", "x_transformers", x_transformers_step),
    "joeynmt": ("JoeyNMT", "joeynmt", joeynmt_step),
    "eole": ("Eole", "eole", eole_step),
    "marian": ("Marian", "pymarian", marian_itself),
}


def missing() -> list[str]:
    """The systems whose module is not installed."""
    return [system for system, (_, module, _) in SYSTEMS.items() if find_spec(module) is None]


def versions(systems: Iterable[str]) -> dict[str, str]:
    """The version of each system's package, by the system's name in tables."""
    packages = {"x_transformers": "x-transformers"}
    return {SYSTEMS[name][0]: version(packages.get(SYSTEMS[name][1], SYSTEMS[name][1])) for name in systems}
