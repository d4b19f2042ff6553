"""Pack the model of a run into one file with a model card; ESPnet can read it, and commands that use a model take it.

The card states what the files of the run contain: parameters, attention, languages, domains, scores and the commands
that produced them. The options below add the rest. LoRA adapters are merged into the weights. With a language or
domain, only its model is packed, as by `prune`. With --push_to the files of the packed model become a repository of the
Hugging Face Hub, which other commands take as hf:owner/name.
"""

import argparse
from pathlib import Path

from espnet_diverse.bin.options import options
from espnet_diverse.bin.options.input_paths import FILE
from espnet_diverse.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    options.add_model(parser)
    options.add_conditions(parser)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE.zip", help="the packed model")
    parser.add_argument(
        "--weights",
        choices=("both", "pth", "safetensors"),
        default="both",
        help="format of the weights: pth, which ESPnet needs, safetensors, or both (default: both)",
    )
    hub = parser.add_argument_group("Hugging Face Hub")
    hub.add_argument(
        "--push_to",
        metavar="OWNER/NAME",
        help="publish the packed model as this repository, by the account of `hf auth login` or $HF_TOKEN (extra hub)",
    )
    hub.add_argument("--private", action="store_true", help="make the repository private if there is none yet")
    about = parser.add_argument_group("model card")
    about.add_argument("--name", default="", help="name of the model (default: name of the directory)")
    about.add_argument("--license", default="", metavar="ID", help="identifier of the licence, such as apache-2.0")
    about.add_argument(
        "--languages",
        nargs="+",
        default=[],
        metavar="CODE",
        help="language codes (default: the languages that the model knows)",
    )
    about.add_argument("--datasets", nargs="+", default=[], metavar="NAME", help="names of the training data sets")
    about.add_argument("--data", default="", metavar="TEXT", help="description of the training data")
    about.add_argument(
        "--results", type=FILE, metavar="RESULTS.md", help="Markdown file with results to include in the card"
    )


def inputs(args: argparse.Namespace) -> list[Path]:
    """Files that are read."""
    return [*options.model_inputs(args), *filter(None, [args.results])]


def outputs(args: argparse.Namespace) -> list[Path]:
    """The file that is written."""
    return [args.output]


def run(args: argparse.Namespace) -> int:
    """Pack and print the path."""
    from espnet_diverse.packing.model_card import Facts
    from espnet_diverse.packing.pack import check_push, pack, push

    if args.push_to is not None:
        check_push(args.push_to)
    elif args.private:
        raise ConfigError("--private is for a repository; give --push_to too")
    facts = Facts(args.name, args.license, args.languages, args.datasets, args.data, args.results, args.push_to or "")
    print(pack(args.model_dir, args.output, facts, args.model_file, args.weights, options.conditions(args)))
    if args.push_to is not None:
        print(push(args.output, args.push_to, args.private))
    return 0
