"""Encode texts with a variational autoencoder, sample texts from its prior, or interpolate between two texts.

--data_dir measures the evidence lower bound of the texts of a data directory and writes their latent codes. --samples
decodes samples from the prior N(0, I). --between decodes equally spaced points on the line between the codes of two
texts, including both ends. --samples and --between print one text per line.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from espnet_diverse.bin.options import options as shared
from espnet_diverse.bin.options.arguments import add_options
from espnet_diverse.bin.options.input_paths import DATA_DIR
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.errors import ConfigError
from espnet_diverse.option_checks import Rule, listed, number, path

_TEXTS = 7  # of --between
_COLUMNS = ("Texts", "Nats per token", "KL", "Bound", "Active units")


class CommandOptions(shared.Model, shared.Results, shared.Device):
    data_dir: Path | None = path(None, parse=DATA_DIR, help="data directory; its text is encoded")
    output_dir: Path | None = path(None, help="directory for codes.npz and latent.json")
    importance_samples: int | None = number(None, kind=int, metavar="K", help="samples per text", shown="1")
    samples: int = number(0, metavar="N", help="number of samples from the prior", shown="")
    between: Sequence[str] | None = listed(None, nargs=2, metavar="TEXT", help="two texts to interpolate between")
    steps: int | None = number(None, kind=int, metavar="N", help="number of texts of --between", shown=str(_TEXTS))
    beam_size: int = number(1, metavar="N", help="beam of the generation")
    seed: int = number(0, metavar="N", help="random seed of the samples")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    shared.add_model(parser, "directory of a run with model: vae, a packed model, or hf:owner/name")
    data = parser.add_argument_group("encoding")
    add_options(data, CommandOptions, "data_dir", "output_dir", "importance_samples")
    add_options(data, shared.Results)
    texts = parser.add_argument_group("generation")
    add_options(texts, CommandOptions, "samples", "between", "steps", "beam_size")
    add_options(parser, CommandOptions, "seed")
    add_options(parser, shared.Device)


def inputs(options: CommandOptions) -> list[Path]:
    """Files and data directories that are read."""
    return [*shared.model_inputs(options), *filter(None, [options.data_dir])]


def outputs(options: CommandOptions) -> list[Path]:
    """Files that are written."""
    written = [options.output_dir / name for name in ("codes.npz", "latent.json")] if options.output_dir else []
    return [*written, *filter(None, [options.results])]


def run(options: CommandOptions) -> int:
    """Encode, sample and interpolate."""
    _check(options)
    from espnet_diverse.decoding.directory.latent import Autoencoder, cells, line, measure
    from espnet_diverse.scoring.table import update_results

    searching, seed = SearchOptions(beam_size=options.beam_size, batch_size=32), options.seed
    model = Autoencoder(*options.model, searching, options.device)
    if options.data_dir:
        numbers = measure(model, options.data_dir, options.output_dir, options.importance_samples or 1, seed)
        if options.results:
            name = shared.row_name(options.output_dir)
            update_results(options.results, "### Latent codes", _COLUMNS, {name: cells(numbers)})
        print(line(numbers))
    for text in model.samples(options.samples, seed) if options.samples else ():
        print(text)
    for text in model.between(*options.between, options.steps or _TEXTS) if options.between else ():
        print(text)
    return 0


def _check(options: CommandOptions) -> None:
    if not (options.data_dir or options.samples or options.between):
        raise ConfigError("there is nothing to do; give --data_dir with --output_dir, --samples or --between")
    if bool(options.data_dir) != bool(options.output_dir):
        raise ConfigError("--data_dir and --output_dir need each other; give both")
    for name, needed in (("results", "data_dir"), ("importance_samples", "data_dir"), ("steps", "between")):
        if (value := getattr(options, name)) is not None and not getattr(options, needed):
            raise ConfigError(f"--{name} {value} is for --{needed}; give that too, or leave it out")
    for name, least in (("importance_samples", 1), ("samples", 0), ("steps", 2), ("beam_size", 1), ("seed", 0)):
        Rule(int, least=least, none=True).check(f"--{name}", getattr(options, name))
