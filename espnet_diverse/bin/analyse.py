"""Measure what the attention heads of a model do on a data directory: redundancy, clusters, queries; one HTML page.

Of a model with head selection it also shows which heads each language or domain owns and how many two of them share.
Exit code 2 says that utterances were left out.
"""

import argparse
from pathlib import Path

from espnet_diverse.bin import options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.add_argument("--model_dir", type=Path, required=True, help="directory of the run")
    parser.add_argument("--data_dir", type=Path, required=True, help="data directory with audio and transcripts")
    parser.add_argument("--output_dir", type=Path, required=True, help="where the page, pictures and numbers go")
    options.add_model_file(parser)
    parser.add_argument("--utterances", type=int, metavar="N", help="measure N, evenly spread (default: all)")
    parser.add_argument("--figure_utterance", metavar="ID", help="utterance whose maps are drawn (default: the first)")
    options.add_conditions(parser)


def inputs(args: argparse.Namespace) -> list[Path]:
    """Files and data directories that are read."""
    return [*options.model_inputs(args), args.data_dir]


def outputs(args: argparse.Namespace) -> list[Path]:
    """Files that are written."""
    return [args.output_dir / f"analysis.{suffix}" for suffix in ("html", "json", "npz")]


def run(args: argparse.Namespace) -> int:
    """Measure, write the report and print the table of redundancy; 2 where an utterance was left out."""
    from espnet_diverse.data.kaldi import read_data_dir
    from espnet_diverse.vocabulary import Vocabulary

    data = read_data_dir(args.data_dir)
    vocabulary = Vocabulary.load(args.model_dir)
    from espnet_diverse.analysis import redundancy
    from espnet_diverse.analysis.head_sharing import ownerships
    from espnet_diverse.analysis.measurements import choose_utterances, observe_utterance, survey
    from espnet_diverse.analysis.report import Example, write_report
    from espnet_diverse.analysis.teacher_forcing import load
    from espnet_diverse.decoding.condition_ids import condition_indices, known_conditions
    from espnet_diverse.training.espnet_command import logged

    chosen = choose_utterances(data, args.utterances)
    named = [args.figure_utterance] if args.figure_utterance else []
    with logged(args.output_dir / "analyse.log"):
        model = load(args.model_dir, args.model_file)
        conditions = condition_indices(
            known_conditions(model), args.data_dir, [*chosen, *named], options.conditions(args)
        )
        for utterance in named:  # a wrong name shows before the long pass
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
