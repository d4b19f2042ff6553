"""Export a model, its weights as safetensors or its encoder and CTC as ONNX, or a data directory to lhotse.

For lhotse (extra lhotse), MODEL is a data directory and --output a folder, where the manifests
recordings_<set>.jsonl.gz and supervisions_<set>.jsonl.gz are written; the audio stays where it is.

The ONNX graph takes log mel features (batch, frames, features) float32 and lengths (batch,) int64, and returns
log_probs (batch, positions, tokens), output_lengths (batch,) and encoded (batch, positions, width). Its metadata holds
the labels and the options of the features. sherpa-onnx decodes by it, as a model of its kind dolphin, with the tokens
in the file .tokens.txt beside it, if the features are those of conf/model.
"""

from functools import partial
from pathlib import Path

from espnet_diverse.bin.options import options as shared
from espnet_diverse.bin.options.arguments import adder
from espnet_diverse.conditions import CONDITIONS
from espnet_diverse.errors import ConfigError
from espnet_diverse.option_checks import choice, flag, path


class CommandOptions(shared.Model, shared.Conditions):
    format: str = choice("onnx", "safetensors", "lhotse", required=True, positional=True, help="format to write")
    output: Path = path(help="file to write, with the format as its suffix; for lhotse a folder")
    int8: bool = flag(help="quantise the weights of linear layers to 8 bits (onnx only)")


_add_model = partial(shared.add_model, text="directory of a run, or a packed model; for lhotse a data directory")
add_arguments = adder((CommandOptions, "format"), _add_model, (CommandOptions, "output", "int8"), shared.add_conditions)


def outputs(options: CommandOptions) -> list[Path]:
    """The files that are written, or the manifests of lhotse."""
    from espnet_diverse.data.writing.lhotse_export import manifest_paths

    if options.format == "lhotse":
        return manifest_paths(options.model_dir, options.output)
    if options.format == "safetensors":
        return [options.output]
    from espnet_diverse.packing.onnx_export import tokens_path

    return [options.output, tokens_path(options.output)]


def inputs(options: CommandOptions) -> list[Path]:
    """Files that are read."""
    return [options.model_dir] if options.format == "lhotse" else shared.model_inputs(options)


def run(options: CommandOptions) -> int:
    """Export and print the path."""
    if options.int8 and options.format != "onnx":
        raise ConfigError("--int8 is only for onnx; leave it out")
    if options.format == "safetensors" and options.conditions:
        flags = " ".join(CONDITIONS[condition].option for condition in options.conditions)
        todo = "leave it out, or reduce the model to one by espnet-diverse prune"
        raise ConfigError(f"{flags}: a condition is for onnx; {todo}")
    if options.format == "lhotse":
        return _export_data(options)
    if options.output.suffix != f".{options.format}":
        raise ConfigError(f"{options.output}: the name must end in .{options.format}")
    from espnet_diverse.runs import checkpoint
    from espnet_diverse.runs.tasks import load_model, read_config

    task = read_config(options.model_dir / "config.yaml").get("task", "asr")
    # A model that cannot be loaded is not exported.
    model, model_args = load_model(*options.model, task=task)
    if options.format == "onnx":
        from espnet_diverse.packing.onnx_export import export

        export(model, model_args, options.output, options.conditions, options.int8)
    else:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        checkpoint.save(model.state_dict(), options.output)
    print(options.output)
    return 0


def _export_data(options: CommandOptions) -> int:
    """Write the manifests of a data directory and print their paths."""
    from espnet_diverse.data.writing.lhotse_export import export

    if options.model_file or options.conditions:
        raise ConfigError("--model_file and conditions are for models, and lhotse exports data; leave them out")
    print(*export(options.model_dir, options.output), sep="\n")
    return 0
