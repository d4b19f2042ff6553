"""Fine-tune a model on your own data, with its configuration, vocabulary and weights.

One command for `stats`, `train` and `average`, which are checked before the first of them runs. DATA has two Kaldi data
directories, train and dev (or valid). The learning rate, its schedule and the number of epochs come from
update/fine_tune; --config and --set change them and anything else, such as --config adapter/lora. If you run the same
command again, finished stages are skipped and training continues.
"""

import argparse
from dataclasses import fields

from espnet_diverse.bin.options import options
from espnet_diverse.bin.options.arguments import add_options
from espnet_diverse.bin.options.input_paths import SETS_DIR, TOKENS_DIR
from espnet_diverse.training.options import FineTuningOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    options.add_model(parser)
    parser.add_argument("data_dir", type=SETS_DIR, metavar="DATA", help="folder of the data directories train and dev")
    options.add_config(parser, required=False)
    options.add_output_dir(parser, "directory of the run, for example exp/<tag>")
    options.add_keep_features(parser)
    parser.add_argument(
        "--tokens_dir",
        type=TOKENS_DIR,
        help="another vocabulary; tokens that the model knows keep their parameters (default: the model's)",
    )
    add_options(parser, FineTuningOptions, "number", "ngpu", "nproc", letters=True)
    parser.add_argument(
        "--allow_changed",
        nargs="+",
        default=[],
        metavar="WHAT",
        help="continue with another value of these keys, such as max_epoch, see `train`",
    )
    parser.add_argument("--restart", action="store_true", help="delete the checkpoints and weights and start again")
    parser.add_argument(
        "--dry_run",
        action="store_true",
        help="write start.yaml and the vocabulary, check options and texts, and print the commands that would run",
    )


def run(args: argparse.Namespace) -> int:
    """Write the configuration to begin with, and run the stages that have not finished."""
    from espnet_diverse.stage_runs import run_stages
    from espnet_diverse.training.fine_tuning import fine_tuning_stages

    chosen = {option.name: getattr(args, option.name) for option in fields(FineTuningOptions)}
    settings = FineTuningOptions(**{name: value for name, value in chosen.items() if value is not None})
    changes = options.fragments(args), args.set
    stages = fine_tuning_stages(args.model_dir, args.data_dir, args.output_dir, *changes, settings)
    if args.dry_run:  # otherwise `stats` begins with it
        stages[0].check_texts()
    code = run_stages(stages, args.output_dir / ".stamps", args.dry_run)
    if args.dry_run:
        print("not checked: the audio, and the model that the configuration makes; stats checks them first")
    return code
