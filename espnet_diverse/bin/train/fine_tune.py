"""Fine-tune a model on your own data, with its configuration, vocabulary and weights.

One command for `stats`, `train` and `average`, which are checked before the first of them runs. DATA has two Kaldi data
directories, train and dev (or valid). The learning rate, its schedule and the number of epochs come from
update/fine_tune; --config and --set change them and anything else, such as --config adapter/lora. If you run the same
command again, finished stages are skipped and training continues.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from espnet_diverse.bin.options import options
from espnet_diverse.bin.options.input_paths import SETS_DIR, TOKENS_DIR
from espnet_diverse.errors import ConfigError, DataError

_VALID = ("dev", "valid")
_UPDATE = ("optim", "scheduler")
_OF_RUN = ("max_epoch", "patience", "early_stopping_criterion", "keep_nbest_models", "num_iters_per_epoch", "repulsion")
_FROZEN = ("freeze_param", "unfreeze_param")


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
    parser.add_argument("--number", type=int, default=3, help="number of best epochs to average (default: 3)")
    parser.add_argument("--ngpu", type=int, default=0, help="GPUs of this machine, with one process each")
    parser.add_argument("--nproc", type=int, default=1, help="processes of this machine on the CPU (default: 1)")
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
    """Write the configuration to begin with, and run the commands that have not finished."""
    sets = sets_of(args.data_dir)
    if args.output_dir.resolve() == args.model_dir.resolve():
        raise ConfigError(f"{args.output_dir}: is the directory of the model itself; give another one")
    from espnet_diverse.bin.train.plan import run_steps
    from espnet_diverse.runs.config import merge, save
    from espnet_diverse.runs.model_files import find_weights
    from espnet_diverse.runs.tasks import load_model, read_config
    from espnet_diverse.runs.training_config import training_config
    from espnet_diverse.training.data.run_data import Tokens
    from espnet_diverse.training.stages import check_vocabulary

    config = read_config(args.model_dir / "config.yaml")
    task, weights = config.get("task", "asr"), find_weights(args.model_dir, args.model_file, config)
    start = args.output_dir / "start.yaml"
    begun = {key: value for key, value in training_config(config).items() if not _is_left_out(key, config)}
    load_model(args.model_dir, weights, task=task)  # refuses sizes that the weights do not have, before memory is spent
    save(begun | ({"init_known_tokens": True} if args.tokens_dir else {}), start)
    fragments = [str(start.absolute()), "update/fine_tune", *options.fragments(args)]
    shared = ["--config", ",".join(fragments), *(f"--set={change}" for change in args.set), *sets]
    shared += ["--task", task, *_tokens(args, config)]
    training = ["--init_param", weights, "--ngpu", args.ngpu, "--nproc", args.nproc, *_continuing(args)]
    collecting = training[:2] if merge(fragments, args.set).get("keep_features") else []
    steps = stages(args.output_dir, shared, training, args.number, args.debug, collecting)
    if args.dry_run:  # otherwise `stats` begins with it
        data = options.run_data(steps[0].args)
        check_vocabulary(merge(fragments, args.set), data, Tokens.load(data))
    code = run_steps(steps, args.output_dir / ".stamps", args.dry_run)
    if args.dry_run:
        print("not checked: the audio, and the model that the configuration makes; stats checks them first")
    return code


def stages(
    output_dir: Path,
    shared: list[str],
    training: Sequence[object],
    number: int,
    debug: bool = False,
    collecting: Sequence[object] = (),
) -> list:
    """The steps of a plan that make a model: statistics, training and the average of the best epochs.

    Args:
        output_dir: Directory of the run.
        shared: Options of the configuration, the data and the vocabulary.
        training: Further options of `train`.
        number: Number of epochs to average.
        debug: Whether an error of a step is raised, with its traceback, and not printed.
        collecting: Further options of `stats`.
    """
    from espnet_diverse.bin.plan_steps import PROGRAM, make_step

    stats = output_dir / "stats"
    commands = {
        "stats": [*shared, "--output_dir", stats, *collecting],
        "train": [*shared, "--stats_dir", stats, "--output_dir", output_dir, *training],
        "average": [output_dir, "--number", number],
    }
    debugged = ["--debug"] if debug else []
    return [make_step(name, [PROGRAM, name, *map(str, words), *debugged]) for name, words in commands.items()]


def _continuing(args: argparse.Namespace) -> list[str]:
    """The options of `train` for a run that exists already."""
    allowed = ["--allow_changed", *args.allow_changed] if args.allow_changed else []
    return allowed + (["--restart"] if args.restart else [])


def sets_of(data_dir: Path) -> list[str]:
    """The options that name the data directories train and dev, or valid, of a folder.

    Raises:
        DataError: The folder lacks one of them.
    """
    if found := _sets_in(data_dir):
        return ["--train_dir", str(found[0]), "--valid_dir", str(found[1])]
    todo = "write them with espnet-diverse prepare, which divides data into sets"
    if _sets_in(data_dir.absolute().parent):
        todo = f"give the folder of all sets, {data_dir.parent}"
    raise DataError(f"{data_dir}: needs two data directories, train and dev; {todo}")


def _sets_in(folder: Path) -> tuple[Path, Path] | None:
    """The data directories to train and to validate on of a folder."""
    valid = next((folder / name for name in _VALID if (folder / name).is_dir()), None)
    return (folder / "train", valid) if (folder / "train").is_dir() and valid is not None else None


def _is_left_out(key: str, config: dict) -> bool:
    """Return whether a key belongs to the model's own training and not to its fine-tuning."""
    return key.startswith(_UPDATE) or key in _OF_RUN or key in _FROZEN and not config.get("use_adapter")


def _tokens(args: argparse.Namespace, config: dict) -> list[str]:
    """The options that name the vocabularies; for a model of ESPnet they are made from its configuration."""
    from espnet_diverse.runs.packed.run_files import make_vocabularies

    own = args.model_dir
    if not (own / "tokens.yaml").is_file():
        own = args.output_dir / "tokens"
        make_vocabularies(config, own)
    if not (own / "tokens.yaml").is_file() and args.tokens_dir is None:
        kind = f"a vocabulary of type {config.get('token_type')}, with which this package does not train"
        raise ConfigError(
            f"{args.model_dir}: has {kind}; make another with espnet-diverse tokens, and give --tokens_dir"
        )
    source = ["--src_tokens_dir", str(own / "src_tokens")] if (own / "src_tokens" / "tokens.yaml").is_file() else []
    return ["--tokens_dir", str(args.tokens_dir or own), *source]
