"""Encode texts with a variational autoencoder, sample texts from its prior, or interpolate between two texts.

--data_dir measures the evidence lower bound of the texts of a data directory and writes their latent codes. --samples
decodes samples from the prior N(0, I). --between decodes equally spaced points on the line between the codes of two
texts, including both ends. --samples and --between print one text per line.
"""

import argparse
from pathlib import Path

from espnet_diverse.bin.options import options
from espnet_diverse.bin.options.arguments import add_options
from espnet_diverse.bin.options.input_paths import DATA_DIR
from espnet_diverse.decoding.options import Options
from espnet_diverse.errors import ConfigError
from espnet_diverse.option_checks import Rule

_COLUMNS = ("Texts", "Nats per token", "KL", "Bound", "Active units")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    options.add_model(parser, "directory of a run with model: vae, a packed model, or hf:owner/name")
    data = parser.add_argument_group("encoding")
    data.add_argument("--data_dir", type=DATA_DIR, help="data directory; its text is encoded")
    data.add_argument("--output_dir", type=Path, help="directory for codes.npz and latent.json")
    data.add_argument("--importance_samples", type=int, metavar="K", help="samples per text (default: 1)")
    add_options(data, options.Results)
    texts = parser.add_argument_group("generation")
    texts.add_argument("--samples", type=int, default=0, metavar="N", help="number of samples from the prior")
    texts.add_argument("--between", nargs=2, metavar="TEXT", help="two texts to interpolate between")
    texts.add_argument("--steps", type=int, metavar="N", help="number of texts of --between (default: 7)")
    texts.add_argument("--beam_size", type=int, default=1, metavar="N", help="beam of the generation (default: 1)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="random seed of the samples (default: 0)")
    options.add_device_options(parser, precision=False)


def inputs(args: argparse.Namespace) -> list[Path]:
    """Files and data directories that are read."""
    return [*options.model_inputs(args), *filter(None, [args.data_dir])]


def outputs(args: argparse.Namespace) -> list[Path]:
    """Files that are written."""
    written = [args.output_dir / name for name in ("codes.npz", "latent.json")] if args.output_dir else []
    return [*written, *filter(None, [args.results])]


def run(args: argparse.Namespace) -> int:
    """Encode, sample and interpolate."""
    _check(args)
    from espnet_diverse.decoding.directory.latent import Autoencoder, cells, line, measure
    from espnet_diverse.scoring.table import update_results

    search_options, seed = Options(beam_size=args.beam_size, batch_size=32), args.seed
    model = Autoencoder(args.model_dir, args.model_file, search_options, args.device)
    if args.data_dir:
        numbers = measure(model, args.data_dir, args.output_dir, args.importance_samples or 1, seed)
        if args.results:
            name = options.row_name(args.output_dir)
            update_results(args.results, "### Latent codes", _COLUMNS, {name: cells(numbers)})
        print(line(numbers))
    for text in model.samples(args.samples, seed) if args.samples else ():
        print(text)
    for text in model.between(*args.between, args.steps or 7) if args.between else ():
        print(text)
    return 0


def _check(args: argparse.Namespace) -> None:
    if not (args.data_dir or args.samples or args.between):
        raise ConfigError("there is nothing to do; give --data_dir with --output_dir, --samples or --between")
    if bool(args.data_dir) != bool(args.output_dir):
        raise ConfigError("--data_dir and --output_dir need each other; give both")
    for name, needed in (("results", "data_dir"), ("importance_samples", "data_dir"), ("steps", "between")):
        if (given := getattr(args, name)) is not None and not getattr(args, needed):
            raise ConfigError(f"--{name} {given} is for --{needed}; give that too, or leave it out")
    for name, least in (("importance_samples", 1), ("samples", 0), ("steps", 2), ("beam_size", 1), ("seed", 0)):
        Rule(int, least=least, none=True).check(f"--{name}", getattr(args, name))
