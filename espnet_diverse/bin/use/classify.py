"""Classify the texts of a data directory, or its pairs of texts: writes classes, confidences and scores.

With the true classes, for example from utt2lang, scores are accuracy, F1 (macro), AUC and AUC-PR of one class against
the rest, MCC, and the calibration errors ECE and OE; without them, the distance of the heads and the mean entropy.
"""

import argparse
from pathlib import Path

from espnet_diverse.bin.options import options
from espnet_diverse.bin.options.arguments import add_options
from espnet_diverse.bin.options.input_paths import DATA_DIR


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    options.add_model(parser)
    parser.add_argument(
        "--data_dir", type=DATA_DIR, required=True, help="data directory with the text, and its classes"
    )
    options.add_output_dir(parser, "directory for label, confidence and classification.json")
    parser.add_argument(
        "--out_of_domain_dir",
        type=Path,
        metavar="DIR",
        help="data directory of another domain, to compare the mean entropy",
    )
    add_options(parser, options.Results)
    options.add_device_options(parser, precision=False)


def inputs(args: argparse.Namespace) -> list[Path]:
    """Files and data directories that are read."""
    return [*options.model_inputs(args), args.data_dir, *filter(None, [args.out_of_domain_dir])]


def outputs(args: argparse.Namespace) -> list[Path]:
    """Files that are written."""
    return [
        *(args.output_dir / name for name in ("label", "confidence", "classification.json")),
        *filter(None, [args.results]),
    ]


def run(args: argparse.Namespace) -> int:
    """Classify and print the measures."""
    from espnet_diverse.decoding.directory.classification import MEASURES, Classifier, cells, classify, line
    from espnet_diverse.runs.logs import logged
    from espnet_diverse.scoring.table import update_results

    with logged(args.output_dir / "classify.log"):
        classifier = Classifier(args.model_dir, args.model_file, args.device)
        numbers = classify(classifier, args.data_dir, args.output_dir, args.out_of_domain_dir)
    if args.results:
        name = options.row_name(args.output_dir)
        update_results(args.results, "### Classification", ["Texts", *MEASURES.values()], {name: cells(numbers)})
    print(line(numbers))
    return 0
