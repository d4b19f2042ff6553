"""Read a corpus and write Kaldi data directories: 16 kHz mono audio, one file an utterance.

Utterances outside the limits on length are listed in dropped.tsv with the reason and counted in what is printed; that
is no failure, the exit code stays 0. Anything wrong with the corpus is an error, and nothing is written.
"""

import argparse
from pathlib import Path
from types import ModuleType


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `espnet-diverse prepare`."""
    parser.add_argument("name", metavar="CORPUS", help="aishell")
    parser.add_argument("--corpus_dir", type=Path, help="the official release, unpacked")
    parser.add_argument("--corpus", choices=["synthetic"], help="make a small replica with synthetic voices instead")
    parser.add_argument("--size", default="demo", help="of the replica: demo or tiny (default: demo)")
    parser.add_argument("--download", action="store_true", help="fetch the official release, resuming where it stopped")
    parser.add_argument(
        "--download_dir", type=Path, help="for it and the replica (default: downloads beside output_dir)"
    )
    parser.add_argument("--output_dir", type=Path, required=True, help="gets one data directory a set: train dev test")
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
        "--audio_format", default="wav", help="of audio that must be converted: wav or flac (default: wav)"
    )
    parser.add_argument("--on_missing", default="error", help="utterances without audio or transcript: error or drop")
    parser.add_argument("--report", type=Path, help="file for the full list of faults, where there are any")
    parser.add_argument("--nj", type=int, default=4, help="threads that read and write audio (default: 4)")


def inputs(args: argparse.Namespace) -> list[Path]:
    """The corpus, where it lies here already."""
    return [args.corpus_dir] if args.corpus_dir else []


def outputs(args: argparse.Namespace) -> list[Path]:
    """Two tables of every set; a data directory is written as a whole."""
    from espnet_diverse.corpora import load_corpus

    return [args.output_dir / name / table for name in load_corpus(args.name).SETS for table in ("wav.scp", "text")]


def run(args: argparse.Namespace) -> int:
    """Prepare every set of the corpus and print what came of it."""
    from espnet_diverse.corpora import load_corpus
    from espnet_diverse.corpora.faults import FaultsError
    from espnet_diverse.corpora.files import write_text
    from espnet_diverse.corpora.formatting import Form, format_data
    from espnet_diverse.errors import ConfigError, DataError

    if args.nj < 1:
        raise ConfigError(f"--nj {args.nj}: must be 1 or more")
    corpus = load_corpus(args.name)
    form = Form(tuple(args.speed_perturb), args.min_seconds, args.max_seconds, args.audio_format)
    try:
        sets = corpus.prepare(_corpus_dir(args, corpus), args.on_missing)
        summaries = format_data(sets, args.output_dir, form, args.nj)
    except FaultsError as error:
        if args.report is None:
            raise
        write_text(args.report, "".join(f"{fault}\n" for fault in error.faults))
        raise DataError(f"{error} (all are listed in {args.report})") from error
    for name, summary in summaries.items():
        listed = f" (listed in {args.output_dir / name / 'dropped.tsv'})" if summary.dropped else ""
        hours = summary.seconds / 3600
        counts = f"{summary.utterances} utterances, {hours:.2f} hours, {summary.speakers} speakers"
        print(f"{name}: {counts}, {summary.dropped} dropped{listed}")
        for what, count in summary.converted.most_common():
            print(f"{name}: {count} recordings of {what} brought to 16 kHz mono")
    return 0


def _corpus_dir(args: argparse.Namespace, corpus: ModuleType) -> Path:
    """Where the corpus lies, after making or fetching it where that is asked for."""
    from espnet_diverse.errors import ConfigError

    if sum(map(bool, (args.corpus_dir, args.corpus, args.download))) != 1:
        raise ConfigError("where is the corpus? give exactly one of --corpus_dir DIR, --corpus synthetic, --download")
    if args.corpus_dir:
        return args.corpus_dir
    downloads = args.download_dir or args.output_dir.absolute().parent / "downloads"
    if args.download:
        return corpus.download(downloads)
    from espnet_diverse.corpora import synthetic

    make = getattr(synthetic, f"make_{args.name}")
    return make(downloads / f"synthetic_{args.size}", size=args.size)
