"""Convert a trained softmax model to another attention or to head selection, for fine-tuning.

At first the converted model computes the same as the original; the largest difference on random input is printed.
`fine-tune DIR DATA` trains it further, and so does `train --config DIR/train.yaml --tokens_dir DIR --init_param DIR`.
With --windows auto each head of the encoder gets a window, as narrow as the loss on --data_dir allows; windows.html in
the output directory shows the windows, and what they cost and save.
"""

import sys
from collections.abc import Sequence
from functools import partial
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from espnet_diverse.bin.options import options as shared
from espnet_diverse.bin.options.arguments import adder
from espnet_diverse.bin.options.input_paths import DATA_DIR
from espnet_diverse.conditions import CONDITIONS
from espnet_diverse.errors import ConfigError
from espnet_diverse.option_checks import choice, listed, number, path

if TYPE_CHECKING:
    from espnet_diverse.packing.adoption import Adopted
    from espnet_diverse.runs.config import Config

_SAME = 1e-4
_TASKS = ("asr", "st")
_TOLERANCE, _LENGTHS = 1.0, (10.0, 60.0, 600.0)


class CommandOptions(shared.Model, shared.Configured, shared.Conditions):
    data_dir: Path | None = path(
        None,
        parse=DATA_DIR,
        help="data directory with the languages or domains that parts of the model depend on; with --windows, the "
        "recordings and texts that the loss is computed on",
    )
    output_dir: Path = path(help="directory for config.yaml, weights and vocabulary")
    windows: str | None = choice("auto", none=True, help="choose a window for each head of the encoder by the loss")
    tolerance: float | None = number(
        None, kind=float, above=0, metavar="X", help="greatest rise of the mean loss by windows, in percent", shown="1"
    )
    utterances: int | None = number(
        None, kind=int, least=1, metavar="N", help="number of utterances for --windows, evenly spaced", shown="all"
    )
    passes: int | None = number(
        None,
        kind=int,
        least=1,
        metavar="N",
        help="how often --windows may compute the loss of all utterances; one or two for each head are needed",
        shown="until no window can be halved",
    )
    lengths: Sequence[float] = listed(
        (),
        of=number(kind=float, above=0),
        metavar="S",
        help="seconds of audio at which --windows measures time and memory",
        shown="10 60 600",
    )


add_arguments = adder(shared.Model, partial(shared.add_config, required=False), CommandOptions, shared.add_conditions)


def inputs(options: CommandOptions) -> list[Path]:
    """Files and data directories that are read."""
    from espnet_diverse.runs.config import find

    return [*find(shared.fragments(options)), *shared.model_inputs(options), *filter(None, [options.data_dir])]


def outputs(options: CommandOptions) -> list[Path]:
    """Files that are written."""
    pages = ("windows.html", "windows.json") if options.windows else ()
    return [*shared.model_outputs(options, options.output_dir), *(options.output_dir / page for page in pages)]


def run(options: CommandOptions) -> int:
    """Adopt the model, and print the path of the weights and the largest difference from the trained model's output."""
    from espnet_diverse.runs.config import merge

    _check(options)
    changes = merge(shared.fragments(options), options.set)
    from espnet_diverse.packing.adoption import adopt

    if options.windows:
        return _with_windows(options, changes)
    done = adopt(options.model_dir, options.output_dir, changes, options.data_dir, options.model_file)
    _show(done)
    if done.difference > _SAME:
        print("notice: with this configuration the model does not begin as the trained one", file=sys.stderr)
    return 0


def _check(options: CommandOptions) -> None:
    flags = [
        f"--{name}"
        for name in ("tolerance", "utterances", "passes", "lengths")
        if getattr(options, name) not in (None, ())
    ]
    flags += [CONDITIONS[name].option for name in options.conditions]
    if flags and not options.windows:
        raise ConfigError(f"{flags[0]} is for --windows auto; give that as well, or leave it out")
    if options.windows and options.data_dir is None:
        raise ConfigError("--windows auto needs utterances with texts; give a data directory by --data_dir")


def _show(done: "Adopted") -> None:
    print(done.weights)
    print(f"{done.new} new parameters; largest difference of the outputs: {done.difference:.2g}")


def _with_windows(options: CommandOptions, changes: "Config") -> int:
    """Adopt the model with `changes`, choose windows for it, and write it with them; 2 if an utterance was skipped."""
    from espnet_diverse.analysis.measurements import choose_utterances
    from espnet_diverse.analysis.teacher_forcing import load, target_vocabulary
    from espnet_diverse.analysis.windows.choice import choose_windows
    from espnet_diverse.analysis.windows.encoder_heads import as_option
    from espnet_diverse.analysis.windows.lengths import measure_lengths
    from espnet_diverse.analysis.windows.page import NUMBERS, PAGE, saved, write_windows
    from espnet_diverse.data.kaldi import read_data_dir
    from espnet_diverse.data.output_paths import check_prepared, mark_prepared
    from espnet_diverse.decoding.condition_ids import condition_indices, known_conditions
    from espnet_diverse.decoding.frame_times import known_frame_times
    from espnet_diverse.packing.adoption import adopt
    from espnet_diverse.runs.config import Config
    from espnet_diverse.runs.packed.archive import title_of
    from espnet_diverse.runs.tasks import read_config

    assert options.data_dir is not None  # `_check` has seen to it
    names = choose_utterances(read_data_dir(options.data_dir), options.utterances)
    check_prepared(options.output_dir, "adopt")
    with TemporaryDirectory() as folder:
        plain = Path(folder, "plain")
        weights = adopt(options.model_dir, plain, changes, None, options.model_file).weights
        if (task := read_config(plain / "config.yaml")["task"]) not in _TASKS:
            raise ConfigError(f"--windows is for speech, and the model is of task {task}; leave it out")
        model, rate = load(plain, weights)
        indices = condition_indices(known_conditions(model), options.data_dir, names, options.conditions)
        tolerance = _TOLERANCE if options.tolerance is None else options.tolerance
        vocabulary = target_vocabulary(plain)
        passes = options.passes or inf
        chosen = choose_windows(model, vocabulary, options.data_dir, indices, rate, tolerance, passes)
        costs = measure_lengths(model, chosen.chosen(), rate, options.lengths or _LENGTHS)
        patterns = Config()
        patterns.add({"encoder_conf": {"attention": {"core": "softmax"}}}, {})
        patterns["encoder_conf"]["attention"]["head_patterns"] = as_option(chosen.chosen())
        _show(adopt(plain, options.output_dir, patterns, None, weights))
    mark_prepared(options.output_dir, "adopt", later=(PAGE, NUMBERS))
    title = f"Windows of {title_of(options.model_dir)} on {options.data_dir.resolve().name}"
    times = known_frame_times(model, rate)
    write_windows(chosen, costs, title, options.output_dir, times and times.step)
    print(chosen.summary(), *saved(costs), options.output_dir / PAGE, sep="\n")
    return 2 if chosen.skipped else 0
