"""Export a model, its weights as safetensors or its encoder and CTC as ONNX, or a data directory to lhotse.

For lhotse (extra lhotse), MODEL is a data directory and --output a folder, where the manifests
recordings_<set>.jsonl.gz and supervisions_<set>.jsonl.gz are written; the audio stays where it is.

The ONNX graph takes log mel features (batch, frames, features) float32 and lengths (batch,) int64, and returns
log_probs (batch, positions, tokens), encoded (batch, positions, width) and output_lengths (batch,). Its metadata holds
the labels and the options of the features.
"""

import argparse
from pathlib import Path

from espnet_diverse.bin.options import options
from espnet_diverse.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.add_argument("format", choices=("onnx", "safetensors", "lhotse"), help="format to write")
    options.add_model(parser, "directory of a run, or a packed model; for lhotse a data directory")
    parser.add_argument(
        "--output", type=Path, required=True, help="file to write, with the format as its suffix; for lhotse a folder"
    )
    parser.add_argument(
        "--int8", action="store_true", help="quantise the weights of linear layers to 8 bits (onnx only)"
    )
    options.add_conditions(parser)


def outputs(args: argparse.Namespace) -> list[Path]:
    """The file that is written, or the manifests of lhotse."""
    from espnet_diverse.data.writing.lhotse_export import manifest_paths

    return manifest_paths(args.model_dir, args.output) if args.format == "lhotse" else [args.output]


def inputs(args: argparse.Namespace) -> list[Path]:
    """Files that are read."""
    return [args.model_dir] if args.format == "lhotse" else options.model_inputs(args)


def run(args: argparse.Namespace) -> int:
    """Export and print the path."""
    if args.int8 and args.format != "onnx":
        raise ConfigError("--int8 is only for onnx; leave it out")
    if args.format == "safetensors" and options.conditions(args):
        raise ConfigError("conditions are for onnx; leave them out, or reduce the model to one by espnet-diverse prune")
    if args.format == "lhotse":
        return _export_data(args)
    if args.output.suffix != f".{args.format}":
        raise ConfigError(f"{args.output}: the name must end in .{args.format}")
    from espnet_diverse.runs import checkpoint
    from espnet_diverse.runs.tasks import load_model, read_config

    task = read_config(args.model_dir / "config.yaml").get("task", "asr")
    # A model that cannot be loaded is not exported.
    model, model_args = load_model(args.model_dir, args.model_file, task=task)
    if args.format == "onnx":
        from espnet_diverse.packing.onnx_export import export

        export(model, model_args, args.output, options.conditions(args), args.int8)
    else:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        checkpoint.save(model.state_dict(), args.output)
    print(args.output)
    return 0


def _export_data(args: argparse.Namespace) -> int:
    """Write the manifests of a data directory and print their paths."""
    from espnet_diverse.data.writing.lhotse_export import export

    if args.model_file or options.conditions(args):
        raise ConfigError("--model_file and conditions are for models, and lhotse exports data; leave them out")
    print(*export(args.model_dir, args.output), sep="\n")
    return 0
