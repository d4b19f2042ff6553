"""Decode a data directory by joint CTC/attention beam search: recognise speech, or translate it or text.

A model with parts that belong to languages or domains takes those of each utterance from utt2lang, utt2tgtlang and
utt2domain of the data directory; --language, --target_language and --domain name one for all utterances instead. Exit
code 2 says that utterances were left out.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from espnet_diverse.bin import options

if TYPE_CHECKING:
    from espnet_diverse.decoding.decode_dir import Search
    from espnet_diverse.decoding.options import Options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.add_argument("--model_dir", type=Path, required=True, help="directory of the run")
    parser.add_argument(
        "--data_dir",
        type=Path,
        required=True,
        help="data directory to decode; its wav.scp is read, of text its src_text",
    )
    parser.add_argument(
        "--output_dir", type=Path, required=True, help="where text, score, failures.json and decode.json go"
    )
    options.add_model_file(parser)
    options.add_search(parser, "decode")


def inputs(args: argparse.Namespace) -> list[Path]:
    """Files and data directories that are read."""
    return options.search_inputs(args)


def outputs(args: argparse.Namespace) -> list[Path]:
    """Files that are written."""
    return [args.output_dir / name for name in ("text", "score", "failures.json", "decode.json")]


def run(args: argparse.Namespace) -> int:
    """Decode; 2 where an utterance was left out."""
    from dataclasses import fields

    from espnet_diverse.decoding.options import Options
    from espnet_diverse.training.config import check_keys, merge

    config = merge(options.fragments(args), args.set)  # before ESPnet's import, which takes seconds
    check_keys(config, [field.name for field in fields(Options)])
    search_options = Options(**config)
    from espnet_diverse.decoding.decode_dir import decode
    from espnet_diverse.training.espnet_command import check_gpus, logged

    check_gpus(args.ngpu)
    with logged(args.output_dir / "decode.log"):
        search = _load(args, search_options)
        outcomes = decode(search, args.data_dir, args.output_dir, args.nj, options.conditions(args))
    return 2 if any(outcome.failure is not None for outcome in outcomes) else 0


def _load(args: argparse.Namespace, search_options: "Options") -> "Search":
    """The search that the options ask for."""
    from espnet_diverse.errors import ConfigError

    if args.compile and args.nj > 1:
        raise ConfigError(f"--compile and --nj {args.nj} are not possible together; take one of them")
    model = (args.model_dir, args.model_file, search_options, "cuda" if args.ngpu else "cpu")
    if search_options.search != "espnet":
        from espnet_diverse.decoding.predictor import load_predictor

        return load_predictor(*model, args.precision, args.compile)
    if args.precision != "float32" or args.compile:
        raise ConfigError("search=espnet has no --precision and no --compile; leave them away, or take search=batched")
    from espnet_diverse.decoding.espnet_search import load_search

    return load_search(*model)
