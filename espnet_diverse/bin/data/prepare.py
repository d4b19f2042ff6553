"""Read a corpus and write Kaldi data directories: mono audio of one rate in a file per utterance or in arks, or text.

Utterances outside the length limits are listed in dropped.tsv with the reason and counted in the summary; the exit code
is still 0. A fault in the corpus is an error, and nothing is written. Input directories, and directories that `prepare`
did not write, are never replaced.
"""

import argparse
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from espnet_diverse.bin.options.cluster_option import add_cluster, check_nj, workers
from espnet_diverse.errors import ConfigError, DataError

if TYPE_CHECKING:
    from espnet_diverse.corpora import Selection

_SIZE = "demo"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `espnet-diverse prepare`."""
    from espnet_diverse.corpora import CORPORA

    parser.add_argument("name", metavar="CORPUS", help=" ".join(CORPORA))
    parser.add_argument(
        "source",
        nargs="?",
        type=Path,
        metavar="SOURCE",
        help="directory of the unpacked official release; the file of a table; name or directory of a dataset (hf); "
        "directory or file of manifests (lhotse); a data directory or a folder of several (kaldi). Paths of audio are "
        "relative to the table, and in wav.scp and manifests of lhotse to the working directory",
    )
    parser.add_argument(
        "--corpus", choices=["synthetic"], help="generate a small synthetic corpus in the official layout instead"
    )
    parser.add_argument("--size", help=f"size of the synthetic corpus: demo or tiny (default: {_SIZE})")
    parser.add_argument(
        "--download", action="store_true", help="download the official release, resuming an earlier download"
    )
    parser.add_argument(
        "--download_dir",
        type=Path,
        help="directory of downloads and synthetic corpora (default: downloads beside output_dir)",
    )
    parser.add_argument(
        "--output_dir", type=Path, required=True, help="directory for one data directory per set: train dev test"
    )
    _add_selection(parser)
    parser.add_argument(
        "--speed_perturb",
        type=float,
        nargs="+",
        default=[1.0],
        help="speed factors of the training set, e.g. 0.9 1.0 1.1",
    )
    parser.add_argument("--min_seconds", type=float, default=0.1, help="shorter utterances are dropped (default: 0.1)")
    parser.add_argument("--max_seconds", type=float, default=20.0, help="longer utterances are dropped (default: 20)")
    parser.add_argument(
        "--audio_format",
        default="wav",
        help="format of audio that must be converted: wav or flac; or ark: all audio as flac in arks (default: wav)",
    )
    parser.add_argument(
        "--shards",
        type=int,
        default=1,
        metavar="N",
        help="number of arks of each set, for --audio_format ark (default: 1)",
    )
    parser.add_argument("--rate", type=int, default=16_000, help="sampling rate of the audio in Hz (default: 16000)")
    parser.add_argument("--report", type=Path, help="file for the full list of faults, if there are any")
    parser.add_argument("--nj", type=int, default=4, help="number of threads that read and write audio (default: 4)")
    add_cluster(parser)


def _add_selection(parser: argparse.ArgumentParser) -> None:
    """Declare the selection of a part of the corpus; a corpus module names the options that it supports."""
    wanted = parser.add_argument_group("selection")
    wanted.add_argument("--task", default="asr", help="asr, or st with the translation as text (default: asr)")
    wanted.add_argument("--languages", nargs="+", default=[], help="languages spoken (default: the corpus's own)")
    wanted.add_argument("--pairs", nargs="+", default=[], help="directions for training and test, such as es-en fr-en")
    wanted.add_argument("--zero_shot", nargs="+", default=[], help="directions for test only")
    wanted.add_argument(
        "--transcripts",
        default="scored",
        help="scored: lower case without punctuation, as for WER; written: unchanged (default: scored)",
    )
    wanted.add_argument(
        "--case", default="kept", help="case of parallel text: kept, or lower on both sides (default: kept)"
    )
    wanted.add_argument(
        "--segmentation",
        default="none",
        help="word segmentation of Chinese source text: none or jieba (default: none)",
    )
    wanted.add_argument(
        "--train_utterances",
        type=int,
        metavar="N",
        help="only N utterances of the training set, evenly spaced in the order of their ids (default: all)",
    )
    wanted.add_argument(
        "--on_bad",
        "--on_missing",
        default="error",
        help="utterances with a fault, such as a missing text, unusable audio or a faulty line: error, or drop, which "
        "lists them in dropped.tsv (default: error)",
    )
    wanted.add_argument(
        "--max_bad",
        type=float,
        default=0.01,
        metavar="SHARE",
        help="maximum share of utterances of a set that --on_bad drop leaves out; 10 always may be (default: 0.01)",
    )
    wanted.add_argument("--sets", nargs="+", default=[], help="sets to prepare, such as only test (default: all)")
    wanted.add_argument(
        "--set_names",
        nargs="+",
        default=[],
        metavar="SET=NAME",
        help="names of sets in this copy of the corpus, such as train=tr valid=cv (valid is the set dev)",
    )
    wanted.add_argument(
        "--allow_pipes",
        action="store_true",
        help="kaldi: run commands of wav.scp such as sox or flac, without a shell, and write their output as files",
    )
    table = parser.add_argument_group("tables (table, hf, lhotse, kaldi)")
    table.add_argument(
        "--columns", nargs="+", default=[], metavar="COLUMN=NAME", help="names of columns, such as text=sentence"
    )
    table.add_argument(
        "--audio_dir", type=Path, metavar="DIR", help="directory that paths of audio are relative to (table)"
    )
    table.add_argument(
        "--split_by",
        default="speaker",
        help="without a column split, sets share no speaker and no recording: speaker; or no recording: audio "
        "(default: speaker)",
    )
    table.add_argument(
        "--split_shares",
        type=float,
        nargs=2,
        default=(0.1, 0.1),
        metavar=("DEV", "TEST"),
        help="shares of dev and test, if sets are drawn (default: 0.1 0.1)",
    )
    table.add_argument("--split_seed", type=int, default=0, help="random seed of drawing sets (default: 0)")
    _add_generated(parser)


def _add_generated(parser: argparse.ArgumentParser) -> None:
    """Declare how many texts are generated, and how long."""
    generated = parser.add_argument_group("texts that are generated (listops, byte_text)")
    generated.add_argument(
        "--lengths",
        type=int,
        nargs=2,
        default=(),
        metavar=("LEAST", "GREATEST"),
        help="minimum and maximum number of tokens (default: the corpus's own)",
    )
    generated.add_argument(
        "--counts",
        type=int,
        nargs=3,
        default=(),
        metavar=("TRAIN", "DEV", "TEST"),
        help="number of texts of each set (default: as given by --size)",
    )


def inputs(args: argparse.Namespace) -> list[Path]:
    """The directory or file of the corpus, if it is given, and what is read with it."""
    from espnet_diverse.corpora import load_corpus

    beside = getattr(load_corpus(args.name), "beside", lambda source: [])
    return [args.source, *beside(args.source)] if args.source else []


def outputs(args: argparse.Namespace) -> list[Path]:
    """Some tables of every set; a data directory is written all at once."""
    from espnet_diverse.corpora import load_corpus

    corpus = load_corpus(args.name)
    tables = getattr(corpus, "TABLES", ("wav.scp", "text"))
    return [target / table for target in _targets(args, corpus, _selection(args)) for table in tables]


def check(args: argparse.Namespace, before: Mapping[str, argparse.Namespace]) -> None:
    """Check the size of a synthetic corpus; see `bin/plan_steps.py`."""
    if args.size is not None:
        from espnet_diverse.corpora.synthetic import check_size

        if args.corpus is None:
            raise ConfigError(f"--size {args.size} is of a synthetic corpus; give --corpus synthetic, or leave it out")
        check_size(args.size)


def run(args: argparse.Namespace) -> int:
    """Prepare every set of the corpus and print a summary."""
    from espnet_diverse.corpora import check_options, load_corpus
    from espnet_diverse.data.faults import FaultsError
    from espnet_diverse.data.files.atomic_files import write_text
    from espnet_diverse.data.kaldi import evenly_spaced
    from espnet_diverse.data.writing.format_options import FormatOptions
    from espnet_diverse.data.writing.formatting import format_data, without_faults

    check(args, {})
    check_nj(args.nj)
    if args.train_utterances is not None and args.train_utterances < 1:
        raise ConfigError(f"--train_utterances {args.train_utterances}: must be 1 or more")
    corpus = load_corpus(args.name)
    selection = _selection(args)
    check_options(corpus, selection)
    limits = args.min_seconds, args.max_seconds
    formatting = FormatOptions(
        tuple(args.speed_perturb), *limits, args.audio_format, args.rate, args.shards, args.on_bad, args.max_bad
    )
    _check_targets(args, corpus, selection)
    try:
        sets = corpus.prepare(_corpus_dir(args, corpus, selection), selection)
        if args.train_utterances is not None and "train" not in sets:
            raise ConfigError(f"--train_utterances is for the set train, and --sets has only {' '.join(sets)}")
        if args.train_utterances is not None:
            sets["train"] = without_faults({"train": sets["train"]}, formatting)["train"]  # also in rows left out
            sets["train"] = evenly_spaced(sets["train"], args.train_utterances)
        audio = not all(data.is_text for data in sets.values())
        with workers(args, dict, ()) if audio else nullcontext() as pool:  # workers have nothing to load
            summaries = format_data(sets, args.output_dir, formatting, pool or args.nj)
    except FaultsError as error:
        of_rows = args.on_bad == "error" and any(fault.entry for fault in error.faults)
        todo = "; --on_bad drop leaves out utterances with faults" if of_rows else ""
        if args.report is None:
            raise DataError(f"{FaultsError(error.faults, '--report FILE lists all')}{todo}") from error
        write_text(args.report, "".join(f"{fault}\n" for fault in error.faults))
        raise DataError(f"{error} (all are listed in {args.report}){todo}") from error
    for name, summary in summaries.items():
        listed = f" (listed in {args.output_dir / name / 'dropped.tsv'}): {summary.share()}" if summary.dropped else ""
        print(f"{name}: {summary}, {summary.dropped} dropped{listed}")
        for what, count in summary.converted.most_common():
            print(f"{name}: {count} utterances of {what} converted to {args.rate / 1000:g} kHz mono")
    return 0


def _targets(args: argparse.Namespace, corpus: ModuleType, selection: "Selection") -> list[Path]:
    """The data directory of every set that is sure to be written."""
    more = [name for name in getattr(corpus, "MORE_SETS", ()) if name in selection.sets]
    return [args.output_dir / name for name in selection.wanted([*corpus.SETS, *more])]


def _check_targets(args: argparse.Namespace, corpus: ModuleType, selection: "Selection") -> None:
    """Refuse to write to inputs and to directories that `prepare` did not write, before fetching or converting."""
    from espnet_diverse.data.output_paths import check_outputs, check_prepared, check_unread

    read = inputs(args)
    if read and hasattr(corpus, "reads"):
        read += corpus.reads(read[0], selection)
    for target in _targets(args, corpus, selection):
        check_unread(target, read)
        check_prepared(target)
    data_directories = hasattr(corpus, "reads")  # where a report could be written over a table
    check_outputs(filter(None, [args.report]), [path for path in read if data_directories or path.is_file()])


def _selection(args: argparse.Namespace) -> "Selection":
    """The `Selection` given by the options that have the names of its fields."""
    from espnet_diverse.corpora import Selection

    given = {field.name: getattr(args, field.name) for field in fields(Selection)}
    given["sets"] = list(map(_set_name, args.sets))
    given["set_names"] = [(_set_name(name), theirs) for name, theirs in _assignments("set_names", args.set_names)]
    given["columns"] = _assignments("columns", args.columns)
    return Selection(**{name: tuple(value) if isinstance(value, list) else value for name, value in given.items()})


def _set_name(name: str) -> str:
    """The validation set is dev, and may be called valid as in ESPnet."""
    return "dev" if name == "valid" else name


def _assignments(option: str, words: list[str]) -> list[tuple[str, str]]:
    """Pairs of words such as train=tr."""
    pairs = [word.partition("=")[::2] for word in words]
    names = [name for name, _ in pairs]
    if not all(name and value for name, value in pairs) or len(set(names)) < len(names):
        raise ConfigError(f"--{option} {' '.join(words)}: must be NAME=VALUE, each name once")
    return pairs


def _corpus_dir(args: argparse.Namespace, corpus: ModuleType, selection: "Selection") -> Path:
    """The directory of the corpus, after generating or downloading it if requested."""
    from espnet_diverse.corpora import download_corpus

    if sum(map(bool, (args.source, args.corpus, args.download))) != 1:
        raise ConfigError("no unique corpus is given; give exactly one of SOURCE, --corpus synthetic and --download")
    downloads = args.download_dir or args.output_dir.absolute().parent / "downloads"
    if args.source:
        return corpus.convert(args.source, downloads, selection) if hasattr(corpus, "convert") else args.source
    if args.download:
        return download_corpus(corpus, downloads, selection)
    from espnet_diverse.corpora.synthetic import load_generator

    size = args.size or _SIZE
    target = downloads / f"synthetic_{args.name}_{size}"
    if hasattr(corpus, "generate"):
        return corpus.generate(target, selection, size)
    return load_generator(args.name).make(target, size=size, nj=args.nj)
