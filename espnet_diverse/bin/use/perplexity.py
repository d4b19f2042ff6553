"""Compute the perplexity of the texts of a data directory under a language model, per token and per word."""

import argparse
from dataclasses import dataclass
from pathlib import Path

from espnet_diverse.bin.options.arguments import add_options, takes
from espnet_diverse.bin.options.input_paths import DATA_DIR
from espnet_diverse.bin.options.options import (
    Conditions,
    Device,
    Model,
    Results,
    add_conditions,
    add_device_options,
    add_model,
    row_name,
)
from espnet_diverse.option_checks import path


@dataclass(frozen=True, kw_only=True)
class PerplexityOptions(Model, Results, Conditions, Device):
    """Options of this command."""

    data_dir: Path = path(parse=DATA_DIR, help="data directory with the text")
    output_dir: Path = path(help="directory for score and perplexity.json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    add_model(parser)
    add_options(parser, PerplexityOptions)
    add_options(parser, Results)
    add_conditions(parser)
    add_device_options(parser, precision=False)


@takes(PerplexityOptions)
def inputs(options: PerplexityOptions) -> list[Path]:
    """Files and data directories that are read."""
    from espnet_diverse.runs.model_files import model_files

    return [*model_files(*options.model, "lm"), options.data_dir]


@takes(PerplexityOptions)
def outputs(options: PerplexityOptions) -> list[Path]:
    """Files that are written."""
    return [*(options.output_dir / name for name in ("score", "perplexity.json")), *filter(None, [options.results])]


@takes(PerplexityOptions)
def run(options: PerplexityOptions) -> int:
    """Score and print the perplexity."""
    from espnet_diverse.decoding.directory.perplexity import Scorer, line, perplexity
    from espnet_diverse.runs.logs import logged
    from espnet_diverse.scoring.table import update_results

    with logged(options.output_dir / "perplexity.log"):
        scorer = Scorer(*options.model, options.device)
        numbers = perplexity(scorer, options.data_dir, options.output_dir, options.conditions)
    if options.results:
        name = row_name(options.output_dir)
        cells = [f"{numbers['texts']}", *(f"{numbers[key]:.2f}" for key in ("perplexity", "word_perplexity"))]
        update_results(options.results, "### Perplexity", ["Texts", "By token", "By word"], {name: cells})
    print(line(numbers))
    return 0
