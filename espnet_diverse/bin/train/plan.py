"""Run the stages of a recipe in one Python process, or estimate what a training would take on another machine.

With FILE: each line of it has the name of a stage, a tab and a command quoted as for a shell; lines that begin with #
are comments. Commands of espnet-diverse run in this process, so that ESPnet is imported once; others run as programs,
without a shell. Finished stages are skipped. A command that fails ends the plan with its exit code. Exit code 2 of a
command of espnet-diverse means that it finished but skipped items: the plan continues, and ends with 2.

With --gpu and --corpus, and without FILE: prints a table of hours, memory, largest batch and disk by attention. Nothing
is trained; some batches are counted, or with --gpu cpu timed. docs/scale.md says how well that predicts.
"""

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

from espnet_diverse.bin.options import options
from espnet_diverse.bin.options.arguments import Arguments, add_options, from_args
from espnet_diverse.bin.options.input_paths import SETS_DIR, TOKENS_DIR
from espnet_diverse.data.lines import read_utf8
from espnet_diverse.errors import ConfigError
from espnet_diverse.option_checks import choice, listed, number, path
from espnet_diverse.stage_runs import Stage, isolated, run_stages


class EstimateOptions(Arguments):
    """The training that is estimated."""

    GROUP = "estimate, without FILE"

    gpu: str | None = choice("h200", "a100", "4090", "cpu", none=True, help="the GPU, or this CPU")
    gpus: int = number(1, least=1, help="GPUs of one machine")
    corpus: Path | None = path(None, parse=SETS_DIR, metavar="DIR", help="folder of the data directories train and dev")
    hours: float | None = number(
        None, above=0, help="hours of training audio of the corpus that DIR is a sample of", shown="those of DIR"
    )
    vocabulary: int | None = number(
        None, kind=int, least=1, metavar="N", help="tokens of that corpus", shown="those of tokens_dir"
    )
    tokens_dir: Path | None = path(
        None, parse=TOKENS_DIR, help="vocabulary", shown="the characters of the training texts"
    )
    attention: Sequence[str] = listed(
        ("softmax",), metavar="A,B", help="names in conf/attention, or fragments joined by commas, one for each row"
    )
    task: str = choice(*options.TASKS, help="task of the model")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.add_argument("file", metavar="FILE", nargs="?", type=Path, help="the plan")
    parser.add_argument(
        "--cache_dir",
        type=Path,
        metavar="DIR",
        help="stage cache, with one record per finished stage (default: .stamps beside FILE)",
    )
    # A plan that run.sh makes and deletes: its name and lines say nothing to a user.
    parser.add_argument("--generated", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--dry_run", action="store_true", help="only print the commands that would run now")
    add_options(parser, EstimateOptions)
    options.add_config(parser, required=False)


def run(args: argparse.Namespace) -> int:
    """Run the plan, after checking all lines and whatever the commands can check in advance; or print the estimate."""
    if args.file is None:
        print(_estimate(args))
        return 0
    if args.gpu or args.corpus:
        raise ConfigError(f"{args.file}: a plan has no --gpu and --corpus; give FILE, or these two")
    return run_stages(_read(args.file, args.generated), args.cache_dir or args.file.parent / ".stamps", args.dry_run)


def _estimate(args: argparse.Namespace) -> str:
    """The table of an estimate."""
    settings = from_args(EstimateOptions, args)
    if settings.gpu is None or settings.corpus is None:
        raise ConfigError("give FILE, the plan to run, or --gpu and --corpus, to estimate a training")
    from espnet_diverse.training.pipeline import sets_of
    from espnet_diverse.training.planning.table import Planned

    with isolated("plan"):
        return Planned(
            shared={**sets_of(settings.corpus), "set": args.set, "task": settings.task},
            fragments=options.fragments(args),
            attentions=settings.attention,
            gpu=settings.gpu,
            gpus=settings.gpus,
            tokens_dir=settings.tokens_dir,
            vocabulary=settings.vocabulary,
            hours=settings.hours,
        ).table()


def _read(file: Path, generated: bool = False) -> list[Stage]:
    """Read the steps of a plan, one per line; errors name the file, unless it was generated, and the stage."""
    from espnet_diverse.bin.plan_steps import make_step

    try:
        lines = read_utf8(file, f"plan {file}", error=ConfigError).split("\n")
    except FileNotFoundError as error:
        raise ConfigError(f"plan {file} is not found; give the path of an existing plan") from error
    steps: list[Stage] = []
    for row, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        stage, _, command = line.partition("\t")
        try:
            argv = shlex.split(command)
            if not (stage.strip() and argv):
                raise ConfigError("has no command; write the name of the stage, a tab and the command")
            steps.append(make_step(stage.strip(), argv))
        except ValueError as error:  # a UserError, or an unclosed quote found by shlex
            where = "" if generated else f"{file}:{row}: "
            raise ConfigError(f"{where}stage {stage.strip()!r}: {error}") from error
    return steps
