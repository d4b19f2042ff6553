"""Measure redundancy, clusters and queries of attention heads on a data directory, and write an HTML report.

For a model with head selection the report also shows which heads each language or domain uses and how many of them two
languages share. --ablate_heads scores the data again with each head masked; --calibration compares the confidence of
token predictions with their accuracy; --ctc_support lists texts that may be hallucinations and references that may be
wrong. Exit code 2 means that utterances were skipped.
"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from espnet_diverse.bin.options import options as shared
from espnet_diverse.bin.options.arguments import adder
from espnet_diverse.bin.options.input_paths import DATA_DIR
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.errors import ConfigError
from espnet_diverse.option_checks import choice, flag, number, path, text

if TYPE_CHECKING:
    from espnet_diverse.analysis.samples import Sample
    from espnet_diverse.analysis.sections import Section
    from espnet_diverse.decoding.predictor import Predictor
    from espnet_diverse.decoding.token_text import TokenText
    from espnet_diverse.text.vocabulary import Vocabulary

TEACHER_FORCED, DECODED = ("loss", "accuracy"), ("cer", "wer", "bleu", "chrf")  # as in analysis.ablation_metrics


class CommandOptions(shared.Model, shared.Searching, shared.Conditions, shared.Device):
    data_dir: Path = path(parse=DATA_DIR, help="data directory with transcripts or translations")
    output_dir: Path = path(help="directory for the report, plots and numbers")
    utterances: int | None = number(
        None, kind=int, metavar="N", help="number of utterances to measure, evenly spaced", shown="all"
    )
    figure_utterance: str | None = text(
        None, metavar="ID", help="utterance whose attention maps are plotted", shown="the first"
    )
    ablate_heads: str | None = choice(
        *(*TEACHER_FORCED, *DECODED),
        none=True,
        help="mask one head at a time and report how much this score drops: loss or accuracy with teacher forcing, or "
        "a score of decoded text; also written as ablation.tsv",
    )
    ctc_support: bool = flag(
        help="decode, and measure how many tokens of each text CTC supports: finds hallucinations and wrong references"
    )
    calibration: bool = flag(help="measure ECE, OE and entropy of token predictions, and plot them")
    out_of_domain_dir: Path | None = path(
        None, parse=DATA_DIR, metavar="DIR", help="data directory of another domain for --calibration"
    )


add_arguments = adder(shared.Model, CommandOptions, shared.add_conditions, shared.Device, shared.add_search_options)


def inputs(options: CommandOptions) -> list[Path]:
    """Files and data directories that are read."""
    from espnet_diverse.runs.config import find

    data = [options.data_dir, *filter(None, [options.out_of_domain_dir])]
    return [*find(shared.fragments(options)), *shared.model_inputs(options), *data]


def outputs(options: CommandOptions) -> list[Path]:
    """Files that are written."""
    table = [options.output_dir / "ablation.tsv"] if options.ablate_heads else []
    return [*(options.output_dir / f"analysis.{suffix}" for suffix in ("html", "json", "npz")), *table]


def run(options: CommandOptions) -> int:
    """Measure, write the report and print the table of redundancy; return 2 if an utterance was skipped."""
    from espnet_diverse.data.kaldi import read_data_dir
    from espnet_diverse.data.output_paths import check_prepared

    _check(options)
    device = options.device
    data = read_data_dir(options.data_dir)
    if options.out_of_domain_dir:  # so that a wrong name is refused before the long pass
        read_data_dir(options.out_of_domain_dir)
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
    from espnet_diverse.runs.packed.archive import title_of

    chosen = choose_utterances(data, options.utterances)
    named = [options.figure_utterance] if options.figure_utterance else []
    check_device(device)
    check_prepared(options.output_dir / PICTURES, "analyse")
    with logged(options.output_dir / "analyse.log"):
        model, rate = load(*options.model, device)
        if options.calibration or options.ablate_heads in TEACHER_FORCED:
            check_predicts_tokens(model)
        predictor = _predictor(options, device)
        vocabulary, source = target_vocabulary(options.model_dir), source_vocabulary(options.model_dir)
        conditions = condition_indices(known_conditions(model), options.data_dir, [*chosen, *named], options.conditions)
        for utterance in named:  # so that a wrong name is refused before the long pass
            observe_utterance(model, vocabulary, data, utterance, conditions[utterance], source, rate)
        indices = {utterance: conditions[utterance] for utterance in chosen}
        measured = survey(model, vocabulary, data, indices, source, rate)
        shown = options.figure_utterance or measured.utterances[0]
        observation = observe_utterance(model, vocabulary, data, shown, conditions[shown], source, rate)
        read = source.tokenise(data.src_text[shown]) if source else None
        tokens = [*prompt_tokens(model, conditions[shown]), *vocabulary.tokenise(data.text[shown])]
        example = Example(shown, tokens, observation, read, known_frame_times(model, rate))
        title = f"Attention of {title_of(options.model_dir)} on {options.data_dir.resolve().name}"
        sections, skipped = _sections(options, vocabulary, predictor)
        write_report(measured, example, ownerships(model), title, options.output_dir, sections)
    print(redundancy.markdown(measured.redundancy))
    print(options.output_dir / "analysis.html")
    return 2 if measured.skipped or skipped else 0


def _check(options: CommandOptions) -> None:
    given, usual = vars(options.searching()), vars(SearchOptions())
    changed = [name for name in usual if given[name] != usual[name]]
    if changed and options.ablate_heads not in DECODED and not options.ctc_support:
        uses = f"--ctc_support and for --ablate_heads {' '.join(DECODED)}"
        raise ConfigError(f"{changed[0]}={given[changed[0]]} is for {uses}; leave it out")
    if options.out_of_domain_dir and not options.calibration:
        raise ConfigError(f"--out_of_domain_dir {options.out_of_domain_dir} is for --calibration; give that as well")


def _predictor(options: CommandOptions, device: str) -> "Predictor | None":
    """Load the model for measures that are made only on request; None if none is requested."""
    if not (options.ablate_heads or options.calibration or options.ctc_support):
        return None
    from espnet_diverse.analysis.measures.text_support import check_support
    from espnet_diverse.decoding.predictor import load_predictor

    predictor = load_predictor(*options.model, options.searching(), device)
    if options.ctc_support:
        check_support(predictor)
    return predictor


def _sections(
    options: CommandOptions, vocabulary: "Vocabulary | TokenText", predictor: "Predictor | None"
) -> tuple[list["Section"], int]:
    """Make the requested measures; return the sections of the report, and the number of utterances left out."""
    table = options.output_dir / "ablation.tsv"
    table.unlink(missing_ok=True)  # of an earlier model
    if predictor is None:
        return [], 0
    from espnet_diverse.analysis.measures.calibration import calibrate
    from espnet_diverse.analysis.measures.head_ablation import ablate_heads
    from espnet_diverse.analysis.measures.text_support import measure_support
    from espnet_diverse.analysis.sections import AblationSection, CalibrationSection, SupportSection
    from espnet_diverse.data.files.atomic_files import write_text

    folders = filter(None, [options.data_dir, options.out_of_domain_dir])
    samples, skipped = zip(*(_read(options, folder, predictor, vocabulary) for folder in folders), strict=True)
    sections: list[Section] = []
    if options.ctc_support:
        sections.append(SupportSection(measure_support(predictor, samples[0])))
    if options.ablate_heads:
        ablation = ablate_heads(predictor, samples[0], options.ablate_heads)
        write_text(table, ablation.tsv())
        sections.append(AblationSection(ablation))
    if options.calibration:
        names = ("in domain", "out of domain")[: len(samples)]
        measured = {name: calibrate(predictor, sample) for name, sample in zip(names, samples, strict=True)}
        sections.append(CalibrationSection(measured))
    return sections, sum(map(len, skipped))


def _read(
    options: CommandOptions, data_dir: Path, predictor: "Predictor", vocabulary: "Vocabulary | TokenText"
) -> tuple[list["Sample"], dict[str, str]]:
    from espnet_diverse.analysis.measurements import choose_utterances
    from espnet_diverse.analysis.samples import input_of, read_samples
    from espnet_diverse.data.kaldi import read_data_dir
    from espnet_diverse.decoding.condition_ids import condition_indices

    data = read_data_dir(data_dir)
    chosen = choose_utterances(data, options.utterances)
    indices = condition_indices(predictor.conditions, data_dir, chosen, options.conditions)
    return read_samples(partial(input_of, predictor), vocabulary, data, indices)
