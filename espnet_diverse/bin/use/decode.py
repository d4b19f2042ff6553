"""Decode a data directory by joint CTC/attention beam search: speech recognition, speech or text translation.

A model with parts that depend on a language or domain takes the value of each utterance from utt2lang, utt2tgtlang and
utt2domain of the data directory; --language, --target_language and --domain give one value for all utterances instead.
Exit code 2 means that some utterances could not be decoded; failures.json lists them. If a call was stopped, the next
one with the same model, options and data continues where it ended; earlier results stay until the new ones are
complete.
"""

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from espnet_diverse.bin.options import options
from espnet_diverse.bin.options.cluster_option import add_cluster, check_nj, workers
from espnet_diverse.bin.options.input_paths import DATA_DIR
from espnet_diverse.errors import ConfigError, NoBatchedSearchError

if TYPE_CHECKING:
    from espnet_diverse.decoding.directory.utterances import Search
    from espnet_diverse.decoding.options import Options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    options.add_model(parser)
    parser.add_argument(
        "--data_dir",
        type=DATA_DIR,
        required=True,
        help="data directory to decode; its wav.scp and segments are read, or feats.scp for a model that reads "
        "features, or src_text for text translation",
    )
    options.add_output_dir(parser, "directory for text, score, failures.json and decode.json")
    options.add_decoding(parser)
    add_cluster(parser)
    options.add_fusion(parser)


def inputs(args: argparse.Namespace) -> list[Path]:
    """Files and data directories that are read."""
    return [*options.decoding_inputs(args), *options.fusion_inputs(args)]


def outputs(args: argparse.Namespace) -> list[Path]:
    """Files that are written."""
    return [args.output_dir / name for name in ("text", "score", "failures.json", "decode.json")]


def check(args: argparse.Namespace, before: Mapping[str, argparse.Namespace]) -> None:
    """Check the search options; see `bin/plan_steps.py`."""
    options.search_options(args)
    check_nj(args.nj)


def run(args: argparse.Namespace) -> int:
    """Decode; return 2 if an utterance could not be decoded."""
    search_options, device = options.search_options(args), args.device  # before the import of ESPnet
    check_nj(args.nj)
    if args.compile and args.nj > 1:
        raise ConfigError(f"--compile and --nj {args.nj} cannot be combined; give one of them")
    if search_options.search == "espnet" and (args.precision != "float32" or args.compile):
        raise ConfigError("search=espnet supports neither --precision nor --compile; leave them out")
    from espnet_diverse.data.files.locks import folder_lock
    from espnet_diverse.data.output_paths import check_no_data

    check_no_data(args.output_dir)
    with folder_lock(args.output_dir):  # `decode` takes it too, but only after seconds, in which a model is loaded
        pass
    from espnet_diverse.decoding.directory.decode_dir import decode
    from espnet_diverse.decoding.directory.on_cluster import described
    from espnet_diverse.decoding.encoder.precision import check_device
    from espnet_diverse.runs.logs import logged

    if not args.cluster:
        check_device(device)
    load = partial(_load, args, search_options, device)
    files = [*options.model_inputs(args), *options.fusion_inputs(args)]
    with logged(args.output_dir / "decode.log"), workers(args, load, files, model=True) as pool:
        search, made_by = described(pool) if pool else load(), _made_by(args, search_options, device)
        results = decode(search, args.data_dir, args.output_dir, args.nj, options.conditions(args), pool, made_by)
    return 2 if any(result.failure is not None for result in results) else 0


def _made_by(args: argparse.Namespace, search_options: "Options", device: str) -> str:
    """Options that results depend on besides data and conditions; the batch size changes only rounding."""
    from espnet_diverse.cluster.worker import versions
    from espnet_diverse.data.digests import digest

    files = [digest(path) for path in (*options.model_inputs(args), *options.fusion_inputs(args))]
    chosen = {name: value for name, value in asdict(search_options).items() if name != "batch_size"}
    return json.dumps([versions(), files, chosen, device, args.precision, args.compile])


def _load(args: argparse.Namespace, search_options: "Options", device: str) -> "Search":
    model = (args.model_dir, args.model_file, search_options, device)
    fusion = options.fusion(args)
    if search_options.search == "espnet":
        from espnet_diverse.decoding.espnet.espnet_search import load_search  # slow, as it imports ESPnet's commands

        return load_search(*model, fusion, features=True)
    from espnet_diverse.decoding.predictor import load_predictor

    try:
        return load_predictor(*model, args.precision, args.compile, fusion, features=True)
    except NoBatchedSearchError as error:
        asked = search_options.search != "batched" or search_options.length_penalty
        if asked or args.precision != "float32" or args.compile:
            raise  # ESPnet's search has none of these
        options.notice(f"{str(error).partition(';')[0]}: ESPnet's is used, one utterance at a time")
        return _load(args, replace(search_options, search="espnet"), device)
