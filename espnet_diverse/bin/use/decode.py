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

from espnet_diverse.bin.options import options as shared
from espnet_diverse.bin.options.arguments import adder
from espnet_diverse.bin.options.cluster_option import add_cluster, workers
from espnet_diverse.bin.options.input_paths import DATA_DIR
from espnet_diverse.errors import ConfigError, NoBatchedSearchError
from espnet_diverse.option_checks import number, path

if TYPE_CHECKING:
    from espnet_diverse.decoding.directory.utterances import Search
    from espnet_diverse.decoding.options import SearchOptions


class CommandOptions(shared.Model, shared.Searching, shared.Conditions, shared.Computing, shared.TextFusionFiles):
    data_dir: Path = path(
        parse=DATA_DIR,
        help="data directory to decode; its wav.scp and segments are read, or feats.scp for a model that reads "
        "features, or src_text for text translation",
    )
    output_dir: Path = path(help="directory for text, score, failures.json and decode.json")
    nj: int = number(1, least=1, help="number of processes on the CPU")
    cluster: str = ""


DECODING = (
    *(shared.add_search_options, shared.add_conditions, (CommandOptions, "nj"), shared.Device, shared.Computing),
    *(add_cluster, shared.FusionFiles, shared.TextFusionFiles),
)
"""Options that say how a data directory is decoded."""
add_arguments = adder(shared.Model, (CommandOptions, "data_dir", "output_dir"), *DECODING)


def inputs(options: CommandOptions) -> list[Path]:
    """Files and data directories that are read."""
    from espnet_diverse.runs.config import find

    model = [*shared.model_inputs(options), *shared.fusion_inputs(options)]
    return [*find(shared.fragments(options)), *model, options.data_dir]


def outputs(options: CommandOptions) -> list[Path]:
    """Files that are written."""
    return [options.output_dir / name for name in ("text", "score", "failures.json", "decode.json")]


def check(options: CommandOptions, before: Mapping[str, argparse.Namespace]) -> None:
    """Check the search options; see `bin/plan_steps.py`."""
    options.searching()


def run(options: CommandOptions) -> int:
    """Decode; return 2 if an utterance could not be decoded."""
    searching = options.searching()  # before the import of ESPnet
    if options.compile and options.nj > 1:
        raise ConfigError(f"--compile and --nj {options.nj} cannot be combined; give one of them")
    if searching.search == "espnet" and (options.precision != "float32" or options.compile):
        raise ConfigError("search=espnet supports neither --precision nor --compile; leave them out")
    from espnet_diverse.data.files.locks import folder_lock
    from espnet_diverse.data.output_paths import check_no_data

    check_no_data(options.output_dir)
    with folder_lock(options.output_dir):  # `decode` takes it too, but only after seconds, in which a model is loaded
        pass
    from espnet_diverse.decoding.directory.decode_dir import decode
    from espnet_diverse.decoding.directory.on_cluster import described
    from espnet_diverse.decoding.encoder.precision import check_device
    from espnet_diverse.runs.logs import logged

    if not options.cluster:
        check_device(options.device)
    load = partial(_load, options, searching)
    files = [*shared.model_inputs(options), *shared.fusion_inputs(options)]
    with logged(options.output_dir / "decode.log"), workers(options, load, files, model=True) as pool:
        search, made_by = described(pool) if pool else load(), _made_by(options, searching)
        conditions = options.conditions
        results = decode(search, options.data_dir, options.output_dir, options.nj, conditions, pool, made_by)
    return 2 if any(result.failure is not None for result in results) else 0


def _made_by(options: CommandOptions, searching: "SearchOptions") -> str:
    """Options that results depend on besides data and conditions; the batch size changes only rounding."""
    from espnet_diverse.cluster.worker import versions
    from espnet_diverse.data.digests import digest

    files = [digest(path) for path in (*shared.model_inputs(options), *shared.fusion_inputs(options))]
    chosen = {name: value for name, value in asdict(searching).items() if name != "batch_size"}
    return json.dumps([versions(), files, chosen, options.device, options.precision, options.compile])


def _load(options: CommandOptions, searching: "SearchOptions") -> "Search":
    model = (*options.model, searching, options.device)
    helpers = shared.fusion(options)
    if searching.search == "espnet":
        from espnet_diverse.decoding.espnet.espnet_search import load_search  # slow, as it imports ESPnet's commands

        return load_search(*model, helpers, features=True)
    from espnet_diverse.decoding.predictor import load_predictor

    try:
        return load_predictor(*model, options.precision, options.compile, helpers, features=True)
    except NoBatchedSearchError as error:
        asked = searching.search != "batched" or searching.length_penalty
        if asked or options.precision != "float32" or options.compile:
            raise  # ESPnet's search has none of these
        shared.notice(f"{str(error).partition(';')[0]}: ESPnet's is used, one utterance at a time")
        return _load(options, replace(searching, search="espnet"))
