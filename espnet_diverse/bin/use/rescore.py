"""Rerank the n-best hypotheses of `decode --nbest N` with a language model or another model of the same task.

score = (score of the search) + weight * log p(text). The other model may have another vocabulary.
"""

import argparse
from collections.abc import Mapping
from math import isfinite
from pathlib import Path

from espnet_diverse.bin.options import options
from espnet_diverse.bin.options.input_paths import DATA_DIR, InputPath
from espnet_diverse.decoding.options import TEXT_TASKS
from espnet_diverse.errors import ConfigError

_NBEST_DIR = InputPath("decode with --nbest 2 or more first", must_have="nbest.jsonl")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    options.add_model(parser, "a run of task lm, or of the task of the hypotheses, or a packed model")
    parser.add_argument("--decode_dir", type=_NBEST_DIR, required=True, help="directory that `decode --nbest N` wrote")
    parser.add_argument(
        "--data_dir", type=DATA_DIR, help="data directory that was decoded; not needed for most language models"
    )
    options.add_output_dir(parser, "directory for text, score and nbest.jsonl")
    parser.add_argument("--weight", type=float, default=0.3, help="weight of the model (default: 0.3)")
    options.add_conditions(parser)
    options.add_device_options(parser, precision=False)


def inputs(args: argparse.Namespace) -> list[Path]:
    """Files and data directories that are read."""
    return [*options.model_inputs(args), args.decode_dir / "nbest.jsonl", *filter(None, [args.data_dir])]


def outputs(args: argparse.Namespace) -> list[Path]:
    """Files that are written."""
    return [args.output_dir / name for name in ("text", "score", "nbest.jsonl")]


def check(args: argparse.Namespace, before: Mapping[str, argparse.Namespace]) -> None:
    """Check the weight; see `bin/plan_steps.py`.

    Raises:
        ConfigError: The weight is infinite or not a number.
    """
    if not isfinite(args.weight):
        raise ConfigError(f"--weight {args.weight} is not allowed; give a finite number")


def run(args: argparse.Namespace) -> int:
    """Rescore, and print how many texts changed."""
    check(args, {})
    from espnet_diverse.data.output_paths import check_no_data

    check_no_data(args.output_dir)
    from espnet_diverse.decoding.directory.perplexity import Scorer
    from espnet_diverse.decoding.directory.rescoring import LanguageModel, OtherModel, TextScorer, read_nbest, rescore
    from espnet_diverse.decoding.predictor import load_predictor
    from espnet_diverse.runs.tasks import read_config

    nbest = read_nbest(args.decode_dir / "nbest.jsonl")
    conditions, device = options.conditions(args), args.device
    task = read_config(args.model_dir / "config.yaml").get("task", "asr")
    scorer: TextScorer
    if task in TEXT_TASKS:
        if args.data_dir is None:
            raise ConfigError(f"a model of task {task} needs the data that was decoded; give --data_dir")
        predictor = load_predictor(args.model_dir, args.model_file, device=device)
        scorer = OtherModel(predictor, args.data_dir, conditions)
    else:
        scorer = LanguageModel(Scorer(args.model_dir, args.model_file, device), nbest, args.data_dir, conditions)
    changed = rescore(scorer, nbest, args.weight, args.output_dir)
    print(f"{changed} of {len(nbest)} utterances have another best text")
    return 0
