"""Score hypotheses against references: Markdown tables, score.json and score.md; for CER and WER alignments too.

alignment.txt has all of them, and the page alignment.METRIC.html the worst ones, to filter, search and hear.
Every score has a 95 % bootstrap interval. --by adds a row for each language, direction or domain, and averages of these
rows; --baseline adds a paired bootstrap test. With either, score.METRIC.png shows the rows with their intervals. A
reference without a hypothesis counts as deleted, and a row whose references are empty is left out; the command then
reports it and ends with exit code 2. docs/scoring.md tells which units are counted in which script.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from espnet_diverse.bin.options import options as shared
from espnet_diverse.bin.options.arguments import adder, part
from espnet_diverse.conditions import TABLES
from espnet_diverse.errors import ConfigError, DataError, abridged
from espnet_diverse.option_checks import flag, listed, number, path, text
from espnet_diverse.scoring.bootstrap_options import BootstrapOptions
from espnet_diverse.scoring.groups import ABOVE

if TYPE_CHECKING:
    from collections.abc import Callable

    from espnet_diverse.data.packed_table import PackedTable
    from espnet_diverse.scoring.bertscore import Embedder
    from espnet_diverse.scoring.metric import Metric
    from espnet_diverse.scoring.report import Report
    from espnet_diverse.scoring.texts import Corpus, System

_WORST = 300
_PICTURE, _PAGE = "score.{}.png", "alignment.{}.html"


class Shown(shared.Results):
    """Options of the reports."""

    name: str | None = text(None, help="name of the table row", shown="the last two directories of the hypothesis file")
    worst: int | None = number(
        None,
        kind=int,
        least=1,
        metavar="N",
        help="utterances on the page of alignments, those with the most errors (cer, wer, mer)",
        shown=str(_WORST),
    )
    embed_audio: bool = flag(help="put audio of these utterances into the page, instead of links to files")


class CommandOptions(Shown):
    reference: Sequence[Path] = listed(
        of=path(),
        metavar="FILE",
        help="reference texts, with one 'utterance text' per line; in a .trn 'text (utterance)'; in a csv, tsv or "
        "jsonl columns id and text; several files: several references of each text (bleu, compound_bleu, chrf, "
        "chrf++, ter)",
    )
    hypothesis: Path = path(help="texts to score, in the format of the reference")
    plain: bool = flag(
        help="files have one text per line and no ids, and equal numbers of lines; line N is compared with line N"
    )
    output_dir: Path = path(help="directory for the reports")
    metric: Sequence[str] = listed(
        ["cer"], help="metrics to compute, of cer wer mer bleu compound_bleu chrf chrf++ ter bertscore"
    )
    count_spaces: bool = flag(help="count a space as a character (cer)")
    normalise: str = text(
        "none",
        help="none; wer: lower case without punctuation; unvocalised: also without short vowels and tatweel of Arabic "
        "and points of Hebrew; whisper or whisper_en: the basic or the English rules of Whisper (extra bert), as on "
        "leaderboards, but marks of words stay in the basic ones (cer, wer, mer)",
    )
    spelling: Path | None = path(
        None,
        metavar="FILE",
        help="normalizer.json of a Whisper model, with which whisper_en writes British words as American ones",
    )
    tokenize: str | None = text(
        None,
        help="tokenizer: 13a, zh, char, intl, none, ja-mecab, ko-mecab, flores101 or flores200 (bleu)",
        shown="zh for Chinese, char for other scripts without spaces, ko-mecab for Korean if installed, else 13a",
    )
    lowercase: bool = flag(help="ignore the case of letters, as sacrebleu -lc (bleu, compound_bleu, chrf, chrf++)")
    bert_path: str | None = text(
        None, metavar="PATH", help="directory of a pretrained encoder, or hf:owner/name (bertscore)"
    )
    bert_layer: int | None = number(
        None, kind=int, metavar="N", help="layer of the encoder (bertscore)", shown="the last"
    )
    by: Sequence[str] = listed(
        (),
        metavar="TABLE",
        help="tables whose values become rows, such as utt2lang utt2tgtlang; a plain name is looked up beside the "
        "reference",
    )
    zero_shot: Sequence[str] = listed(
        (), metavar="ROW", help="rows without training data, averaged as AVG-Z; the others are averaged as AVG-T"
    )
    sizes: Path | None = path(
        None, help="table with 'row amount' of training data per line, for the averages High and Low"
    )
    above: float | None = number(
        None, kind=float, help="amount of --sizes above which a row is High", shown=f"{ABOVE:.0f}"
    )
    bootstrap: BootstrapOptions = part(BootstrapOptions)
    baseline: Path | None = path(None, help="texts of another system, for a paired bootstrap test")


add_arguments = adder(CommandOptions, BootstrapOptions, Shown, shared.Results)


def check(options: CommandOptions, before: Mapping[str, argparse.Namespace]) -> None:
    """Check the metrics and their options; see `bin/plan_steps.py`."""
    from espnet_diverse.scoring.build import ERROR_RATES, check_metrics
    from espnet_diverse.scoring.table import line

    if options.name is not None:
        line(options.name, [])
    if (options.zero_shot or options.sizes) and not options.by:
        raise ConfigError("--zero_shot and --sizes need rows; give the tables of the rows, such as --by utt2lang")
    if options.by and options.plain:
        raise ConfigError("--by finds the rows of texts by their ids, and texts of --plain have none; leave one out")
    if len(set(options.by)) < len(options.by):
        raise ConfigError(f"--by {' '.join(options.by)}: a table is given twice; give each once")
    if options.above is not None and not options.sizes:
        raise ConfigError(f"--above {options.above:g} needs amounts of training data; give --sizes FILE too")
    for option, value in (("--embed_audio", options.embed_audio), ("--worst", options.worst)):
        if value and not set(ERROR_RATES) & set(options.metric):
            raise ConfigError(
                f"{option} is for {', '.join(ERROR_RATES)}, not for {' '.join(options.metric)}; leave it out"
            )
    how = options.count_spaces, options.normalise, options.tokenize, options.bert_path is not None, options.spelling
    check_metrics(options.metric, *how, options.lowercase, references=len(options.reference))


def run(options: CommandOptions) -> int:
    """Score, write the reports, print the tables; return 2 if hypotheses are missing or rows undefined, else 0."""
    from espnet_diverse.scoring.evaluate import evaluate
    from espnet_diverse.scoring.groups import averages, groups, read_sizes
    from espnet_diverse.scoring.report import Report
    from espnet_diverse.scoring.significance import Bootstrap

    check(options, {})
    metrics = metrics_of(options, options.metric)
    bootstrap = Bootstrap(**vars(options.bootstrap))
    _check_outputs(options)
    tables = _tables(options)
    corpus = _corpus(options, tables)
    rows = groups(list(corpus.references), tables)
    above = ABOVE if options.above is None else options.above
    means = averages(rows, options.zero_shot, read_sizes(options.sizes) if options.sizes else None, above)
    parts = {"": range(len(corpus.references))} | {name: group.indices for name, group in rows.items()}
    scores = {name: evaluate(metric, corpus, parts, means, bootstrap) for name, metric in metrics.items()}
    first = options.reference[0]
    undefined = [note for name in metrics for note in _undefined(first, metrics[name], parts, scores[name])]
    _write(options, Report(corpus, metrics, scores), [*undefined, *_unknown(options.zero_shot, rows)])
    return 2 if undefined or any(system.missing for system in corpus.systems()) else 0


def metrics_of(options: CommandOptions, names: Sequence[str]) -> "dict[str, Metric]":
    """The metrics `names` with these options; raises the errors of `build_metrics`."""
    from espnet_diverse.scoring.build import build_metrics

    how = options.count_spaces, options.normalise, options.tokenize, _embedder(options), options.spelling
    return build_metrics(names, *how, options.lowercase)


def _embedder(options: CommandOptions) -> "Callable[[], Embedder] | None":
    """A function that loads the encoder of bertscore, if one is given.

    Raises:
        ConfigError: A layer is given without an encoder.
    """
    if options.bert_layer is not None and options.bert_path is None:
        raise ConfigError(f"--bert_layer {options.bert_layer} needs an encoder; give --bert_path PATH as well")
    if options.bert_path is None:
        return None

    def make() -> "Embedder":
        from espnet_diverse.nets.frontends.pretrained import Embedder

        return Embedder(options.bert_path, options.bert_layer)

    return make


def _check_outputs(options: CommandOptions) -> None:
    """Refuse to write the reports over texts that are read."""
    from espnet_diverse.data.output_paths import check_outputs

    drawn = [form.format(name) for name in options.metric for form in (_PICTURE, _PAGE)]
    outputs = [options.output_dir / name for name in ("score.md", "score.json", "alignment.txt", *drawn)]
    texts = filter(None, (*options.reference, options.hypothesis, options.baseline, options.sizes))
    if options.results:
        outputs += [options.results, *(options.results.with_suffix(f".{name}.png") for name in options.metric)]
    check_outputs(outputs, texts)


def _tables(options: CommandOptions) -> dict[str, "PackedTable"]:
    """The tables of --by, by path."""
    from espnet_diverse.data.tables import pack_table

    paths = [options.reference[0].parent / name if "/" not in name else Path(name) for name in options.by]
    if lacking := next((path for path in paths if not path.exists()), None):
        raise DataError(f"{lacking}: no such table; leave out --by, or write the table")
    return {str(path): pack_table(path, path.name if path.name in TABLES else "utt2domain") for path in paths}


def _corpus(options: CommandOptions, tables: dict[str, "PackedTable"]) -> "Corpus":
    """References and systems, with the languages of the references from --by or a table beside the references."""
    from espnet_diverse.scoring.texts import Corpus, further_references, languages_beside, read_files, system_of

    path, *others = options.reference
    files = read_files([*options.reference, options.hypothesis, *filter(None, [options.baseline])], options.plain)
    references = files[path]

    def read(path: Path, name: str | None = None) -> "System":
        return system_of(name or shared.row_name(path.resolve().parent), references, files[path])

    system, baseline = read(options.hypothesis, options.name), options.baseline and read(options.baseline)
    by_name = {Path(name).name: table for name, table in tables.items()}
    languages = {} if options.plain else languages_beside(path, by_name)  # tables beside plain texts have ids
    further_texts = [further_references(path, other, files) for other in others]
    return Corpus(references, system, baseline, languages, further_texts)


def _undefined(path: Path, metric: "Metric", parts: Mapping[str, Sequence[int]], rows: dict) -> list[str]:
    """Notes on the parts without a score.

    Raises:
        DataError: The whole corpus has no score.
    """
    empty = [f"row {name!r}" for name in parts if name and name not in rows]
    if "" not in rows:
        reason = f"the references ({len(parts[''])}) have no {metric.unit}s, so that {metric.name} is undefined"
        raise DataError(f"{path}: {reason}; give references with text")
    reason = f"no {metric.name} of {abridged(empty)}, whose references have no {metric.unit}s"
    return [f"{path}: {reason}; left out of averages too"] if empty else []


def _unknown(zero_shot: list[str], rows: dict) -> list[str]:
    """A note on zero-shot rows that do not exist: a set need not have them, but a name may be misspelt."""
    known = {*rows, *(group.direction for group in rows.values())}
    unknown = [name for name in zero_shot if name not in known]
    missing, known = abridged(unknown, separator=" "), abridged(rows, 20, " ")
    return [f"zero-shot rows that do not exist: {missing}; known: {known}"] if unknown else []


def _write(options: CommandOptions, report: "Report", notes: list[str]) -> None:
    """Write the reports; print the tables and notes."""
    from espnet_diverse.data.files.atomic_files import write_text

    markdown, notes = report.markdown(), [*report.notes(), *notes]
    files = {name: str(getattr(options, name)) for name in ("hypothesis", "baseline") if getattr(options, name)}
    files = {"reference": " ".join(map(str, options.reference)), **files}
    summary = {"files": files, **report.to_dict()}
    options.output_dir.mkdir(parents=True, exist_ok=True)
    _remove_former(options)
    write_text(options.output_dir / "score.md", "\n".join([markdown, *(f"{note}\n" for note in notes)]))
    write_text(options.output_dir / "score.json", json.dumps(summary, ensure_ascii=False, indent=2) + "\n")
    if report.error_rates():
        notes += _write_alignments(options, report)
    _write_pictures(options, report)
    print(markdown, end="")
    print(*notes, sep="\n", file=sys.stderr)


def _remove_former(options: CommandOptions) -> None:
    """Remove reports on other metrics that earlier calls have written."""
    from espnet_diverse.scoring.build import METRICS

    stale = [form.format(name) for name in METRICS if name not in options.metric for form in (_PICTURE, _PAGE)]
    for name in ["alignment.txt", *stale]:
        (options.output_dir / name).unlink(missing_ok=True)


def _write_alignments(options: CommandOptions, report: "Report") -> list[str]:
    """Write all alignments as text, and for each error rate a page of the worst ones; return notes on their audio."""
    from espnet_diverse.data.files.atomic_files import write_parts
    from espnet_diverse.scoring.figures.alignment_page import WorstAlignments, write_alignment_page
    from espnet_diverse.scoring.figures.audio_links import AudioLinks

    worst = {name: WorstAlignments(options.worst or _WORST) for name in report.error_rates()}
    watch = {name: alignments.watch for name, alignments in worst.items()}  # aligning takes most of the time: done once
    text = options.output_dir / "alignment.txt"
    write_parts(text, report.alignments(watch))
    audio = AudioLinks(options.reference[0].parent, text, options.embed_audio)
    for name, metric in report.error_rates().items():
        path, row = options.output_dir / _PAGE.format(name), report.scores[name][""]
        numbers = "{:.1f} % ({:.1f} to {:.1f})".format(row.score, *row.interval)
        title = f"{report.corpus.system.name}: {metric.name} {numbers}"
        write_alignment_page(worst[name], metric.unit, title, audio, path)
    reasons = list(audio.unread.values())
    return [f"the audio of {abridged(audio.unread)} is left out of the page: {reasons[0]}"] if reasons else []


def _write_pictures(options: CommandOptions, report: "Report") -> None:
    """Update --results, and draw the scores."""
    from espnet_diverse.scoring.figures.score_plots import draw_results, draw_scores
    from espnet_diverse.scoring.metric import better_side
    from espnet_diverse.scoring.table import MEASURED, update_results

    for name, metric in report.metrics.items():
        label = f"{metric.name} ({better_side(name)})"
        draw_scores(report.scores[name], report.corpus, label, options.output_dir / _PICTURE.format(name))
        if options.results:
            heading = f"### {metric.name}"
            update_results(options.results, heading, (*metric.columns, *MEASURED), report.results(name))
            picture = options.results.with_suffix(f".{name}.png")
            draw_results(options.results, heading, metric.score_column, label, picture)
