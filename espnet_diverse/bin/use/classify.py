"""Classify the texts of a data directory, or its pairs of texts: writes classes, confidences and scores.

With the true classes, for example from utt2lang, scores are accuracy, F1 (macro), AUC and AUC-PR of one class against
the rest, MCC, and the calibration errors ECE and OE; without them, the distance of the heads and the mean entropy.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

from espnet_diverse.bin.options.arguments import add_options, takes
from espnet_diverse.bin.options.input_paths import DATA_DIR
from espnet_diverse.bin.options.options import (
    Device,
    Model,
    Results,
    add_device_options,
    add_model,
    model_inputs,
    row_name,
)
from espnet_diverse.option_checks import path


@dataclass(frozen=True, kw_only=True)
class ClassifyOptions(Model, Results, Device):
    """Options of this command."""

    data_dir: Path = path(parse=DATA_DIR, help="data directory with the text, and its classes")
    output_dir: Path = path(help="directory for label, confidence and classification.json")
    out_of_domain_dir: Path | None = path(
        None, metavar="DIR", help="data directory of another domain, to compare the mean entropy"
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    add_model(parser)
    add_options(parser, ClassifyOptions)
    add_options(parser, Results)
    add_device_options(parser, precision=False)


@takes(ClassifyOptions)
def inputs(options: ClassifyOptions) -> list[Path]:
    """Files and data directories that are read."""
    return [*model_inputs(options), options.data_dir, *filter(None, [options.out_of_domain_dir])]


@takes(ClassifyOptions)
def outputs(options: ClassifyOptions) -> list[Path]:
    """Files that are written."""
    return [
        *(options.output_dir / name for name in ("label", "confidence", "classification.json")),
        *filter(None, [options.results]),
    ]


@takes(ClassifyOptions)
def run(options: ClassifyOptions) -> int:
    """Classify and print the measures."""
    from espnet_diverse.decoding.directory.classification import MEASURES, Classifier, cells, classify, line
    from espnet_diverse.runs.logs import logged
    from espnet_diverse.scoring.table import update_results

    with logged(options.output_dir / "classify.log"):
        classifier = Classifier(*options.model, options.device)
        numbers = classify(classifier, options.data_dir, options.output_dir, options.out_of_domain_dir)
    if options.results:
        name = row_name(options.output_dir)
        update_results(options.results, "### Classification", ["Texts", *MEASURES.values()], {name: cells(numbers)})
    print(line(numbers))
    return 0
