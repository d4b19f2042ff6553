"""Compute the perplexity of the texts of a data directory under a language model, per token and per word."""

from pathlib import Path

from espnet_diverse.bin.options import options as shared
from espnet_diverse.bin.options.arguments import adder
from espnet_diverse.bin.options.input_paths import DATA_DIR
from espnet_diverse.option_checks import path


class CommandOptions(shared.Model, shared.Results, shared.Conditions, shared.Device):
    data_dir: Path = path(parse=DATA_DIR, help="data directory with the text")
    output_dir: Path = path(help="directory for score and perplexity.json")


add_arguments = adder(shared.Model, CommandOptions, shared.Results, shared.add_conditions, shared.Device)


def inputs(options: CommandOptions) -> list[Path]:
    """Files and data directories that are read."""
    from espnet_diverse.runs.model_files import model_files

    return [*model_files(*options.model, "lm"), options.data_dir]


def outputs(options: CommandOptions) -> list[Path]:
    """Files that are written."""
    return [*(options.output_dir / name for name in ("score", "perplexity.json")), *filter(None, [options.results])]


def run(options: CommandOptions) -> int:
    """Score and print the perplexity."""
    from espnet_diverse.decoding.directory.perplexity import Scorer, line, perplexity
    from espnet_diverse.runs.logs import logged
    from espnet_diverse.scoring.table import update_results

    with logged(options.output_dir / "perplexity.log"):
        scorer = Scorer(*options.model, options.device)
        numbers = perplexity(scorer, options.data_dir, options.output_dir, options.conditions)
    if options.results:
        name = shared.row_name(options.output_dir)
        cells = [f"{numbers['texts']}", *(f"{numbers[key]:.2f}" for key in ("perplexity", "word_perplexity"))]
        update_results(options.results, "### Perplexity", ["Texts", "By token", "By word"], {name: cells})
    print(line(numbers))
    return 0
