"""Translate monolingual text with a model into a data directory to train with: back-translation or self-training.

The text of --data_dir is translated. `back` makes it the target and the translation the source, for a model of the
other direction; `forward` makes it the source, for the model itself. Beam search writes what is most probable; --search
sampling draws from the model's distribution, which teaches more where there is much text. Ids begin with bt- or st-.
The command `combine` puts the result together with other data. Exit code 2 says that sentences were left out;
dropped.tsv names them.
"""

import argparse
from pathlib import Path

from espnet_diverse.bin import options
from espnet_diverse.errors import ConfigError

SEARCHES = ("beam", "sampling")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.add_argument("kind", choices=("back", "forward"), help="what the text becomes: the target, or the source")
    parser.add_argument("--model_dir", type=Path, required=True, help="run of a text translation model")
    options.add_model_file(parser)
    parser.add_argument("--data_dir", type=Path, required=True, help="data directory; its text is translated")
    parser.add_argument("--output_dir", type=Path, required=True, help="gets the data directory")
    parser.add_argument(
        "--max_ratio", type=float, default=4.0, help="most characters of a side for one of the other (default: 4)"
    )
    parser.add_argument(
        "--search", choices=SEARCHES, default="beam", help="how it is translated: beam, or sampling (default: beam)"
    )
    parser.add_argument("--temperature", type=float, help="of sampling; lower is more probable (default: 1)")
    parser.add_argument("--top_k", type=int, help="of sampling: tokens that one is drawn from (default: 0, all)")
    parser.add_argument("--seed", type=int, help="of sampling (default: 0)")
    options.add_search(parser, "translate")


def inputs(args: argparse.Namespace) -> list[Path]:
    """Files and data directories that are read."""
    return options.search_inputs(args)


def outputs(args: argparse.Namespace) -> list[Path]:
    """Files that are written."""
    return [args.output_dir / name for name in ("text", "src_text")]


def run(args: argparse.Namespace) -> int:
    """Translate and write; 2 where a sentence was left out."""
    from espnet_diverse.bin import decode
    from espnet_diverse.data.augmentation import Monolingual, augment
    from espnet_diverse.data.kaldi import read_data_dir, read_table, write_data_dir

    search = _search(args)
    sentences = Monolingual.of(read_data_dir(args.data_dir))
    work = args.output_dir / "translation"  # what went into the model and what came out stays to be looked at
    write_data_dir(sentences.to_translate(), work / "input")
    changed = {"data_dir": work / "input", "output_dir": work, "set": [*args.set, *search]}
    decode.run(argparse.Namespace(**{**vars(args), **changed}))
    translations = read_table(work / "text", "hypothesis")
    data = augment(sentences, translations, args.kind, args.target_language, args.max_ratio)
    write_data_dir(data, args.output_dir)
    print(f"{args.output_dir}: {len(data.text)} pairs, {len(data.dropped)} left out")
    return 2 if data.dropped else 0


def _search(args: argparse.Namespace) -> list[str]:
    """The options of the search as changes of its configuration."""
    given = {name: getattr(args, name) for name in ("temperature", "top_k", "seed")}
    given = {name: value for name, value in given.items() if value is not None}
    if args.search == "beam":
        if given:
            raise ConfigError(f"--{next(iter(given))} is for --search sampling; add that, or leave it out")
        return []
    return [f"{name}={value}" for name, value in {"search": "sampling", **given}.items()]
