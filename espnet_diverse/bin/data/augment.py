"""Translate monolingual text into training data: back-translation or self-training.

The text of --data_dir is translated. With `back` it becomes the target and the translation the source, which needs a
model of the opposite direction; with `forward` it becomes the source. Beam search writes the most probable
translations; --search sampling draws from the model's distribution, which gives better training data if there is much
text. Ids begin with bt- or st-. The command `combine` merges the result with other data. Exit code 2 means that
sentences were dropped; dropped.tsv lists them.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path

from espnet_diverse.bin.options import options
from espnet_diverse.bin.options.cluster_option import add_cluster
from espnet_diverse.bin.options.input_paths import DATA_DIR
from espnet_diverse.bin.use import decode
from espnet_diverse.errors import ConfigError

_WRITTEN = ("text", "src_text", "utt2lang", "utt2tgtlang", "dropped.tsv")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.add_argument(
        "kind", choices=("back", "forward"), help="back: the text becomes the target; forward: it becomes the source"
    )
    options.add_model(parser, "directory of a run of text translation, or a packed model")
    parser.add_argument("--data_dir", type=DATA_DIR, required=True, help="data directory with the text to translate")
    options.add_output_dir(parser, "data directory to write")
    parser.add_argument(
        "--max_ratio",
        type=float,
        default=4.0,
        help="maximum ratio of the numbers of characters of the two sides (default: 4)",
    )
    options.add_decoding(parser)
    add_cluster(parser)
    options.add_fusion(parser)


def inputs(args: argparse.Namespace) -> list[Path]:
    """Files and data directories that are read."""
    return [*options.decoding_inputs(args), *options.fusion_inputs(args)]


def outputs(args: argparse.Namespace) -> list[Path]:
    """Files that are written."""
    return [args.output_dir / name for name in ("text", "src_text")]


def check(args: argparse.Namespace, before: Mapping[str, argparse.Namespace]) -> None:
    """Check the search options and the limit of lengths; see `bin/plan_steps.py`.

    Raises:
        ConfigError: An option is not valid.
    """
    decode.check(args, before)
    if not args.max_ratio >= 1:
        raise ConfigError(f"--max_ratio {args.max_ratio:g} would leave no pair; give a number of at least 1")


def run(args: argparse.Namespace) -> int:
    """Translate and write; return 2 if a sentence was dropped."""
    from espnet_diverse.data.kaldi import read_data_dir, write_data_dir
    from espnet_diverse.data.output_paths import check_prepared, mark_prepared
    from espnet_diverse.data.tables import read_table
    from espnet_diverse.data.writing.back_translation import Monolingual, augment
    from espnet_diverse.decoding.encoder.precision import check_device

    check(args, {})  # a wrong option is refused before anything is written
    if not args.cluster:
        check_device(args.device)
    check_prepared(args.output_dir)
    sentences = Monolingual.of(read_data_dir(args.data_dir))
    if sentences.languages and not args.target_language:
        lost = "their language is not known, so the pairs get no utt2lang and utt2tgtlang"
        options.notice(f"translations without --target_language: {lost}; give it, or combine with --fill")
    work = args.output_dir / "translation"  # keeps the model's input and output for inspection
    args.output_dir.mkdir(parents=True, exist_ok=True)
    mark_prepared(args.output_dir, later=[*_WRITTEN, work.name])  # first: after a kill it can run again
    write_data_dir(sentences.to_translate(), work / "input")
    decode.run(argparse.Namespace(**{**vars(args), "data_dir": work / "input", "output_dir": work}))
    translations = read_table(work / "text", "hypothesis")
    data = augment(sentences, translations, args.kind, args.target_language, args.max_ratio)
    write_data_dir(data, args.output_dir)
    print(f"{args.output_dir}: {len(data.text)} pairs, {len(data.dropped)} dropped")
    return 2 if data.dropped else 0
