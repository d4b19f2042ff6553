"""Measure redundancy, clusters and queries of attention heads on a data directory, and write an HTML report.

For a model with head selection the report also shows which heads each language or domain uses and how many of them two
languages share. Exit code 2 means that utterances were skipped.
"""

import argparse
from pathlib import Path

from espnet_diverse.bin import options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    options.add_model(parser)
    parser.add_argument("--data_dir", type=Path, required=True, help="data directory with audio and transcripts")
    parser.add_argument("--output_dir", type=Path, required=True, help="directory for the report, plots and numbers")
    parser.add_argument(
        "--utterances", type=int, metavar="N", help="number of utterances to measure, evenly spaced (default: all)"
    )
    parser.add_argument(
        "--figure_utterance", metavar="ID", help="utterance whose attention maps are plotted (default: the first)"
    )
    options.add_conditions(parser)
    options.add_device_options(parser, precision=False)


def inputs(args: argparse.Namespace) -> list[Path]:
    """Files and data directories that are read."""
    return [*options.model_inputs(args), args.data_dir]


def outputs(args: argparse.Namespace) -> list[Path]:
    """Files that are written."""
    return [args.output_dir / f"analysis.{suffix}" for suffix in ("html", "json", "npz")]


def run(args: argparse.Namespace) -> int:
    """Measure, write the report and print the table of redundancy; 2 where an utterance was skipped."""
    from espnet_diverse.data.kaldi import read_data_dir
    from espnet_diverse.vocabulary import Vocabulary

    device = options.device(args)
    data = read_data_dir(args.data_dir)
    vocabulary = Vocabulary.load(args.model_dir)
    from espnet_diverse.analysis import redundancy
    from espnet_diverse.analysis.head_sharing import ownerships
    from espnet_diverse.analysis.measurements import choose_utterances, observe_utterance, survey
    from espnet_diverse.analysis.report import Example, write_report
    from espnet_diverse.analysis.teacher_forcing import load
    from espnet_diverse.decoding.condition_ids import condition_indices, known_conditions
    from espnet_diverse.decoding.precision import check_device
    from espnet_diverse.training.espnet_command import logged

    chosen = choose_utterances(data, args.utterances)
    named = [args.figure_utterance] if args.figure_utterance else []
    check_device(device)
    with logged(args.output_dir / "analyse.log"):
        model = load(args.model_dir, args.model_file, device)
        conditions = condition_indices(
            known_conditions(model), args.data_dir, [*chosen, *named], options.conditions(args)
        )
        for utterance in named:  # so that a wrong name is refused before the long pass
            observe_utterance(model, vocabulary, data, utterance, conditions[utterance])
        measured = survey(model, vocabulary, data, {utterance: conditions[utterance] for utterance in chosen})
        shown = args.figure_utterance or measured.utterances[0]
        seen = observe_utterance(model, vocabulary, data, shown, conditions[shown])
        example = Example(shown, vocabulary.tokenise(data.text[shown]), seen)
        title = f"Attention of {args.model_dir.resolve().name} on {args.data_dir.resolve().name}"
        write_report(measured, example, ownerships(model), title, args.output_dir)
    print(redundancy.markdown(measured.redundancy))
    print(args.output_dir / "analysis.html")
    return 2 if measured.skipped else 0
