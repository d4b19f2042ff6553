"""Find the best attention for your data: train several methods at equal budget, and compare them.

METHOD is a list of configuration fragments joined by commas, such as attention/sdma, or NAME=FRAGMENTS; the first one
is the baseline. All methods are trained with each seed, decoded and scored; contest.html and contest.md show their
differences with intervals over seeds and over sentences, their costs, learning curves and the redundancy of their
heads. The methods are first timed with a few batches, to estimate how long the contest will take. To resume a contest
that was stopped or killed, run the same command: finished runs are not trained again.
"""

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from espnet_diverse.bin.options import options
from espnet_diverse.bin.options.input_paths import SETS_DIR, TOKENS_DIR
from espnet_diverse.errors import ConfigError, prefixed

if TYPE_CHECKING:
    from espnet_diverse.contest.settings import Contest
    from espnet_diverse.scoring.metric import Metric


_SET_HERE = {
    *("--config", "--set", "--seed", "--tag", "--init_param", "--stage", "--stop_stage", "--dry_run"),
    *("--nj", "--ngpu", "--cluster", "--average_number"),
    *("--test_sets", "--decode_config", "--metric", "--score_options"),
}
"""Options of run.sh that this command sets."""
_SCORED_HERE = ("reference", "hypothesis", "plain", "output_dir", "metric", "baseline")
"""Options of `score` that this command sets."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.add_argument("methods", nargs="*", metavar="METHOD", help="fragments of a method, or NAME=FRAGMENTS")
    parser.add_argument(
        "--runs",
        type=Path,
        metavar="FILE",
        help="YAML of more methods by name, each with fragments, and optionally set, seeds and init_param",
    )
    options.add_output_dir(parser, "directory of the contest")
    options.add_config(parser, required=False)
    _add_data(parser)
    _add_budget(parser)
    _add_scores(parser)
    _add_conduct(parser)


def _add_data(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("data", "of a folder of data directories, or of a recipe")
    group.add_argument("--data_dir", type=SETS_DIR, metavar="DIR", help="folder of the data directories of all sets")
    group.add_argument("--task", choices=options.TASKS, help="task of the models (default: asr)")
    group.add_argument("--train_set", default="train", help="set to train on (default: train)")
    group.add_argument("--valid_set", default="dev", help="set to validate on (default: dev)")
    group.add_argument("--tokens_dir", type=TOKENS_DIR, help="vocabulary (default: made from the training texts)")
    group.add_argument(
        "--token_type", default="char", help="type of the vocabulary: char, bpe or unigram (default: char)"
    )
    group.add_argument("--vocab_size", type=int, help="number of tokens (bpe and unigram only)")
    group.add_argument("--recipe", type=Path, metavar="DIR", help="folder of a recipe, such as egs/aishell/asr1")
    group.add_argument("--recipe_options", default="", metavar="WORDS", help="options of its run.sh, in quotes")


def _add_budget(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("budget", "the same for all methods")
    group.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds (default: 0 1 2)")
    group.add_argument("--epochs", type=int, help="number of epochs (default: max_epoch of the configuration)")
    group.add_argument("--updates", type=int, help="number of updates, divided among the epochs")
    group.add_argument(
        "--patience", type=int, help="end a run after this many epochs without an improvement (default: never)"
    )
    group.add_argument(
        "--drop_behind",
        type=float,
        metavar="POINTS",
        help="give a method no further seeds once it is this far behind the baseline on the first of --test_sets "
        "(default: all get all seeds)",
    )


def _add_scores(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("decoding and scores")
    group.add_argument(
        "--test_sets", nargs="+", default=["dev", "test"], help="sets to decode and score (default: dev test)"
    )
    group.add_argument("--decode_config", metavar="A,B", help="fragments of the search (default: its defaults)")
    group.add_argument("--average_number", type=int, help="number of epochs to average (default: 3, or the recipe's)")
    group.add_argument(
        "--metric",
        help="metric (default: cer; for translation bleu; for language models word_perplexity; for classes accuracy)",
    )
    group.add_argument(
        "--score_options", default="", metavar="WORDS", help="further options of `espnet-diverse score`, in quotes"
    )
    group.add_argument(
        "--analyse", type=int, default=20, metavar="N", help="utterances to analyse heads on; 0 for none (default: 20)"
    )


def _add_conduct(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("conduct")
    group.add_argument("--jobs", type=int, default=1, help="runs at the same time (default: 1)")
    group.add_argument("--nj", type=int, default=1, help="processes that decode a set on the CPU (default: 1)")
    group.add_argument("--ngpu", type=int, default=0, help="GPUs of a run (default: 0)")
    group.add_argument(
        "--cluster", default="", metavar="NAME_OR_FILE", help="cluster for statistics and decoding, see docs/scale.md"
    )
    group.add_argument("--minutes", type=float, help="stop after this time; the same command continues")
    group.add_argument(
        "--timing", type=int, default=10, metavar="N", help="batches of both trial epochs; 0: no trial (default: 10)"
    )
    only = group.add_mutually_exclusive_group()
    only.add_argument("--dry_run", action="store_true", help="only time the methods, and print how long it will take")
    only.add_argument("--only_report", action="store_true", help="train nothing; write the report of finished runs")


def run(args: argparse.Namespace) -> int:
    """Carry out the contest."""
    from espnet_diverse.bin.options.cluster_option import check_nj
    from espnet_diverse.contest.contest import Conduct, carry_out

    check_nj(args.nj)
    conduct = Conduct(args.jobs, args.minutes, args.timing, args.analyse, args.drop_behind)
    contest = _contest(args)
    metric = _metric(contest)
    if not args.only_report:
        _check_configurations(contest)
    only = "times" if args.dry_run else "report" if args.only_report else ""
    return carry_out(contest, conduct, metric, only)


def _contest(args: argparse.Namespace) -> "Contest":
    from espnet_diverse.contest.runs import MEASURED_BY_DECODING
    from espnet_diverse.contest.settings import METRICS, Budget, Contest, methods, recipe_config, recipe_default

    if (args.data_dir is None) == (args.recipe is None):
        raise ConfigError("give the data: either --data_dir, the folder of data directories, or --recipe")
    if args.recipe is None and not args.config:
        raise ConfigError("give the configuration that all methods share, --config model/small,mine.yaml")
    task, words = args.task or "asr", _words(args.recipe_options, "--recipe_options")
    score_options, synthetic = args.score_options, "synthetic" in words
    if args.recipe is not None:
        _refuse_of_data(args)
        task = args.recipe.resolve().name.rstrip("0123456789")
        if task not in METRICS:
            raise ConfigError(f"--recipe {args.recipe}: its task {task!r} has no contest; known: {' '.join(METRICS)}")
        words = _of_recipe(args, words)
    metric = args.metric or METRICS[task]
    if MEASURED_BY_DECODING.get(metric) != MEASURED_BY_DECODING.get(METRICS[task]):
        raise ConfigError(f"--metric {metric}: is not measured for task {task}; leave it out for {METRICS[task]}")
    if args.recipe is not None and not score_options and metric not in MEASURED_BY_DECODING:
        score_options = recipe_default(args.recipe, "score_options", synthetic)
    return Contest(
        output_dir=args.output_dir,
        methods=methods(args.methods, args.runs, args.set),
        seeds=args.seeds,
        shared=_shared(args, task)
        | {
            "config": args.config or recipe_config(args.recipe, synthetic),
            "metric": metric,
            **({"score_options": score_options} if score_options else {}),
        },
        budget=Budget(args.epochs, args.updates, args.patience),
        data_dir=args.data_dir,
        recipe=args.recipe and args.recipe.resolve(),
        recipe_options=words,
    )


def _refuse_of_data(args: argparse.Namespace) -> None:
    """Refuse options of data directories if a recipe is given, which has its own."""
    given = {"task": None, "tokens_dir": None, "vocab_size": None, "token_type": "char"}
    given |= {"train_set": "train", "valid_set": "dev"}
    for name, default in given.items():
        if getattr(args, name) != default:
            raise ConfigError(f"--{name} is for --data_dir; with --recipe give --recipe_options '--{name} ...'")


def _of_recipe(args: argparse.Namespace, words: list[str]) -> list[str]:
    """Options of run.sh: the given ones, and the number of epochs to average."""
    if own := [word for word in words if word in _SET_HERE]:
        raise ConfigError(f"--recipe_options: {own[0]} is set by contest itself; give the options of contest")
    return [*words, *(["--average_number", str(args.average_number)] if args.average_number is not None else [])]


def _shared(args: argparse.Namespace, task: str) -> dict:
    """Settings that the runs share, see `DataRun`."""
    names = ("tokens_dir", "token_type", "vocab_size", "nj", "ngpu", "cluster")
    shared = {name: getattr(args, name) for name in names} | {"average_number": args.average_number or 3}
    shared |= {"task": task, "train": args.train_set, "valid": args.valid_set, "sets": args.test_sets}
    if args.decode_config:
        shared["decode_config"] = args.decode_config
    return shared


def _check_configurations(contest: "Contest") -> None:
    """Check the configurations of all methods before the first one is trained."""
    runs = {run.name: run for run in contest.runs()}
    contest.check_data()
    from espnet_diverse.runs.config import CONF_DIR
    from espnet_diverse.training.config.early_check import check_early

    task = {"nar": "mt"}.get(contest.shared["task"], contest.shared["task"])
    search = [contest.recipe or Path(), CONF_DIR]
    for name, run in runs.items():
        with prefixed(f"method {name}"):
            check_early(run.config.split(","), run.settings["set"], task, search)


def _words(text: str, option: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"{option} {text}: {error}; close what is opened") from error


def _metric(contest: "Contest") -> "Metric | None":
    """The metric with the options of scoring; None if decoding measures it."""
    from espnet_diverse.bin.report import score
    from espnet_diverse.contest.runs import MEASURED_BY_DECODING
    from espnet_diverse.scoring.build import build_metrics

    name = contest.shared["metric"]
    if name in MEASURED_BY_DECODING:
        return None
    parser = argparse.ArgumentParser(prog="espnet-diverse contest --score_options", exit_on_error=False)
    score.add_arguments(parser)
    fixed = ["--reference", "", "--hypothesis", "", "--output_dir", "", "--metric", name]
    try:
        words = fixed + _words(contest.shared.get("score_options", ""), "--score_options")
        (args, unknown), fixed = parser.parse_known_args(words), parser.parse_args(fixed)
    except argparse.ArgumentError as error:
        raise ConfigError(f"--score_options: {error}; espnet-diverse score --help lists them") from error
    if unknown:
        raise ConfigError(f"--score_options: unknown {unknown[0]}; espnet-diverse score --help lists them")
    if own := [option for option in _SCORED_HERE if getattr(args, option) != getattr(fixed, option)]:
        raise ConfigError(f"--score_options: --{own[0]} is set by contest itself; give the options of contest")
    score.check(args, {})
    how = args.count_spaces, args.normalise, args.tokenize, score.embedder(args), args.spelling
    return build_metrics([name], *how)[name]
