"""Compute the perplexity of the texts of a data directory under a language model, per token and per word."""

import argparse
from pathlib import Path

from espnet_diverse.bin.options import options
from espnet_diverse.bin.options.arguments import add_options
from espnet_diverse.bin.options.input_paths import DATA_DIR


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    options.add_model(parser)
    parser.add_argument("--data_dir", type=DATA_DIR, required=True, help="data directory with the text")
    options.add_output_dir(parser, "directory for score and perplexity.json")
    add_options(parser, options.Results)
    options.add_conditions(parser)
    options.add_device_options(parser, precision=False)


def inputs(args: argparse.Namespace) -> list[Path]:
    """Files and data directories that are read."""
    from espnet_diverse.runs.model_files import model_files

    return [*model_files(args.model_dir, args.model_file, "lm"), args.data_dir]


def outputs(args: argparse.Namespace) -> list[Path]:
    """Files that are written."""
    return [*(args.output_dir / name for name in ("score", "perplexity.json")), *filter(None, [args.results])]


def run(args: argparse.Namespace) -> int:
    """Score and print the perplexity."""
    from espnet_diverse.decoding.directory.perplexity import Scorer, line, perplexity
    from espnet_diverse.runs.logs import logged
    from espnet_diverse.scoring.table import update_results

    with logged(args.output_dir / "perplexity.log"):
        scorer = Scorer(args.model_dir, args.model_file, args.device)
        numbers = perplexity(scorer, args.data_dir, args.output_dir, options.conditions(args))
    if args.results:
        name = options.row_name(args.output_dir)
        cells = [f"{numbers['texts']}", *(f"{numbers[key]:.2f}" for key in ("perplexity", "word_perplexity"))]
        update_results(args.results, "### Perplexity", ["Texts", "By token", "By word"], {name: cells})
    print(line(numbers))
    return 0
