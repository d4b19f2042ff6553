"""The `espnet-diverse` command: one small module a subcommand, imported only when it is called for."""

import argparse
import importlib
import sys

from espnet_diverse.errors import UserError
from espnet_diverse.registration import fast_start

COMMANDS = {
    "prepare": "read a corpus and write Kaldi data directories",
    "combine": "make one data directory of several, noting their domains",
    "augment": "translate monolingual text into data to train with",
    "tokens": "make the vocabulary of a data directory",
    "stats": "collect feature statistics and shapes",
    "train": "train a model",
    "average": "average the best checkpoints of a training run",
    "prune": "cut the model of one language or domain out of a model with head selection",
    "pack": "pack a model into one file with a model card",
    "export": "write the weights of a model as safetensors, or its encoder and CTC as ONNX",
    "decode": "decode a data directory",
    "transcribe": "transcribe audio files, folders or standard input",
    "translate": "translate text, a line at a time",
    "demo": "serve a page on this machine: recognise or translate, and see what the heads do",
    "score": "score hypotheses against references",
    "perplexity": "perplexity of texts under a language model",
    "plan": "run the stages of a recipe in one process, skipping finished ones",
    "figure": "draw what the attention heads of a model do on one utterance",
    "analyse": "measure redundancy, clusters and queries of attention heads; one HTML page",
    "compare": "put runs side by side: sizes, tokens per second, scores by language; one table and picture",
}


def _parser() -> argparse.ArgumentParser:
    lines = "\n".join(f"  {name:<10} {text}" for name, text in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="espnet-diverse",
        description="Diverse attention for ESPnet.",
        epilog=f"commands:\n{lines}\n\n'espnet-diverse COMMAND --help' tells more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", help="one of the commands below")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def command_parser(name: str, parser_class: type[argparse.ArgumentParser] = argparse.ArgumentParser):
    """The module of the subcommand `name` and its parser.

    Every subcommand module has `add_arguments(parser)` and `run(args) -> int`.
    """
    module = importlib.import_module(f"espnet_diverse.bin.{name}")
    parser = parser_class(prog=f"espnet-diverse {name}", description=module.__doc__)
    module.add_arguments(parser)
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return module, parser


def run_command(name: str, arguments: list[str]) -> int:
    """Parse `arguments` for the subcommand `name` and run it; return its exit code."""
    module, parser = command_parser(name)
    args = parser.parse_intermixed_args(arguments)
    try:
        _unpack_model(args)
        return module.run(args)
    except (UserError, OSError, KeyboardInterrupt) as error:
        if args.debug:
            raise
        said, code = _explain(error)
        print(f"espnet-diverse {name}: {said}", file=sys.stderr)
        return code


def _unpack_model(args: argparse.Namespace) -> None:
    """Let --model_dir be a packed model: replace it by the directory of a run that it is unpacked to."""
    model_dir = getattr(args, "model_dir", None)
    if model_dir is not None and model_dir.is_file():
        from espnet_diverse.packing.archive import unpacked

        args.model_dir = unpacked(model_dir)


def _explain(error: BaseException) -> tuple[str, int]:
    """One line for the user, and the exit code."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted; the same command goes on where it can", 130
    if isinstance(error, UserError):
        return f"error: {error}", error.exit_code
    where = f"{error.filename}: " if error.filename else ""
    return f"error: {where}{error.strerror or error}", 1


def main(arguments: list[str] | None = None) -> int:
    """Entry point of the console script; returns the exit code: 0 done, 1 an error, 2 finished with skipped items."""
    args = _parser().parse_args(arguments)
    fast_start()  # here and not above, so that an import of this module changes nothing of the process
    return run_command(args.command, args.arguments)


if __name__ == "__main__":
    sys.exit(main())
