"""Measure redundancy, clusters and queries of attention heads on a data directory, and write an HTML report.

For a model with head selection the report also shows which heads each language or domain uses and how many of them two
languages share. --ablate_heads scores the data again with each head masked; --calibration compares the confidence of
token predictions with their accuracy; --ctc_support lists texts that may be hallucinations and references that may be
wrong. Exit code 2 means that utterances were skipped.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from espnet_diverse.bin.options import options
from espnet_diverse.bin.options.input_paths import DATA_DIR
from espnet_diverse.errors import ConfigError

if TYPE_CHECKING:
    from espnet_diverse.analysis.samples import Sample
    from espnet_diverse.analysis.sections import Section
    from espnet_diverse.decoding.predictor import Predictor
    from espnet_diverse.decoding.token_text import TokenText
    from espnet_diverse.text.vocabulary import Vocabulary

TEACHER_FORCED, DECODED = ("loss", "accuracy"), ("cer", "wer", "bleu", "chrf")  # as in analysis.ablation_metrics


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    options.add_model(parser)
    parser.add_argument(
        "--data_dir", type=DATA_DIR, required=True, help="data directory with transcripts or translations"
    )
    options.add_output_dir(parser, "directory for the report, plots and numbers")
    parser.add_argument(
        "--utterances", type=int, metavar="N", help="number of utterances to measure, evenly spaced (default: all)"
    )
    parser.add_argument(
        "--figure_utterance", metavar="ID", help="utterance whose attention maps are plotted (default: the first)"
    )
    parser.add_argument(
        "--ablate_heads",
        choices=(*TEACHER_FORCED, *DECODED),
        help="mask one head at a time and report how much this score drops: loss or accuracy with teacher forcing, or "
        "a score of decoded text; also written as ablation.tsv",
    )
    parser.add_argument(
        "--beam_size",
        type=int,
        metavar="N",
        help="beam size of --ctc_support, and of --ablate_heads with decoded text (default: 10)",
    )
    parser.add_argument(
        "--ctc_support",
        action="store_true",
        help="decode, and measure how many tokens of each text CTC supports: finds hallucinations and wrong references",
    )
    parser.add_argument(
        "--calibration", action="store_true", help="measure ECE, OE and entropy of token predictions, and plot them"
    )
    parser.add_argument(
        "--out_of_domain_dir", type=DATA_DIR, metavar="DIR", help="data directory of another domain for --calibration"
    )
    options.add_conditions(parser)
    options.add_device_options(parser, precision=False)


def inputs(args: argparse.Namespace) -> list[Path]:
    """Files and data directories that are read."""
    return [*options.model_inputs(args), args.data_dir, *filter(None, [args.out_of_domain_dir])]


def outputs(args: argparse.Namespace) -> list[Path]:
    """Files that are written."""
    table = [args.output_dir / "ablation.tsv"] if args.ablate_heads else []
    return [*(args.output_dir / f"analysis.{suffix}" for suffix in ("html", "json", "npz")), *table]


def run(args: argparse.Namespace) -> int:
    """Measure, write the report and print the table of redundancy; return 2 if an utterance was skipped."""
    from espnet_diverse.data.kaldi import read_data_dir
    from espnet_diverse.data.output_paths import check_prepared

    _check(args)
    device = args.device
    data = read_data_dir(args.data_dir)
    if args.out_of_domain_dir:  # so that a wrong name is refused before the long pass
        read_data_dir(args.out_of_domain_dir)
    from espnet_diverse.analysis.measurements import choose_utterances, observe_utterance, survey
    from espnet_diverse.analysis.measures import redundancy
    from espnet_diverse.analysis.measures.head_sharing import ownerships
    from espnet_diverse.analysis.report import PICTURES, Example, write_report
    from espnet_diverse.analysis.teacher_forcing import load, prompt_tokens, source_vocabulary, target_vocabulary
    from espnet_diverse.decoding.condition_ids import condition_indices, known_conditions
    from espnet_diverse.decoding.encoder.precision import check_device
    from espnet_diverse.decoding.frame_times import known_frame_times
    from espnet_diverse.decoding.teacher_forcing import check_predicts_tokens
    from espnet_diverse.runs.logs import logged

    chosen = choose_utterances(data, args.utterances)
    named = [args.figure_utterance] if args.figure_utterance else []
    check_device(device)
    check_prepared(args.output_dir / PICTURES, "analyse")
    with logged(args.output_dir / "analyse.log"):
        model, rate = load(args.model_dir, args.model_file, device)
        if args.calibration or args.ablate_heads in TEACHER_FORCED:
            check_predicts_tokens(model)
        predictor = _predictor(args, device)
        vocabulary, source = target_vocabulary(args.model_dir), source_vocabulary(args.model_dir)
        conditions = condition_indices(
            known_conditions(model), args.data_dir, [*chosen, *named], options.conditions(args)
        )
        for utterance in named:  # so that a wrong name is refused before the long pass
            observe_utterance(model, vocabulary, data, utterance, conditions[utterance], source, rate)
        indices = {utterance: conditions[utterance] for utterance in chosen}
        measured = survey(model, vocabulary, data, indices, source, rate)
        shown = args.figure_utterance or measured.utterances[0]
        seen = observe_utterance(model, vocabulary, data, shown, conditions[shown], source, rate)
        read = source.tokenise(data.src_text[shown]) if source else None
        tokens = [*prompt_tokens(model, conditions[shown]), *vocabulary.tokenise(data.text[shown])]
        example = Example(shown, tokens, seen, read, known_frame_times(model, rate))
        title = f"Attention of {args.model_dir.resolve().name} on {args.data_dir.resolve().name}"
        sections, skipped = _sections(args, vocabulary, predictor)
        write_report(measured, example, ownerships(model), title, args.output_dir, sections)
    print(redundancy.markdown(measured.redundancy))
    print(args.output_dir / "analysis.html")
    return 2 if measured.skipped or skipped else 0


def _check(args: argparse.Namespace) -> None:
    if args.beam_size is not None and args.ablate_heads not in DECODED and not args.ctc_support:
        uses = f"--ctc_support and for --ablate_heads {' '.join(DECODED)}"
        raise ConfigError(f"--beam_size {args.beam_size} is for {uses}; leave it out")
    if args.beam_size is not None and args.beam_size < 1:
        raise ConfigError(f"--beam_size {args.beam_size}: must be 1 or more")
    if args.out_of_domain_dir and not args.calibration:
        raise ConfigError(f"--out_of_domain_dir {args.out_of_domain_dir} is for --calibration; give that as well")


def _predictor(args: argparse.Namespace, device: str) -> "Predictor | None":
    """Load the model for measures that are made only on request; None if none is requested."""
    if not (args.ablate_heads or args.calibration or args.ctc_support):
        return None
    from espnet_diverse.analysis.measures.text_support import check_support
    from espnet_diverse.decoding.options import Options
    from espnet_diverse.decoding.predictor import load_predictor

    predictor = load_predictor(args.model_dir, args.model_file, Options(beam_size=args.beam_size or 10), device)
    if args.ctc_support:
        check_support(predictor)
    return predictor


def _sections(
    args: argparse.Namespace, vocabulary: "Vocabulary | TokenText", predictor: "Predictor | None"
) -> tuple[list["Section"], int]:
    """Make the requested measures; return the sections of the report, and the number of utterances left out."""
    table = args.output_dir / "ablation.tsv"
    table.unlink(missing_ok=True)  # of an earlier model
    if predictor is None:
        return [], 0
    from espnet_diverse.analysis.measures.calibration import calibrate
    from espnet_diverse.analysis.measures.head_ablation import ablate_heads
    from espnet_diverse.analysis.measures.text_support import measure_support
    from espnet_diverse.analysis.sections import AblationSection, CalibrationSection, SupportSection
    from espnet_diverse.data.files.atomic_files import write_text

    folders = filter(None, [args.data_dir, args.out_of_domain_dir])
    samples, skipped = zip(*(_read(args, folder, predictor, vocabulary) for folder in folders), strict=True)
    sections: list[Section] = []
    if args.ctc_support:
        sections.append(SupportSection(measure_support(predictor, samples[0])))
    if args.ablate_heads:
        ablation = ablate_heads(predictor, samples[0], args.ablate_heads)
        write_text(table, ablation.tsv())
        sections.append(AblationSection(ablation))
    if args.calibration:
        names = ("in domain", "out of domain")[: len(samples)]
        measured = {name: calibrate(predictor, each) for name, each in zip(names, samples, strict=True)}
        sections.append(CalibrationSection(measured))
    return sections, sum(map(len, skipped))


def _read(
    args: argparse.Namespace, data_dir: Path, predictor: "Predictor", vocabulary: "Vocabulary | TokenText"
) -> tuple[list["Sample"], dict[str, str]]:
    from espnet_diverse.analysis.measurements import choose_utterances
    from espnet_diverse.analysis.samples import read_samples
    from espnet_diverse.data.kaldi import read_data_dir
    from espnet_diverse.decoding.condition_ids import condition_indices

    data = read_data_dir(data_dir)
    chosen = choose_utterances(data, args.utterances)
    indices = condition_indices(predictor.conditions, data_dir, chosen, options.conditions(args))
    return read_samples(predictor, vocabulary, data, indices)
