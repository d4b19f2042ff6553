"""Classify the texts of a data directory, or its pairs of texts: writes classes, confidences and scores.

With the true classes, for example from utt2lang, scores are accuracy, F1 (macro), AUC and AUC-PR of one class against
the rest, MCC, and the calibration errors ECE and OE; without them, the distance of the heads and the mean entropy.
"""

from pathlib import Path

from espnet_diverse.bin.options import options as shared
from espnet_diverse.bin.options.arguments import adder
from espnet_diverse.bin.options.input_paths import DATA_DIR
from espnet_diverse.option_checks import path


class CommandOptions(shared.Model, shared.Results, shared.Device):
    data_dir: Path = path(parse=DATA_DIR, help="data directory with the text, and its classes")
    output_dir: Path = path(help="directory for label, confidence and classification.json")
    out_of_domain_dir: Path | None = path(
        None, parse=DATA_DIR, metavar="DIR", help="data directory of another domain, to compare the mean entropy"
    )


add_arguments = adder(shared.Model, CommandOptions, shared.Results, shared.Device)


def inputs(options: CommandOptions) -> list[Path]:
    """Files and data directories that are read."""
    return [*shared.model_inputs(options), options.data_dir, *filter(None, [options.out_of_domain_dir])]


def outputs(options: CommandOptions) -> list[Path]:
    """Files that are written."""
    return [
        *(options.output_dir / name for name in ("label", "confidence", "classification.json")),
        *filter(None, [options.results]),
    ]


def run(options: CommandOptions) -> int:
    """Classify and print the measures."""
    from espnet_diverse.decoding.directory.classification import MEASURES, Classifier, cells, classify, line
    from espnet_diverse.runs.logs import logged
    from espnet_diverse.scoring.table import update_results

    with logged(options.output_dir / "classify.log"):
        classifier = Classifier(*options.model, options.device)
        numbers = classify(classifier, options.data_dir, options.output_dir, options.out_of_domain_dir)
    if options.results:
        name = shared.row_name(options.output_dir)
        update_results(options.results, "### Classification", ["Texts", *MEASURES.values()], {name: cells(numbers)})
    print(line(numbers))
    return 0
