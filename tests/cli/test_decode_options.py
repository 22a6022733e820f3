"""The options of the commands are the fields of ``DecodeConfig``, each where it acts."""

import inspect
from dataclasses import fields

import pytest

from glassformer.cli.evaluate import evaluate, score
from glassformer.cli.explain import trace
from glassformer.cli.translate import translate
from glassformer.settings import DecodeConfig, flag

STAGES = {knob.name: knob.metadata["acts_in"] for knob in fields(DecodeConfig)}
GENERATING = {"search", "sampling", "scoring", "batching"}
# What each command offers, and the fields of these stages that have no effect in it.
OFFERED = {
    translate: (GENERATING, set()),
    evaluate: (GENERATING, set()),
    trace: (GENERATING - {"batching"}, {"mbr"}),
    score: (
        {"scoring", "batching"},
        {"split_sentences", "src_language", "tgt_language", "copy_wordless", "keep_codes"},
    ),
}
# The options before they were made from the fields.
EARLIER = {
    translate: "beam length-penalty n-best coverage-penalty min-length repetition-penalty "
    "no-repeat-ngram sample temperature top-k top-p min-p typical-p seed mbr split-sentences max-length-a "
    "max-length-b batch-tokens",
    evaluate: "beam length-penalty max-length-a max-length-b batch-tokens",
    score: "length-penalty batch-tokens",
    trace: "beam length-penalty n-best coverage-penalty min-length repetition-penalty "
    "no-repeat-ngram sample temperature top-k top-p min-p typical-p seed max-length-a max-length-b cache",
}


def test_every_field_says_where_it_acts():
    assert set(STAGES.values()) == GENERATING


@pytest.mark.parametrize("command", OFFERED, ids=lambda command: command.__name__)
def test_a_command_offers_the_fields_that_act_in_it_and_no_other(command):
    stages, ignored = OFFERED[command]
    offered = set(inspect.signature(command).parameters) & STAGES.keys()
    assert offered == {name for name, stage in STAGES.items() if stage in stages} - ignored
    assert {f"--{name}" for name in EARLIER[command].split()} <= {flag(name) for name in offered}
