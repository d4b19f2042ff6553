"""Pack the model of a run into one file with a model card; ESPnet can read it, and commands that use a model take it.

The card states what the files of the run contain: parameters, attention, languages, domains, scores and the commands
that produced them. The options below add the rest. LoRA adapters are merged into the weights. With a language or
domain, only its model is packed, as by `prune`. With --push_to the files of the packed model become a repository of the
Hugging Face Hub, which other commands take as hf:owner/name.
"""

import argparse
from pathlib import Path

from espnet_diverse.bin.options import options as shared
from espnet_diverse.bin.options.arguments import add_options, part
from espnet_diverse.bin.options.input_paths import FILE
from espnet_diverse.errors import ConfigError
from espnet_diverse.option_checks import choice, flag, path
from espnet_diverse.packing.facts import Facts


class CommandOptions(shared.Model, shared.Conditions):
    output: Path = path(metavar="FILE.zip", help="the packed model")
    weights: str = choice(
        *("both", "pth", "safetensors"), help="format of the weights: pth, which ESPnet needs, safetensors, or both"
    )
    private: bool = flag(help="make the repository private if there is none yet")
    results: Path | None = path(
        None, parse=FILE, metavar="RESULTS.md", help="Markdown file with results to include in the card"
    )
    facts: Facts = part(Facts)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    shared.add_model(parser)
    shared.add_conditions(parser)
    add_options(parser, CommandOptions, "output", "weights")
    hub = parser.add_argument_group("Hugging Face Hub")
    add_options(hub, Facts, "repository")
    add_options(hub, CommandOptions, "private")
    about = parser.add_argument_group("model card")
    add_options(about, Facts, "name", "license", "languages", "datasets", "data")
    add_options(about, CommandOptions, "results")


def inputs(options: CommandOptions) -> list[Path]:
    """Files that are read."""
    return [*shared.model_inputs(options), *filter(None, [options.results])]


def outputs(options: CommandOptions) -> list[Path]:
    """The file that is written."""
    return [options.output]


def run(options: CommandOptions) -> int:
    """Pack and print the path."""
    from espnet_diverse.packing.pack import check_push, pack, push

    if options.facts.repository is not None:
        check_push(options.facts.repository)
    elif options.private:
        raise ConfigError("--private is for a repository; give --push_to too")
    weights = options.model_file, options.weights
    print(pack(options.model_dir, options.output, options.facts, *weights, options.conditions))
    if options.facts.repository is not None:
        print(push(options.output, options.facts.repository, options.private))
    return 0
