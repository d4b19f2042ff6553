"""Plot the attention heads of the last layers of a model on one utterance, and other maps that their cores report.

Nets whose attention has no weights (such as luna), encoders with a memory, and models that read features (input_size)
are skipped with a warning. For a text classifier, the heads of its pooling on a few texts are plotted, and the
reliability and entropy of its predictions, with --out_of_domain_dir also for other texts. For a run with head
selection, the convergence of the selection in training is plotted too; without --data_dir, only this.
"""

import logging
from pathlib import Path

from espnet_diverse.bin.options import options as shared
from espnet_diverse.bin.options.arguments import adder
from espnet_diverse.bin.options.input_paths import DATA_DIR
from espnet_diverse.conditions import CONDITIONS
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.option_checks import path, text

log = logging.getLogger(__name__)


class CommandOptions(shared.Model, shared.Conditions, shared.Device):
    data_dir: Path | None = path(None, parse=DATA_DIR, help="data directory with the utterance")
    output_dir: Path = path(help="directory for the PNG files")
    utterance: str | None = text(None, help="id of the utterance", shown="the first; for a classifier, the first four")
    out_of_domain_dir: Path | None = path(
        None, parse=DATA_DIR, metavar="DIR", help="data directory of another domain, for a classifier"
    )


add_arguments = adder(shared.Model, CommandOptions, shared.add_conditions, shared.Device)


def inputs(options: CommandOptions) -> list[Path]:
    """Files and data directories that are read."""
    return [*shared.model_inputs(options), *filter(None, [options.data_dir, options.out_of_domain_dir])]


def outputs(options: CommandOptions) -> list[Path]:
    """The directory that is written to; file names contain the utterance."""
    return [options.output_dir]


def run(options: CommandOptions) -> int:
    """Plot, and print the paths of the figures."""
    from espnet_diverse.runs.config import load

    flags = ["--utterance"] if options.utterance else []
    flags += [CONDITIONS[condition].option for condition in options.conditions]
    if flags and options.data_dir is None:
        raise ConfigError(f"{flags[0]} is for --data_dir; give that too, or leave it out")
    classifier = options.data_dir is not None and load(options.model_dir / "config.yaml").get("task") == "cls"
    if options.out_of_domain_dir and not classifier:
        reason = "is for a classifier with --data_dir; for other models use analyse --calibration"
        raise ConfigError(f"--out_of_domain_dir {options.out_of_domain_dir} {reason}")
    paths = _of_classes(options) if classifier else _of_utterance(options) if options.data_dir else []
    paths += _of_training(options, needed=options.data_dir is None)
    print(*paths, sep="\n")
    return 0


def _of_classes(options: CommandOptions) -> list[Path]:
    from espnet_diverse.analysis.classes import draw_classes
    from espnet_diverse.decoding.directory.classification import Classifier
    from espnet_diverse.runs.logs import logged

    with logged(options.output_dir / "figure.log"):
        classifier = Classifier(*options.model, options.device)
        places = options.data_dir, options.output_dir, options.utterance, options.out_of_domain_dir
        return draw_classes(classifier, *places)


def _of_utterance(options: CommandOptions) -> list[Path]:
    from espnet_diverse.data.kaldi import read_data_dir

    if (options.data_dir / "feats.scp").is_file() and _reads_features(options):
        return []
    device = options.device
    data = read_data_dir(options.data_dir)
    utterance = options.utterance or min(data.text)
    from espnet_diverse.analysis.figures.heads import draw, head_maps
    from espnet_diverse.analysis.samples import read_source
    from espnet_diverse.analysis.teacher_forcing import load, prompt_tokens, source_vocabulary, target_vocabulary
    from espnet_diverse.decoding.condition_ids import condition_indices, known_conditions
    from espnet_diverse.decoding.encoder.precision import check_device
    from espnet_diverse.decoding.frame_times import known_frame_times
    from espnet_diverse.runs.logs import logged
    from espnet_diverse.upstream.layers import TooShortUttError

    check_device(device)
    with logged(options.output_dir / "figure.log"):
        model, rate = load(*options.model, device)
        vocabulary, of_source = target_vocabulary(options.model_dir), source_vocabulary(options.model_dir)
        source = read_source(data, utterance, rate, of_source)
        conditions = condition_indices(known_conditions(model), options.data_dir, [utterance], options.conditions)
        try:
            maps = head_maps(model, source, vocabulary.encode(data.text[utterance]), conditions[utterance])
        except TooShortUttError as error:
            raise DataError(f"{options.data_dir}: {utterance}: {error}; give another --utterance") from error
        prompt = prompt_tokens(model, conditions[utterance])
        tokens = [*prompt, *vocabulary.tokenise(data.text[utterance]), "<eos>"]
        read = ["<sos>", *of_source.tokenise(data.src_text[utterance])] if of_source else None
        paths = {net: options.output_dir / f"{utterance}.{net}.png" for net in maps}
        for net, path in paths.items():
            queries = read if net == "encoder" else tokens
            draw(maps[net], utterance, path, queries, read, known_frame_times(model, rate))
    return list(paths.values())


def _reads_features(options: CommandOptions) -> bool:
    """Return whether the model reads features; if so, warn that its heads are not drawn."""
    from espnet_diverse.runs.audio_rate import reads_features
    from espnet_diverse.runs.logs import logged
    from espnet_diverse.runs.tasks import read_config

    if not reads_features(read_config(options.model_dir / "config.yaml")):
        return False
    with logged(options.output_dir / "figure.log"):
        log.warning("%s: its heads are not drawn, for the model reads features and not audio", options.model_dir)
    return True


def _of_training(options: CommandOptions, needed: bool) -> list[Path]:
    from espnet_diverse.analysis.measures.selection_history import draw_history, read_history
    from espnet_diverse.runs.packed.archive import title_of

    history = read_history(options.model_dir)
    if history is None and needed:
        lacks = f"{options.model_dir}: no checkpoint.pth has statistics of head selection"
        raise ConfigError(f"{lacks}; for the heads on an utterance give --data_dir")
    if history is None:
        return []
    path = options.output_dir / "head_selection.png"
    options.output_dir.mkdir(parents=True, exist_ok=True)
    draw_history(history, title_of(options.model_dir), path)
    return [path]
