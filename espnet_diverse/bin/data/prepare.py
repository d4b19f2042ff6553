"""Read a corpus and write Kaldi data directories: mono audio of one rate in a file per utterance or in arks, or text.

Utterances outside the length limits are listed in dropped.tsv with the reason and counted in the summary; the exit code
is still 0. A fault in the corpus is an error, and nothing is written. Input directories, and directories that `prepare`
did not write, are never replaced.
"""

import argparse
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType

from espnet_diverse.bin.options.arguments import Arguments, add_options, part
from espnet_diverse.bin.options.cluster_option import add_cluster, workers
from espnet_diverse.corpora import CORPORA, Selection
from espnet_diverse.data.writing.format_options import FormatOptions
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.option_checks import choice, flag, number, path, text

_SIZE = "demo"
_PLACES = ("name", "source", "corpus", "size", "download", "download_dir", "output_dir")


class CommandOptions(Arguments):
    """Options of this command besides those of `Selection` and `FormatOptions`."""

    name: str = text(positional=True, metavar="CORPUS", help=" ".join(CORPORA))
    source: Path | None = path(
        None,
        positional=True,
        nargs="?",
        metavar="SOURCE",
        help="directory of the unpacked official release; the file of a table; name or directory of a dataset (hf); "
        "directory or file of manifests (lhotse); a data directory or a folder of several (kaldi). Paths of audio are "
        "relative to the table, and in wav.scp and manifests of lhotse to the working directory",
    )
    corpus: str | None = choice(
        "synthetic", none=True, help="generate a small synthetic corpus in the official layout instead"
    )
    size: str | None = text(None, help="size of the synthetic corpus: demo or tiny", shown=_SIZE)
    download: bool = flag(help="download the official release, resuming an earlier download")
    download_dir: Path | None = path(
        None, help="directory of downloads and synthetic corpora", shown="downloads beside output_dir"
    )
    output_dir: Path = path(help="directory for one data directory per set: train dev test")
    train_utterances: int | None = number(
        None,
        kind=int,
        least=1,
        metavar="N",
        help="only N utterances of the training set, evenly spaced in the order of their ids",
        shown="all",
    )
    report: Path | None = path(None, help="file for the full list of faults, if there are any")
    nj: int = number(4, least=1, help="number of threads that read and write audio")
    cluster: str = ""
    selection: Selection = part(Selection)
    formatting: FormatOptions = part(FormatOptions)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `espnet-diverse prepare`; a corpus module names those of `Selection` that it supports."""
    add_options(parser, CommandOptions, *_PLACES)
    selection = parser.add_argument_group("selection")
    add_options(selection, Selection, "task", "languages", "pairs", "zero_shot", "transcripts", "case", "segmentation")
    add_options(selection, CommandOptions, "train_utterances")
    add_options(selection, Selection, "on_bad")
    add_options(selection, FormatOptions, "max_bad")
    add_options(selection, Selection, "sets", "set_names", "allow_pipes")
    tables = parser.add_argument_group("tables (table, hf, lhotse, kaldi)")
    add_options(tables, Selection, "columns", "audio_dir", "split_by", "split_shares", "split_seed")
    long_range = ", ".join(name for name, module in CORPORA.items() if ".long_range." in module)
    generated = parser.add_argument_group(f"texts that are generated ({long_range})")
    add_options(generated, Selection, "lengths", "counts")
    add_options(parser, FormatOptions, "speeds", "min_seconds", "max_seconds", "audio_format", "shards", "rate")
    add_options(parser, CommandOptions, "report", "nj")
    add_cluster(parser)


def inputs(options: CommandOptions) -> list[Path]:
    """The directory or file of the corpus, if it is given, and what is read with it."""
    from espnet_diverse.corpora import load_corpus

    beside = getattr(load_corpus(options.name), "beside", lambda source: [])
    return [options.source, *beside(options.source)] if options.source else []


def outputs(options: CommandOptions) -> list[Path]:
    """Some tables of every set; a data directory is written all at once."""
    from espnet_diverse.corpora import load_corpus

    corpus = load_corpus(options.name)
    tables = getattr(corpus, "TABLES", ("wav.scp", "text"))
    return [target / table for target in _targets(options, corpus) for table in tables]


def check(options: CommandOptions, before: Mapping[str, argparse.Namespace]) -> None:
    """Check the size of a synthetic corpus; see `bin/plan_steps.py`."""
    if options.size is not None:
        from espnet_diverse.corpora.synthetic import check_size

        if options.corpus is None:
            argument = f"--size {options.size}"
            raise ConfigError(f"{argument} is of a synthetic corpus; give --corpus synthetic, or leave it out")
        check_size(options.size)


def run(options: CommandOptions) -> int:
    """Prepare every set of the corpus and print a summary."""
    from espnet_diverse.corpora import check_options, load_corpus
    from espnet_diverse.data.faults import FaultsError
    from espnet_diverse.data.files.atomic_files import write_text
    from espnet_diverse.data.kaldi import evenly_spaced
    from espnet_diverse.data.writing.formatting import format_data, without_faults

    selection, formatting = options.selection, options.formatting
    check(options, {})
    corpus = load_corpus(options.name)
    check_options(corpus, selection)
    _check_targets(options, corpus)
    try:
        sets = corpus.prepare(_corpus_dir(options, corpus), selection)
        if options.train_utterances is not None and "train" not in sets:
            raise ConfigError(f"--train_utterances is for the set train, and --sets has only {' '.join(sets)}")
        if options.train_utterances is not None:
            sets["train"] = without_faults({"train": sets["train"]}, formatting)["train"]  # also in rows left out
            sets["train"] = evenly_spaced(sets["train"], options.train_utterances)
        audio = not all(data.is_text for data in sets.values())
        with workers(options, dict, ()) if audio else nullcontext() as pool:  # workers have nothing to load
            summaries = format_data(sets, options.output_dir, formatting, pool or options.nj)
    except FaultsError as error:
        of_rows = selection.on_bad == "error" and any(fault.entry for fault in error.faults)
        todo = "; --on_bad drop leaves out utterances with faults" if of_rows else ""
        if options.report is None:
            raise DataError(f"{FaultsError(error.faults, '--report FILE lists all')}{todo}") from error
        write_text(options.report, "".join(f"{fault}\n" for fault in error.faults))
        raise DataError(f"{error} (all are listed in {options.report}){todo}") from error
    for name, summary in summaries.items():
        table = options.output_dir / name / "dropped.tsv"
        listed = f" (listed in {table}): {summary.share()}" if summary.dropped else ""
        print(f"{name}: {summary}, {summary.dropped} dropped{listed}")
        for kind, count in summary.converted.most_common():
            print(f"{name}: {count} utterances of {kind} converted to {formatting.rate / 1000:g} kHz mono")
    return 0


def _targets(options: CommandOptions, corpus: ModuleType) -> list[Path]:
    """The data directory of every set that is sure to be written."""
    extra_sets = [name for name in getattr(corpus, "MORE_SETS", ()) if name in options.selection.sets]
    return [options.output_dir / name for name in options.selection.wanted([*corpus.SETS, *extra_sets])]


def _check_targets(options: CommandOptions, corpus: ModuleType) -> None:
    """Refuse to write to inputs and to directories that `prepare` did not write, before fetching or converting."""
    from espnet_diverse.data.output_paths import check_outputs, check_prepared, check_unread

    read = inputs(options)
    if read and hasattr(corpus, "reads"):
        read += corpus.reads(read[0], options.selection)
    for target in _targets(options, corpus):
        check_unread(target, read)
        check_prepared(target)
    data_directories = hasattr(corpus, "reads")  # where a report could be written over a table
    check_outputs(filter(None, [options.report]), [path for path in read if data_directories or path.is_file()])
    report = options.report
    if report is not None and report.exists() and not _is_report(report):
        raise ConfigError(f"--report {report}: exists, and `prepare` has not written it; give another file")


def _is_report(path: Path) -> bool:
    """Return whether a file may be a list of faults, each of which has a place, a colon and a reason."""
    try:
        with path.open(encoding="utf-8") as file:
            return all(": " in line for line in file)
    except (OSError, ValueError):
        return False


def _corpus_dir(options: CommandOptions, corpus: ModuleType) -> Path:
    """The directory of the corpus, after generating or downloading it if requested."""
    from espnet_diverse.corpora import download_corpus

    selection = options.selection
    if sum(map(bool, (options.source, options.corpus, options.download))) != 1:
        raise ConfigError("no unique corpus is given; give exactly one of SOURCE, --corpus synthetic and --download")
    downloads = options.download_dir or options.output_dir.absolute().parent / "downloads"
    if options.source:
        return corpus.convert(options.source, downloads, selection) if hasattr(corpus, "convert") else options.source
    if options.download:
        return download_corpus(corpus, downloads, selection)
    from espnet_diverse.corpora.synthetic import load_generator

    size = options.size or _SIZE
    target = downloads / f"synthetic_{options.name}_{size}"
    if hasattr(corpus, "generate"):
        return corpus.generate(target, selection, size)
    return load_generator(options.name).make(target, size=size, nj=options.nj)
