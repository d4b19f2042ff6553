"""Metrics by name, and options that fit none of them."""

import pytest

from espnet_diverse.errors import ConfigError
from espnet_diverse.scoring.build import METRICS, build_metrics, check_metrics
from espnet_diverse.scoring.significance import Bootstrap


def test_every_metric_is_built_in_order():
    assert [metric.name for metric in build_metrics(METRICS, make_embedder=object).values()] == [
        "CER",
        "WER",
        "MER",
        "BLEU",
        "compound-split BLEU",
        "chrF2",
        "chrF2++",
        "TER",
        "BERTScore F1",
    ]


def test_options_reach_their_metrics():
    options = {"count_spaces": True, "normalisation": "wer", "tokenize": "intl", "lowercase": True}
    metrics = build_metrics(["cer", "wer", "bleu", "chrf++"], **options)
    signatures = [metric.signature(["zh"], Bootstrap()) for metric in metrics.values()]
    parts = ("spaces:counted|case:lc", "WER|case:lc", "case:lc|eff:no|tok:intl", "case:lc")
    for part, signature in zip(parts, signatures, strict=True):
        assert part in signature


def test_only_metrics_of_sacrebleu_take_several_references():
    check_metrics(["bleu", "chrf", "ter"], False, "none", None, False, references=3)
    with pytest.raises(ConfigError, match="^metric 'wer' takes one reference of a text, and 2 are given; give one, or"):
        check_metrics(["bleu", "wer"], False, "none", None, False, references=2)


@pytest.mark.parametrize(
    "names, options, message",
    [
        (
            ["meteor"],
            {},
            "unknown metric 'meteor'; choose from cer, wer, mer, bleu, compound_bleu, chrf, chrf++, ter, bertscore",
        ),
        (["cer", "wer", "cer"], {}, "metric 'cer' is given 2 times; give it once"),
        (["wer"], {"count_spaces": True}, "--count_spaces is for cer, and the metrics are wer; leave it out"),
        (
            ["bleu"],
            {"normalisation": "wer"},
            "--normalise wer is for cer, wer and mer, and the metrics are bleu; leave it out",
        ),
        (
            ["cer", "ter"],
            {"tokenize": "zh"},
            "--tokenize zh is for bleu and compound_bleu, and the metrics are cer ter; leave it out",
        ),
        (
            ["ter"],
            {"lowercase": True},
            "--lowercase is for bleu, compound_bleu, chrf and chrf++, and the metrics are ter; leave it out",
        ),
    ],
)
def test_invalid_metrics_and_options_are_refused(names, options, message):
    with pytest.raises(ConfigError) as error:
        build_metrics(names, **options)
    assert str(error.value) == message
