"""Find the best attention for your data: train several methods at equal budget, and compare them.

METHOD is a list of configuration fragments joined by commas, such as attention/sdma, or NAME=FRAGMENTS; the first one
is the baseline. All methods are trained with each seed, decoded and scored; contest.html and contest.md show their
differences with intervals over seeds and over sentences, their costs, learning curves and the redundancy of their
heads. The methods are first timed with a few batches, to estimate how long the contest will take. To resume a contest
that was stopped or killed, run the same command: finished runs are not trained again.
"""

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from espnet_diverse.bin.options import options as shared
from espnet_diverse.bin.options.arguments import Arguments, add_options, from_args, part
from espnet_diverse.bin.options.input_paths import SETS_DIR, TOKENS_DIR
from espnet_diverse.contest.options import Budget, Conduct
from espnet_diverse.errors import ConfigError, prefixed
from espnet_diverse.option_checks import choice, flag, listed, number, path, text

if TYPE_CHECKING:
    from espnet_diverse.contest.settings import Contest
    from espnet_diverse.scoring.metric import Metric


_SET_HERE = {
    *("--config", "--set", "--seed", "--tag", "--init_param", "--stage", "--stop_stage", "--dry_run"),
    *("--nj", "--ngpu", "--cluster", "--average_number"),
    *("--test_sets", "--decode_config", "--metric", "--score_options"),
}
"""Options of run.sh that this command sets."""
_PATHS = ("--corpus_dir", "--bert")
"""Options of run.sh that are relative to the folder in which the user starts it."""
_SCORED_HERE = ("reference", "hypothesis", "plain", "output_dir", "metric", "baseline")
"""Options of `score` that this command sets."""
_AVERAGED = 3  # epochs


class DataOptions(Arguments):
    """The data and the vocabulary: of a folder of data directories, or of a recipe."""

    data_dir: Path | None = path(None, parse=SETS_DIR, metavar="DIR", help="folder of the data directories of all sets")
    task: str | None = choice(*shared.SCORED_TASKS, none=True, help="task of the models", shown="asr")
    train_set: str = text("train", help="set to train on")
    valid_set: str = text("dev", help="set to validate on")
    tokens_dir: Path | None = path(None, parse=TOKENS_DIR, help="vocabulary", shown="made from the training texts")
    token_type: str = text("char", help="type of the vocabulary: char, byte, bpe or unigram")
    vocab_size: int | None = number(None, kind=int, help="number of tokens (bpe and unigram only)")
    recipe: Path | None = path(None, metavar="DIR", help="folder of a recipe, such as egs/aishell/asr1")
    recipe_options: str = text("", metavar="WORDS", help="options of its run.sh, in quotes")


class ScoringOptions(Arguments):
    """Decoding and scores."""

    test_sets: Sequence[str] = listed(("dev", "test"), help="sets to decode and score")
    decode_config: str | None = text(None, metavar="A,B", help="fragments of the search", shown="its defaults")
    average_number: int | None = number(
        None, kind=int, least=1, help="number of epochs to average", shown=f"{_AVERAGED}, or the recipe's"
    )
    metric: str | None = text(
        None,
        help="metric",
        shown="cer; for translation bleu; for language models word_perplexity; for classes accuracy",
    )
    score_options: str = text("", metavar="WORDS", help="further options of `espnet-diverse score`, in quotes")


class CommandOptions(DataOptions, ScoringOptions, shared.Configured):
    methods: Sequence[str] = listed(
        (), nargs="*", positional=True, metavar="METHOD", help="fragments of a method, or NAME=FRAGMENTS"
    )
    runs: Path | None = path(
        None,
        metavar="FILE",
        help="YAML of more methods by name, each with fragments, and optionally set, seeds and init_param",
    )
    output_dir: Path = path(help="directory of the contest")
    budget: Budget = part(Budget)
    conduct: Conduct = part(Conduct)
    seeds: Sequence[int] = listed((0, 1, 2), of=number(0), help="seeds")
    nj: int = number(1, least=1, help="processes that decode a set on the CPU")
    ngpu: int = number(0, help="GPUs of a run")
    cluster: str = text("", metavar="NAME_OR_FILE,...", help="cluster for statistics and decoding, see docs/scale.md")
    dry_run: bool = flag(help="only time the methods, and print how long it will take")
    only_report: bool = flag(help="train nothing; write the report of finished runs")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    add_options(parser, CommandOptions, "methods", "runs", "output_dir")
    shared.add_config(parser, required=False)
    data = parser.add_argument_group("data", "of a folder of data directories, or of a recipe")
    add_options(data, DataOptions)
    budget = parser.add_argument_group("budget", "the same for all methods")
    add_options(budget, CommandOptions, "seeds")
    add_options(budget, Budget)
    add_options(budget, Conduct, "drop_behind")
    scores = parser.add_argument_group("decoding and scores")
    add_options(scores, ScoringOptions)
    add_options(scores, Conduct, "utterances")
    conduct = parser.add_argument_group("conduct")
    add_options(conduct, Conduct, "jobs")
    add_options(conduct, CommandOptions, "nj", "ngpu", "cluster")
    add_options(conduct, Conduct, "minutes", "timing")
    add_options(conduct.add_mutually_exclusive_group(), CommandOptions, "dry_run", "only_report")


def run(options: CommandOptions) -> int:
    """Carry out the contest."""
    from espnet_diverse.contest.contest import carry_out

    contest = _contest(options)
    metric = _metric(contest)
    if not options.only_report:
        _check_configurations(contest)
    only = "times" if options.dry_run else "report" if options.only_report else ""
    return carry_out(contest, options.conduct, metric, only)


def _contest(options: CommandOptions) -> "Contest":
    from espnet_diverse.contest.runs import MEASURED_BY_DECODING
    from espnet_diverse.contest.settings import METRICS, Contest, methods, recipe_config, recipe_default

    if (options.data_dir is None) == (options.recipe is None):
        raise ConfigError("give the data: either --data_dir, the folder of data directories, or --recipe")
    if options.recipe is None and not options.config:
        raise ConfigError("give the configuration that all methods share, --config model/small,mine.yaml")
    task, words = options.task or "asr", _words(options.recipe_options, "--recipe_options")
    score_options, synthetic = options.score_options, "synthetic" in words
    if options.recipe is not None:
        _refuse_of_data(options)
        task = options.recipe.resolve().name.rstrip("0123456789")
        if task not in METRICS:
            raise ConfigError(
                f"--recipe {options.recipe}: its task {task!r} has no contest; known: {' '.join(METRICS)}"
            )
        words = _of_recipe(options, words)
    elif words:
        raise ConfigError(f"--recipe_options {options.recipe_options}: is for --recipe; leave it out")
    _check_programs(options)
    metric = options.metric or METRICS[task]
    if MEASURED_BY_DECODING.get(metric) != MEASURED_BY_DECODING.get(METRICS[task]):
        raise ConfigError(f"--metric {metric}: is not measured for task {task}; leave it out for {METRICS[task]}")
    shared = _shared(options, task)
    if options.recipe is not None and options.test_sets == CommandOptions.test_sets:
        shared["sets"] = recipe_default(options.recipe, "test_sets", synthetic).split() or shared["sets"]
    if options.recipe is not None and not score_options and metric not in MEASURED_BY_DECODING:
        score_options = recipe_default(options.recipe, "score_options", synthetic)
    return Contest(
        output_dir=options.output_dir,
        methods=methods(options.methods, options.runs, options.set),
        seeds=list(options.seeds),
        shared=shared
        | {
            "config": options.config or recipe_config(options.recipe, synthetic),
            "metric": metric,
            **({"score_options": score_options} if score_options else {}),
        },
        budget=options.budget,
        data_dir=options.data_dir,
        recipe=options.recipe and options.recipe.resolve(),
        recipe_options=words,
    )


def _refuse_of_data(options: CommandOptions) -> None:
    """Refuse options of data directories if a recipe is given, which has its own."""
    for name in ("task", "tokens_dir", "vocab_size", "token_type", "train_set", "valid_set"):
        if getattr(options, name) != getattr(CommandOptions, name):
            raise ConfigError(f"--{name} is for --data_dir; with --recipe give --recipe_options '--{name} ...'")


def _of_recipe(options: CommandOptions, words: list[str]) -> list[str]:
    """Options of run.sh, which starts in its own folder: the given ones, and the number of epochs to average."""
    if reserved := [word for word in words if word in _SET_HERE]:
        raise ConfigError(f"--recipe_options: {reserved[0]} is set by contest itself; give the options of contest")
    pairs = zip(["", *words], words, strict=False)
    words = [str(Path(word).absolute()) if option in _PATHS and Path(word).exists() else word for option, word in pairs]
    return [*words, *(["--average_number", str(options.average_number)] if options.average_number is not None else [])]


def _check_programs(options: CommandOptions) -> None:
    """Check what only programs read that start later."""
    from espnet_diverse.cluster.configuration import read_cluster
    from espnet_diverse.runs.config import CONF_DIR, merge
    from espnet_diverse.text.vocabulary import check_type

    check_type(options.token_type)
    if options.decode_config:
        merge(options.decode_config.split(","), search=[options.recipe or Path(), CONF_DIR])
    if options.cluster:
        read_cluster(options.cluster)


def _shared(options: CommandOptions, task: str) -> dict:
    """Settings that the runs share, see `DataRun`."""
    names = ("tokens_dir", "token_type", "vocab_size", "nj", "ngpu", "cluster")
    shared = {name: getattr(options, name) for name in names} | {"average_number": options.average_number or _AVERAGED}
    shared |= {"task": task, "train": options.train_set, "valid": options.valid_set, "sets": list(options.test_sets)}
    # A recipe runs in its own folder.
    names = (name for name in shared["cluster"].split(",") if name)
    shared["cluster"] = ",".join(
        str(Path(name).absolute()) if Path(name).suffix and Path(name).is_file() else name for name in names
    )
    if options.decode_config:
        shared["decode_config"] = options.decode_config
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
    if reserved := [option for option in _SCORED_HERE if getattr(args, option) != getattr(fixed, option)]:
        raise ConfigError(f"--score_options: --{reserved[0]} is set by contest itself; give the options of contest")
    options = from_args(score.CommandOptions, args)
    score.check(options, {})
    return score.metrics_of(options, [name])[name]
