"""Pictures of attention: all heads in a notebook, and one step as a matplotlib figure."""

import base64
import re
from io import BytesIO

import matplotlib.image
import pytest
import torch
from three_sentences import SOURCES

from glassformer.errors import TraceError
from glassformer.trace.heat_maps import Heads, heads_html, reads_and_writes

CROSS = "decoder.layers.1.cross_attention.weights"


def test_a_notebook_shows_every_head_of_every_layer_side_by_side(walked):
    text = walked._repr_html_()
    config = walked.config
    for layer in range(config.n_decoder_layers):
        for head in range(config.n_heads):
            title = f"<title>decoder.layers.{layer}.cross_attention, head {head}</title>"
            assert text.count(title) == 2  # small, large
    assert text.count("<svg") == 2 * config.n_heads * (config.n_encoder_layers + 2 * config.n_decoder_layers)


def test_traces_and_rows_of_cross_attention_say_what_is_read_and_written(walked, translator):
    first = walked.sentences.tgt_in_tokens[0][0], walked.sentences.tgt_out_tokens[0][0]
    label = f"reads {first[0]} → writes {first[1]}".replace("<", "&lt;").replace(">", "&gt;")
    assert label in walked._repr_html_()
    translation = translator.translate(SOURCES[:1], attention=True)[0]
    assert "reads &lt;s&gt; → writes" in translation._repr_html_()
    assert "<svg" not in translator.translate(SOURCES[:1])[0]._repr_html_()
    text = walked.trace._repr_html_()
    assert text.index("<svg") < text.index("<table>")


def test_a_map_is_an_image_whose_opacity_is_the_weight():
    weights = torch.tensor([[[0.25, 0.75, 0.5], [0.0, 1.0, 0.2]]])
    drawn = heads_html([Heads("a <b>", weights, ["q", "<q>"], ["k", "&", "l"])])
    images = re.findall(r'data:image/png;base64,([^"]+)"', drawn)
    pixels = matplotlib.image.imread(BytesIO(base64.b64decode(images[0])))
    assert pixels.shape == (2, 3, 4)
    assert torch.allclose(torch.tensor(pixels[..., 3]), weights[0], atol=0.5 / 255)
    assert "<b>a &lt;b&gt;</b>" in drawn
    assert "<q>" not in drawn


def test_long_sentences_and_labels_that_do_not_fit_are_told():
    drawn = heads_html([Heads("long", torch.zeros(2, 90, 90), [""] * 90, [""] * 90)])
    assert "<svg" not in drawn
    assert "90 × 90: too many positions" in drawn
    with pytest.raises(ValueError, match="shorter"):
        reads_and_writes(["<s>", "a"], ["a"])


def test_a_plot_has_the_numbers_and_the_tokens(walked, tmp_path):
    figure = walked.plot(CROSS, head=3, sentence=1)
    place = figure.axes[0]
    assert torch.equal(torch.tensor(place.images[0].get_array()), walked[CROSS].value[1, 3])
    assert [label.get_text() for label in place.get_xticklabels()] == list(walked.sentences.src_tokens[1])
    assert place.get_yticklabels()[0].get_text().startswith("reads <s> → writes ")
    assert place.get_title() == "head 3"
    for ending in ("svg", "png"):
        figure.savefig(tmp_path / f"weights.{ending}")
        assert (tmp_path / f"weights.{ending}").stat().st_size > 1000


def test_the_columns_of_the_decoders_self_attention_are_what_it_reads(walked):
    place = walked.plot("decoder.layers.0.self_attention.weights", head=0).axes[0]
    assert [label.get_text() for label in place.get_xticklabels()] == list(walked.sentences.tgt_in_tokens[0])
    assert place.get_yticklabels()[0].get_text().startswith("reads <s> → writes ")
    place = walked.plot("decoder.layers.0.self_attention.weights").axes[0]
    labels = [label.get_text() for label in place.get_xticklabels()]
    assert labels == list(walked.sentences.tgt_in_tokens[0])


def test_without_a_head_all_are_side_by_side_and_a_notebook_needs_no_pyplot(walked):
    assert len(walked.plot(CROSS).axes) == walked.config.n_heads + 1  # and the legend
    assert walked.plot("encoder.memory").axes[0].images[0].get_array().shape == walked["encoder.memory"].shape[1:]
    assert walked.plot("src_mask").axes[0].images
    assert walked.plot(CROSS)._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("address", "options", "message"),
    [
        (CROSS, {"head": 11}, "head: found 11, expected 0 to 10"),
        ("encoder.memory", {"head": 0}, "has no heads"),
        (CROSS, {"head": "2"}, "head: found str, expected a number from 0"),
        (CROSS, {"sentence": 3}, "sentence: found 3, expected 0 to 2"),
        ("encoder.memry", {}, "no such step"),
    ],
)
def test_what_is_not_there_is_said(walked, address, options, message):
    with pytest.raises(TraceError, match=message):
        walked.plot(address, **options)


def test_a_figure_takes_a_title_and_its_axes_say_who_asks(walked):
    figure = walked.plot("encoder.layers.0.self_attention.weights")
    assert (figure.axes[0].get_ylabel(), figure.axes[0].get_xlabel()) == ("query: src", "key: src")
    figure = walked.plot(CROSS)
    assert (figure.axes[0].get_ylabel(), figure.axes[0].get_xlabel()) == ("query: tgt", "key: src")
    figure = walked.plot("encoder.memory")
    assert (figure.axes[0].get_ylabel(), figure.axes[0].get_xlabel()) == ("src", "d_model")
    figure = walked.plot(CROSS, head=0, title="Who looks at whom", size=(4.0, 3.0))
    assert (figure.get_suptitle(), tuple(figure.get_size_inches())) == ("Who looks at whom", (4.0, 3.0))
    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert labels == [token.replace("▁", "") for token in walked.sentences.src_tokens[0]]


@pytest.mark.parametrize("address", ["src_mask", "causal_mask"])
def test_a_mask_is_shown_with_whole_rows_alone(walked, address):
    place = walked.plot(address).axes[0]
    rows, columns = place.images[0].get_array().shape
    assert sorted(place.get_ylim()) == [-0.5, rows - 0.5]
    assert sorted(place.get_xlim()) == [-0.5, columns - 0.5]
