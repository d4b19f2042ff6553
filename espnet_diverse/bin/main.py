"""The `espnet-diverse` command: one small module for each subcommand, imported only when it is called."""

import argparse
import atexit
import importlib
import io
import logging
import os
import select
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from espnet_diverse import __version__
from espnet_diverse.bin.options.arguments import from_args
from espnet_diverse.bin.options.input_paths import check_paths
from espnet_diverse.bin.options.parser import Parser
from espnet_diverse.bin.options.shadowed import shadowing_file
from espnet_diverse.bin.options.terminal import Terminal, is_terminal
from espnet_diverse.cpu.allocator import keep_freed_memory
from espnet_diverse.cpu.machine import KERNELS_VARIABLE
from espnet_diverse.errors import InterruptedRunError, UserError
from espnet_diverse.option_checks import hint
from espnet_diverse.process_state import environment
from espnet_diverse.registration import fast_start

COMMANDS = {
    "prepare": ("data.prepare", "read a corpus and write Kaldi data directories"),
    "validate": ("data.validate", "check data directories and list all of their faults"),
    "combine": ("data.combine", "combine data directories into one and record their domains"),
    "augment": ("data.augment", "translate monolingual text into additional training data"),
    "tokens": ("data.tokens", "build the vocabulary of a data directory"),
    "shortlist": ("data.shortlist", "estimate which tokens translate which, for faster translation"),
    "stats": ("train.stats", "collect feature statistics and shapes"),
    "train": ("train.train", "train a model"),
    "fine-tune": ("train.fine_tune", "fine-tune a model on other data: stats, train and average in one command"),
    "average": ("train.average", "average the best checkpoints of a training run"),
    "prune": ("train.prune", "reduce a model with head selection or LoRA to one language or domain"),
    "adopt": ("train.adopt", "convert a trained softmax model to another attention or head selection"),
    "pack": ("train.pack", "pack a model into one file with a model card"),
    "export": ("data.export", "export a model as safetensors or ONNX, or data to lhotse"),
    "decode": ("use.decode", "decode a data directory"),
    "rescore": ("use.rescore", "rerank n-best hypotheses with a language model or another model"),
    "transcribe": ("use.transcribe", "transcribe audio files, folders or standard input"),
    "align": ("use.align", "find the times of words and characters of a known text by forced alignment"),
    "translate": ("use.translate", "translate text line by line"),
    "demo": ("use.demo", "serve a local web page: transcribe or translate, and plot attention heads"),
    "serve": ("use.serve", "serve models to other programs: OpenAI's API and a websocket"),
    "score": ("report.score", "score hypotheses against references"),
    "classify": ("use.classify", "classify texts; writes classes, confidences, accuracy and calibration"),
    "latent": ("use.latent", "codes, bound, samples and interpolations of a variational autoencoder of text"),
    "perplexity": ("use.perplexity", "compute the perplexity of texts under a language model"),
    "contest": ("train.contest", "find the best attention for your data: train, score, compare, report"),
    "plan": ("train.plan", "run the stages of a recipe in one process and skip finished ones"),
    "figure": ("report.figure", "plot the attention heads of a model on one utterance, and head selection in training"),
    "analyse": ("report.analyse", "measure redundancy, clusters and queries of attention heads; writes an HTML report"),
    "compare": (
        "report.compare",
        "compare runs by size, tokens per second and scores by language; writes a table and a plot",
    ),
}

_NO_READER = 141  # the exit code of a program that ends by SIGPIPE

_CONTINUING = {"prepare", "train", "fine-tune", "decode", "augment", "plan", "contest"}
"""Commands that keep what an interrupted call has done: downloads, checkpoints, utterances, stages, runs. The others
start again."""


_CHECKING = {"prepare", "train", "validate"}
"""Commands that check their outputs themselves: `prepare` checks its sets, a run may continue with its own
configuration, and a list of faults may be written next to the tables."""


_TAKING = ("inputs", "outputs", "check", "check_machine", "run")
"""Functions of the module of a command that take its options."""


def _parser() -> argparse.ArgumentParser:
    lines = "\n".join(f"  {name:<10} {text}" for name, (_, text) in COMMANDS.items())
    parser = Parser(
        prog="espnet-diverse",
        description="Diverse attention for ESPnet.",
        epilog=f"commands:\n{lines}\n\n'espnet-diverse COMMAND --help' lists the options of a command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"espnet-diverse {__version__}")
    parser.add_argument("command", metavar="COMMAND", help="one of the commands below")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="CommandOptions", help=argparse.SUPPRESS)
    return parser


def command_parser(name: str, parser_class: type[argparse.ArgumentParser] = Parser):
    """The module of the subcommand `name` and its parser.

    Every subcommand module has `add_arguments(parser)` and `run(args) -> int`; if it has a dataclass CommandOptions,
    its functions take that, read from the arguments. See also `plan_steps.Subcommand`. A module whose `run` opens
    packed models itself sets `OPENS_PACKED_MODELS`.
    """
    module = importlib.import_module(f"espnet_diverse.bin.{COMMANDS[name][0]}")
    parser = parser_class(prog=f"espnet-diverse {name}", description=module.__doc__)
    module.add_arguments(parser)
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return _Reading(module) if hasattr(module, "CommandOptions") else module, parser


class _Reading:
    """A module of a command whose functions take its options, which are read from the arguments that they are given."""

    def __init__(self, module: ModuleType):
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        if name not in _TAKING:
            return value
        return lambda args, *others: value(from_args(self._module.CommandOptions, args), *others)


def run_command(name: str, arguments: list[str]) -> int:
    """Parse `arguments` for the subcommand `name` and run it; return its exit code."""
    args, model, parser = argparse.Namespace(debug="--debug" in arguments), None, None
    try:
        logging.basicConfig(format=f"espnet-diverse {name}: %(message)s")  # where the calling program has no handler
        module, parser = command_parser(name)
        args = parser.parse_intermixed_args(arguments)
        model = getattr(args, "model_dir", None)
        check_paths(parser._actions, args)
        if not getattr(module, "OPENS_PACKED_MODELS", False):
            _unpack_model(args)
        if name not in _CHECKING and hasattr(module, "inputs") and hasattr(module, "outputs"):
            from espnet_diverse.data.output_paths import check_outputs

            packed = [model] if model is not None and args.model_dir != model else []
            check_outputs(module.outputs(args), [*module.inputs(args), *packed])
        with environment(**{KERNELS_VARIABLE: getattr(args, "kernels", None)}):
            code = module.run(args)
        sys.stdout.flush()  # here, where an error of the stream is told and decides about the code
        return code
    except (UserError, OSError, KeyboardInterrupt) as error:
        if isinstance(error, BrokenPipeError) and _reader_has_gone():
            return _NO_READER
        if args.debug:
            raise
        message, code = _explain(name, error)
        archive = sys.modules.get("espnet_diverse.runs.packed.archive")  # the user knows the packed model alone
        for folder, packed in archive.opened.items() if archive else ():
            message = message.replace(str(folder), str(packed))
        several = parser and isinstance(error, UserError) and parser.several(message)
        print(f"espnet-diverse {name}: {message}{several and f'; {several}' or ''}", file=sys.stderr)
        return code
    except (ImportError, AttributeError) as error:
        if args.debug or (file := shadowing_file(error)) is None:
            raise
        reason = f"error: {file} is imported in place of a library of this name; rename it, or change PYTHONPATH"
        print(f"espnet-diverse {name}: {reason}", file=sys.stderr)
        return 1


def _settle_streams() -> None:
    """Write UTF-8 in every locale, as in files, and write no control characters of foreign text to a terminal.

    Where a standard stream is closed, nothing is read or written.
    """
    for name in ("stdout", "stderr"):
        if (stream := getattr(sys, name)) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115, open until the end
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=stream.errors)
            if is_terminal(stream):
                setattr(sys, name, Terminal(stream))
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))


def _reader_has_gone() -> bool:
    """Return whether nobody reads stdout any more, as after `| head`; Python would print a traceback on exit."""
    try:
        descriptor = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):  # the stream is not a file, or is closed
        return False
    poll = select.poll()
    poll.register(descriptor, 0)
    if not any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0)):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)  # where the rest of the output goes
    return True


def _unpack_model(args: argparse.Namespace) -> None:
    """Replace a packed model, a name, or a Whisper model, given as MODEL by the directory that it is unpacked to.

    Raises:
        ModelError: The model is not valid.
    """
    model_dir = getattr(args, "model_dir", None)
    is_data = getattr(args, "format", None) == "lhotse"  # `export lhotse` takes a data directory as MODEL
    from espnet_diverse.runs.model_files import is_whisper  # not for --help

    if model_dir is not None and not is_data and (not model_dir.is_dir() or is_whisper(model_dir)):
        from espnet_diverse.runs.packed.archive import unpacked  # imports PyTorch, which takes seconds

        args.model_dir = unpacked(model_dir)


def _explain(name: str, error: BaseException) -> tuple[str, int]:
    """One line for the user, and the exit code."""
    if isinstance(error, KeyboardInterrupt):
        return f"interrupted{'; run the same command again to continue' if name in _CONTINUING else ''}", 130
    if isinstance(error, InterruptedRunError):
        return str(error), error.exit_code
    if isinstance(error, UserError):
        return f"error: {error}", error.exit_code
    path = f"{error.filename}: " if error.filename else ""
    return f"error: {path}{error.strerror or error}", 1


def main(arguments: list[str] | None = None) -> int:
    """Entry point of the console script; returns the exit code.

    0 success, 1 error, also of usage, 2 finished with skipped items, 75 training was stopped by a signal and can be
    resumed, 130 interrupted, 141 nobody reads the output any more.
    """
    if "_ARGCOMPLETE" in os.environ:
        from espnet_diverse.bin.options.completion import complete

        complete({name: text for name, (_, text) in COMMANDS.items()}, command_parser)
    _settle_streams()
    atexit.register(_reader_has_gone)  # also for --help, which ends the process
    parser = _parser()
    if not (sys.argv[1:] if arguments is None else arguments):
        parser.print_help()
        return 1
    args = parser.parse_args(arguments)
    if args.command not in COMMANDS:
        known = hint(args.command, list(COMMANDS), "espnet-diverse")
        parser.exit(1, f"{parser.prog}: error: unknown command {args.command!r}; {known}\n")
    keep_freed_memory()  # here and not above, so that an import of this module does not change the process
    fast_start()
    return run_command(args.command, args.arguments)


if __name__ == "__main__":
    sys.exit(main())
