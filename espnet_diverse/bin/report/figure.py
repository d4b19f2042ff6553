"""Plot the attention heads of the last layers of a model on one utterance, and other maps that their cores report.

Nets whose attention has no weights (such as luna), encoders with a memory, and models that read features (input_size)
are skipped with a warning. For a text classifier, the heads of its pooling on a few texts are plotted, and the
reliability and entropy of its predictions, with --out_of_domain_dir also for other texts. For a run with head
selection, the convergence of the selection in training is plotted too; without --data_dir, only this.
"""

import argparse
import logging
from pathlib import Path

from espnet_diverse.bin.options import options
from espnet_diverse.bin.options.input_paths import DATA_DIR
from espnet_diverse.conditions import CONDITIONS
from espnet_diverse.errors import ConfigError, DataError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    options.add_model(parser)
    parser.add_argument("--data_dir", type=DATA_DIR, help="data directory with the utterance")
    options.add_output_dir(parser, "directory for the PNG files")
    parser.add_argument(
        "--utterance", help="id of the utterance (default: the first; for a classifier, the first four)"
    )
    parser.add_argument(
        "--out_of_domain_dir", type=DATA_DIR, metavar="DIR", help="data directory of another domain, for a classifier"
    )
    options.add_conditions(parser)
    options.add_device_options(parser, precision=False)


def inputs(args: argparse.Namespace) -> list[Path]:
    """Files and data directories that are read."""
    return [*options.model_inputs(args), *filter(None, [args.data_dir, args.out_of_domain_dir])]


def outputs(args: argparse.Namespace) -> list[Path]:
    """The directory that is written to; file names contain the utterance."""
    return [args.output_dir]


def run(args: argparse.Namespace) -> int:
    """Plot, and print the paths of the figures."""
    from espnet_diverse.runs.config import load

    given = ["--utterance"] if args.utterance else []
    given += [CONDITIONS[condition].option for condition in options.conditions(args)]
    if given and args.data_dir is None:
        raise ConfigError(f"{given[0]} is for --data_dir; give that too, or leave it out")
    classifier = args.data_dir is not None and load(args.model_dir / "config.yaml").get("task") == "cls"
    if args.out_of_domain_dir and not classifier:
        what = "is for a classifier with --data_dir; for other models use analyse --calibration"
        raise ConfigError(f"--out_of_domain_dir {args.out_of_domain_dir} {what}")
    paths = _of_classes(args) if classifier else _of_utterance(args) if args.data_dir else []
    paths += _of_training(args, needed=args.data_dir is None)
    print(*paths, sep="\n")
    return 0


def _of_classes(args: argparse.Namespace) -> list[Path]:
    from espnet_diverse.analysis.classes import draw_classes
    from espnet_diverse.decoding.directory.classification import Classifier
    from espnet_diverse.runs.logs import logged

    with logged(args.output_dir / "figure.log"):
        classifier = Classifier(args.model_dir, args.model_file, args.device)
        return draw_classes(classifier, args.data_dir, args.output_dir, args.utterance, args.out_of_domain_dir)


def _of_utterance(args: argparse.Namespace) -> list[Path]:
    from espnet_diverse.data.kaldi import read_data_dir

    if (args.data_dir / "feats.scp").is_file() and _reads_features(args):
        return []
    device = args.device
    data = read_data_dir(args.data_dir)
    utterance = args.utterance or min(data.text)
    from espnet_diverse.analysis.figures.heads import draw, head_maps
    from espnet_diverse.analysis.samples import read_source
    from espnet_diverse.analysis.teacher_forcing import load, prompt_tokens, source_vocabulary, target_vocabulary
    from espnet_diverse.decoding.condition_ids import condition_indices, known_conditions
    from espnet_diverse.decoding.encoder.precision import check_device
    from espnet_diverse.decoding.frame_times import known_frame_times
    from espnet_diverse.runs.logs import logged
    from espnet_diverse.upstream.layers import TooShortUttError

    check_device(device)
    with logged(args.output_dir / "figure.log"):
        model, rate = load(args.model_dir, args.model_file, device)
        vocabulary, of_source = target_vocabulary(args.model_dir), source_vocabulary(args.model_dir)
        source = read_source(data, utterance, rate, of_source)
        conditions = condition_indices(known_conditions(model), args.data_dir, [utterance], options.conditions(args))
        try:
            maps = head_maps(model, source, vocabulary.encode(data.text[utterance]), conditions[utterance])
        except TooShortUttError as error:
            raise DataError(f"{args.data_dir}: {utterance}: {error}; give another --utterance") from error
        prompt = prompt_tokens(model, conditions[utterance])
        tokens = [*prompt, *vocabulary.tokenise(data.text[utterance]), "<eos>"]
        read = ["<sos>", *of_source.tokenise(data.src_text[utterance])] if of_source else None
        paths = {net: args.output_dir / f"{utterance}.{net}.png" for net in maps}
        for net, path in paths.items():
            queries = read if net == "encoder" else tokens
            draw(maps[net], utterance, path, queries, read, known_frame_times(model, rate))
    return list(paths.values())


def _reads_features(args: argparse.Namespace) -> bool:
    """Return whether the model reads features; if so, warn that its heads are not drawn."""
    from espnet_diverse.runs.audio_rate import reads_features
    from espnet_diverse.runs.logs import logged
    from espnet_diverse.runs.tasks import read_config

    if not reads_features(read_config(args.model_dir / "config.yaml")):
        return False
    with logged(args.output_dir / "figure.log"):
        logging.warning("%s: its heads are not drawn, for the model reads features and not audio", args.model_dir)
    return True


def _of_training(args: argparse.Namespace, needed: bool) -> list[Path]:
    from espnet_diverse.analysis.measures.selection_history import draw_history, read_history

    history = read_history(args.model_dir)
    if history is None and needed:
        raise ConfigError(
            f"{args.model_dir}: no checkpoint.pth has statistics of head selection; for the heads on an utterance give "
            "--data_dir"
        )
    if history is None:
        return []
    path = args.output_dir / "head_selection.png"
    args.output_dir.mkdir(parents=True, exist_ok=True)
    draw_history(history, args.model_dir.resolve().name, path)
    return [path]
