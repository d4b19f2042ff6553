"""Write a model in another format: its weights as safetensors, or its encoder and CTC as ONNX (extra onnx).

The ONNX graph takes log mel features (batch, frames, features) float32 and lengths (batch,) int64, and gives
log_probs (batch, positions, tokens), encoded (batch, positions, width) and output_lengths (batch,). Labels and options
of the features are in its metadata.
"""

import argparse
from pathlib import Path

from espnet_diverse.bin import options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.add_argument("format", choices=("onnx", "safetensors"), help="what to write")
    parser.add_argument("--model_dir", type=Path, required=True, help="directory of the run, or a packed model")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="file to write, named .FORMAT")
    options.add_model_file(parser, default=None)
    parser.add_argument("--int8", action="store_true", help="quantise the weights of linear maps, of onnx")
    options.add_conditions(parser)


def outputs(args: argparse.Namespace) -> list[Path]:
    """The file that is written."""
    return [args.output]


def inputs(args: argparse.Namespace) -> list[Path]:
    """Files that are read."""
    return options.model_inputs(args)


def run(args: argparse.Namespace) -> int:
    """Export and print the path."""
    from espnet_diverse.errors import ConfigError

    if args.output.suffix != f".{args.format}":
        raise ConfigError(f"{args.output}: give a name that ends in .{args.format}")
    if args.int8 and args.format != "onnx":
        raise ConfigError("--int8 is an option of onnx; leave it out")
    from espnet_diverse.packing.archive import weights_name
    from espnet_diverse.training import checkpoint
    from espnet_diverse.training.tasks import find_weights, load_model, read_config

    task = read_config(args.model_dir / "config.yaml").get("task", "asr")
    model_file = find_weights(args.model_dir, args.model_file or weights_name(task))
    model, model_args = load_model(args.model_dir, model_file, task=task)  # what does not load is not exported
    if args.format == "onnx":
        from espnet_diverse.packing.onnx_export import export

        export(model, model_args, args.output, options.conditions(args), args.int8)
    else:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        checkpoint.save(model.state_dict(), args.output)
    print(args.output)
    return 0
