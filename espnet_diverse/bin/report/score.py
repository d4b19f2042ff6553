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
from pathlib import Path
from typing import TYPE_CHECKING

from espnet_diverse.bin.options import options
from espnet_diverse.bin.options.arguments import add_options
from espnet_diverse.conditions import TABLES
from espnet_diverse.errors import ConfigError, DataError, abridged

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from espnet_diverse.data.packed_table import PackedTable
    from espnet_diverse.scoring.bertscore import Embedder
    from espnet_diverse.scoring.metric import Metric
    from espnet_diverse.scoring.report import Report
    from espnet_diverse.scoring.texts import Corpus, System

_PICTURE, _PAGE = "score.{}.png", "alignment.{}.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `espnet-diverse score`."""
    parser.add_argument(
        "--reference",
        required=True,
        nargs="+",
        type=Path,
        metavar="FILE",
        help="reference texts, with one 'utterance text' per line; in a .trn 'text (utterance)'; in a csv, tsv or "
        "jsonl columns id and text; several files: several references of each text (bleu, compound_bleu, chrf, "
        "chrf++, ter)",
    )
    parser.add_argument("--hypothesis", required=True, type=Path, help="texts to score, in the format of the reference")
    parser.add_argument(
        "--plain",
        action="store_true",
        help="files have one text per line and no ids, and equal numbers of lines; line N is compared with line N",
    )
    parser.add_argument("--output_dir", required=True, type=Path, help="directory for the reports")
    metrics = "cer wer mer bleu compound_bleu chrf chrf++ ter bertscore"
    parser.add_argument("--metric", nargs="+", default=["cer"], help=f"metrics to compute, of {metrics} (default: cer)")
    parser.add_argument("--count_spaces", action="store_true", help="count a space as a character (cer)")
    parser.add_argument(
        "--normalise",
        default="none",
        help="none; wer: lower case without punctuation; unvocalised: also without short vowels and tatweel of Arabic "
        "and points of Hebrew; whisper or whisper_en: the basic or the English rules of Whisper (extra bert), as on "
        "leaderboards, but marks of words stay in the basic ones (cer, wer, mer; default: none)",
    )
    parser.add_argument(
        "--spelling",
        type=Path,
        metavar="FILE",
        help="normalizer.json of a Whisper model, with which whisper_en writes British words as American ones",
    )
    tokenize = (
        "tokenizer: 13a, zh, char, intl, none, ja-mecab or ko-mecab (bleu; default: zh for Chinese, char for other "
        "scripts without spaces, ko-mecab for Korean if installed, else 13a)"
    )
    parser.add_argument("--tokenize", help=tokenize)
    path = "directory of a pretrained encoder, or hf:owner/name (bertscore)"
    parser.add_argument("--bert_path", metavar="PATH", help=path)
    parser.add_argument(
        "--bert_layer", type=int, metavar="N", help="layer of the encoder (bertscore; default: the last)"
    )
    by = "tables whose values become rows, such as utt2lang utt2tgtlang; a plain name is looked up beside the reference"
    parser.add_argument("--by", nargs="+", default=[], metavar="TABLE", help=by)
    zero_shot = "rows without training data, averaged as AVG-Z; the others are averaged as AVG-T"
    parser.add_argument("--zero_shot", nargs="+", default=[], metavar="ROW", help=zero_shot)
    parser.add_argument(
        "--sizes", type=Path, help="table with 'row amount' of training data per line, for the averages High and Low"
    )
    parser.add_argument("--above", type=float, help="amount of --sizes above which a row is High (default: 1e7)")
    parser.add_argument("--baseline", type=Path, help="texts of another system, for a paired bootstrap test")
    parser.add_argument("--samples", type=int, default=1000, help="number of bootstrap resamples (default: 1000)")
    parser.add_argument("--seed", type=int, default=12345, help="seed of the resamples (default: 12345)")
    parser.add_argument(
        "--name", help="name of the table row (default: the last two directories of the hypothesis file)"
    )
    parser.add_argument(
        "--worst",
        type=int,
        metavar="N",
        help="utterances on the page of alignments, those with the most errors (cer, wer, mer; default: 300)",
    )
    parser.add_argument(
        "--embed_audio",
        action="store_true",
        help="put audio of these utterances into the page, instead of links to files",
    )
    add_options(parser, options.Results)


def check(args: argparse.Namespace, before: "Mapping[str, argparse.Namespace]") -> None:
    """Check the metrics and their options; see `bin/plan_steps.py`."""
    from espnet_diverse.scoring.build import ERROR_RATES, check_metrics
    from espnet_diverse.scoring.table import line

    if args.name is not None:
        line(args.name, [])
    if (args.zero_shot or args.sizes) and not args.by:
        raise ConfigError("--zero_shot and --sizes need rows; give the tables of the rows, such as --by utt2lang")
    if args.by and args.plain:
        raise ConfigError("--by finds the rows of texts by their ids, and texts of --plain have none; leave one out")
    if len(set(args.by)) < len(args.by):
        raise ConfigError(f"--by {' '.join(args.by)}: a table is given twice; give each once")
    if args.above != args.above:
        raise ConfigError(f"--above {args.above} is no amount of training data; give a number such as 1e7")
    if args.above is not None and not args.sizes:
        raise ConfigError(f"--above {args.above:g} needs amounts of training data; give --sizes FILE too")
    if args.worst is not None and args.worst < 1:
        raise ConfigError(f"--worst {args.worst}: must be 1 or more")
    for option, given in (("--embed_audio", args.embed_audio), ("--worst", args.worst)):
        if given and not set(ERROR_RATES) & set(args.metric):
            raise ConfigError(
                f"{option} is for {', '.join(ERROR_RATES)}, not for {' '.join(args.metric)}; leave it out"
            )
    how = args.count_spaces, args.normalise, args.tokenize, args.bert_path is not None, args.spelling
    check_metrics(args.metric, *how, references=len(args.reference))


def run(args: argparse.Namespace) -> int:
    """Score, write the reports, print the tables; return 2 if hypotheses are missing or rows undefined, else 0."""
    from espnet_diverse.scoring.build import build_metrics
    from espnet_diverse.scoring.evaluate import evaluate
    from espnet_diverse.scoring.groups import averages, groups, read_sizes
    from espnet_diverse.scoring.report import Report
    from espnet_diverse.scoring.significance import Bootstrap

    check(args, {})
    metrics = build_metrics(
        args.metric, args.count_spaces, args.normalise, args.tokenize, embedder(args), args.spelling
    )
    bootstrap = Bootstrap(args.samples, args.seed)
    _check_outputs(args)
    tables = _tables(args)
    corpus = _corpus(args, tables)
    rows = groups(list(corpus.references), tables)
    above = [] if args.above is None else [args.above]
    means = averages(rows, args.zero_shot, read_sizes(args.sizes) if args.sizes else None, *above)
    parts = {"": range(len(corpus.references))} | {name: group.indices for name, group in rows.items()}
    scores = {name: evaluate(metric, corpus, parts, means, bootstrap) for name, metric in metrics.items()}
    undefined = [note for name in metrics for note in _undefined(args.reference[0], metrics[name], parts, scores[name])]
    _write(args, Report(corpus, metrics, scores), [*undefined, *_unknown(args.zero_shot, rows)])
    return 2 if undefined or any(system.missing for system in corpus.systems()) else 0


def embedder(args: argparse.Namespace) -> "Callable[[], Embedder] | None":
    """A function that loads the encoder of bertscore, if one is given.

    Raises:
        ConfigError: A layer is given without an encoder.
    """
    if args.bert_layer is not None and args.bert_path is None:
        raise ConfigError(f"--bert_layer {args.bert_layer} needs an encoder; give --bert_path PATH as well")
    if args.bert_path is None:
        return None

    def make() -> "Embedder":
        from espnet_diverse.nets.frontends.pretrained import Embedder

        return Embedder(args.bert_path, args.bert_layer)

    return make


def _check_outputs(args: argparse.Namespace) -> None:
    """Refuse to write the reports over texts that are read."""
    from espnet_diverse.data.output_paths import check_outputs

    drawn = [form.format(name) for name in args.metric for form in (_PICTURE, _PAGE)]
    outputs = [args.output_dir / name for name in ("score.md", "score.json", "alignment.txt", *drawn)]
    texts = filter(None, (*args.reference, args.hypothesis, args.baseline, args.sizes))
    if args.results:
        outputs += [args.results, *(args.results.with_suffix(f".{name}.png") for name in args.metric)]
    check_outputs(outputs, texts)


def _tables(args: argparse.Namespace) -> dict[str, "PackedTable"]:
    """The tables of --by, by path."""
    from espnet_diverse.data.tables import pack_table

    paths = [args.reference[0].parent / name if "/" not in name else Path(name) for name in args.by]
    if lacking := next((path for path in paths if not path.exists()), None):
        raise DataError(f"{lacking}: no such table; leave out --by, or write the table")
    return {str(path): pack_table(path, path.name if path.name in TABLES else "utt2domain") for path in paths}


def _corpus(args: argparse.Namespace, tables: dict[str, "PackedTable"]) -> "Corpus":
    """References and systems, with the languages of the references from --by or a table beside the references."""
    from espnet_diverse.scoring.texts import Corpus, further_references, languages_beside, read_files, system_of

    path, *others = args.reference
    files = read_files([*args.reference, args.hypothesis, *filter(None, [args.baseline])], args.plain)
    references = files[path]

    def read(path: Path, name: str | None = None) -> "System":
        return system_of(name or options.row_name(path.resolve().parent), references, files[path])

    system, baseline = read(args.hypothesis, args.name), args.baseline and read(args.baseline)
    given = {Path(name).name: table for name, table in tables.items()}
    languages = {} if args.plain else languages_beside(path, given)  # tables beside plain texts have ids
    more = [further_references(path, each, files) for each in others]
    return Corpus(references, system, baseline, languages, more)


def _undefined(path: Path, metric: "Metric", parts: "Mapping[str, Sequence[int]]", rows: dict) -> list[str]:
    """Notes on the parts without a score.

    Raises:
        DataError: The whole corpus has no score.
    """
    empty = [f"row {name!r}" for name in parts if name and name not in rows]
    if "" not in rows:
        what = f"the references ({len(parts[''])}) have no {metric.unit}s, so that {metric.name} is undefined"
        raise DataError(f"{path}: {what}; give references with text")
    what = f"no {metric.name} of {abridged(empty)}, whose references have no {metric.unit}s"
    return [f"{path}: {what}; left out of averages too"] if empty else []


def _unknown(zero_shot: list[str], rows: dict) -> list[str]:
    """A note on zero-shot rows that do not exist: a set need not have them, but a name may be misspelt."""
    known = {*rows, *(group.direction for group in rows.values())}
    unknown = [name for name in zero_shot if name not in known]
    missing, known = abridged(unknown, separator=" "), abridged(rows, 20, " ")
    return [f"zero-shot rows that do not exist: {missing}; known: {known}"] if unknown else []


def _write(args: argparse.Namespace, report: "Report", notes: list[str]) -> None:
    """Write the reports; print the tables and notes."""
    from espnet_diverse.data.files.atomic_files import write_text

    markdown, notes = report.markdown(), [*report.notes(), *notes]
    files = {name: str(getattr(args, name)) for name in ("hypothesis", "baseline") if getattr(args, name)}
    files = {"reference": " ".join(map(str, args.reference)), **files}
    summary = {"files": files, **report.to_dict()}
    args.output_dir.mkdir(parents=True, exist_ok=True)
    _remove_former(args)
    write_text(args.output_dir / "score.md", "\n".join([markdown, *(f"{note}\n" for note in notes)]))
    write_text(args.output_dir / "score.json", json.dumps(summary, ensure_ascii=False, indent=2) + "\n")
    if report.error_rates():
        notes += _write_alignments(args, report)
    _write_pictures(args, report)
    print(markdown, end="")
    print(*notes, sep="\n", file=sys.stderr)


def _remove_former(args: argparse.Namespace) -> None:
    """Remove reports on other metrics that earlier calls have written."""
    from espnet_diverse.scoring.build import METRICS

    stale = [form.format(name) for name in METRICS if name not in args.metric for form in (_PICTURE, _PAGE)]
    for name in ["alignment.txt", *stale]:
        (args.output_dir / name).unlink(missing_ok=True)


def _write_alignments(args: argparse.Namespace, report: "Report") -> list[str]:
    """Write all alignments as text, and for each error rate a page of the worst ones; return notes on their audio."""
    from espnet_diverse.data.files.atomic_files import write_parts
    from espnet_diverse.scoring.figures.alignment_page import WorstAlignments, write_alignment_page
    from espnet_diverse.scoring.figures.audio_links import AudioLinks

    worst = {name: WorstAlignments(*filter(None, [args.worst])) for name in report.error_rates()}
    watch = {name: each.watch for name, each in worst.items()}  # aligning takes most of the time, so it is done once
    text = args.output_dir / "alignment.txt"
    write_parts(text, report.alignments(watch))
    audio = AudioLinks(args.reference[0].parent, text, args.embed_audio)
    for name, metric in report.error_rates().items():
        path, row = args.output_dir / _PAGE.format(name), report.scores[name][""]
        numbers = "{:.1f} % ({:.1f} to {:.1f})".format(row.score, *row.interval)
        title = f"{report.corpus.system.name}: {metric.name} {numbers}"
        write_alignment_page(worst[name], metric.unit, title, audio, path)
    reasons = list(audio.unread.values())
    return [f"the audio of {abridged(audio.unread)} is left out of the page: {reasons[0]}"] if reasons else []


def _write_pictures(args: argparse.Namespace, report: "Report") -> None:
    """Update --results, and draw the scores."""
    from espnet_diverse.scoring.figures.score_plots import draw_results, draw_scores
    from espnet_diverse.scoring.metric import better_side
    from espnet_diverse.scoring.table import MEASURED, update_results

    for name, metric in report.metrics.items():
        label = f"{metric.name} ({better_side(name)})"
        draw_scores(report.scores[name], report.corpus, label, args.output_dir / _PICTURE.format(name))
        if args.results:
            heading = f"### {metric.name}"
            update_results(args.results, heading, (*metric.columns, *MEASURED), report.results(name))
            draw_results(args.results, heading, metric.score_column, label, args.results.with_suffix(f".{name}.png"))
