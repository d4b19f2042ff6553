"""Check data directories and list all of their faults: in the tables, between them, in the audio or features, in texts.

Directories may have segments, entries of arks (wav.1.ark:1234), and feats.scp instead of wav.scp. Each fault has a
kind, and each kind an action: refuse; drop, so that --fix leaves the utterance out and training refuses it; or warn.
Exit code 1 means that there are faults to refuse or drop, 2 that --fix has dropped utterances.
"""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from espnet_diverse.bin.options.cluster_option import check_nj
from espnet_diverse.bin.options.input_paths import DATA_DIR, TOKENS_DIR
from espnet_diverse.errors import ConfigError

if TYPE_CHECKING:
    from espnet_diverse.data.checks.audio_statistics import Survey
    from espnet_diverse.data.checks.plausibility import Limits

_SHOWN = ("file", "where", "what", "kind")
"""Attributes of a fault that --json writes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `espnet-diverse validate`."""
    from espnet_diverse.data.faults import ACTIONS

    parser.add_argument("data_dirs", nargs="+", type=Path, metavar="DIR", help="data directory")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="file for the faults: directory, file, where, what, kind and action"
    )
    parser.add_argument(
        "--figures",
        type=Path,
        metavar="DIR",
        help="folder for validate.html: histograms of lengths, rates, levels, speakers, texts; outliers to hear",
    )
    parser.add_argument(
        "--headers", action="store_true", help="read only headers of audio and features, not all samples"
    )
    parser.add_argument(
        "--fix", type=Path, metavar="OUT", help="data directory to write: normalised tables, without what is dropped"
    )
    parser.add_argument(
        "--against", type=DATA_DIR, metavar="TRAIN", help="data directory that must share no speaker and no sentence"
    )
    defaults = " ".join(f"{kind}={action}" for kind, action in ACTIONS.items())
    parser.add_argument(
        "--on", nargs="+", default=[], metavar="KIND=ACTION", help=f"refuse, drop or warn by kind (default: {defaults})"
    )
    parser.add_argument(
        "--tokens_dir",
        type=TOKENS_DIR,
        help="vocabulary, for the number of tokens of each text; without it characters count",
    )
    parser.add_argument("--min_seconds", type=float, default=0.1, help="minimum length of an utterance (default: 0.1)")
    parser.add_argument("--max_seconds", type=float, default=60.0, help="maximum length of an utterance (default: 60)")
    parser.add_argument(
        "--most", type=int, default=5, metavar="N", help="printed lines per group of similar faults (default: 5)"
    )
    parser.add_argument("--nj", type=int, default=4, help="number of threads that read audio (default: 4)")


def inputs(args: argparse.Namespace) -> list[Path]:
    """The data directories and the vocabulary."""
    return [*args.data_dirs, *(path for path in (args.against, args.tokens_dir) if path)]


def outputs(args: argparse.Namespace) -> list[Path]:
    """The list of faults, the corrected directory and the page, if they are requested."""
    page = args.figures / "validate.html" if args.figures else None
    return [path for path in (args.json, args.fix, page) if path]


def run(args: argparse.Namespace) -> int:
    """Print the faults of each directory; return the exit code."""
    from espnet_diverse.data.checks.audio_statistics import Survey
    from espnet_diverse.data.checks.fixing import left_out, made_plain, write_fixed
    from espnet_diverse.data.checks.plausibility import Limits
    from espnet_diverse.data.faults import alike_once, parse_actions
    from espnet_diverse.data.files.atomic_files import write_text
    from espnet_diverse.text.vocabulary import Vocabulary

    _check(args)
    actions, rows, dropped = parse_actions(args.on), [], 0
    tokens = Vocabulary.load(args.tokens_dir).encode if args.tokens_dir else None
    limits = Limits(args.min_seconds, args.max_seconds, tokens)
    surveys = [(data_dir, Survey() if args.figures else None) for data_dir in args.data_dirs]
    for data_dir, survey in surveys:
        faults = _faults(args, data_dir, limits, survey)
        lines = (f"warning: {fault}" if actions[fault.kind] == "warn" else str(fault) for fault in faults)
        print(*alike_once(lines, most=args.most, listed="--json FILE lists all"), sep="\n", end="\n" * bool(faults))
        warnings = sum(actions[fault.kind] == "warn" for fault in faults)
        count = len(faults) - warnings
        told = f", {warnings} warning{'s' * (warnings > 1)}" if warnings else ""
        print(f"{data_dir}: {count or 'no'} fault{'s' * (count != 1)}{told}")
        if told := left_out(data_dir, faults, actions):
            print(f"{data_dir}: --fix OUT {told}")
        if told := made_plain(data_dir, faults):
            print(f"{data_dir}: --fix OUT {told}")
        for fault in faults:
            values = {name: getattr(fault, name) for name in _SHOWN}
            rows.append({"directory": str(data_dir), **values, "action": actions[fault.kind]})
        if args.fix:
            kept, dropped = write_fixed(data_dir, args.fix, faults, actions)
            listed = f" (listed in {args.fix / 'dropped.tsv'})" if dropped else ""
            print(f"{args.fix}: {kept} utterances, {dropped} dropped{listed}")
    if args.figures:
        from espnet_diverse.analysis.data_page import write_survey

        write_survey(surveys, args.figures)
    if args.json:
        write_text(args.json, json.dumps(rows, ensure_ascii=False, indent=1) + "\n")
    if args.fix:
        return 2 if dropped else 0
    return 1 if any(row["action"] != "warn" for row in rows) else 0


def _check(args: argparse.Namespace) -> None:
    """Refuse options and targets before all samples are read."""
    from espnet_diverse.data.files.atomic_files import check_no_file
    from espnet_diverse.data.output_paths import check_prepared, check_unread

    check_nj(args.nj)
    if args.most < 1:
        raise ConfigError(f"--most {args.most}: must be 1 or more")
    if not 0 < args.min_seconds < args.max_seconds:
        raise ConfigError(f"--min_seconds {args.min_seconds:g} must be above 0 and below --max_seconds")
    if args.fix and len(args.data_dirs) > 1:
        raise ConfigError(f"--fix {args.fix}: mends one directory, and {len(args.data_dirs)} are given")
    if args.figures:
        check_no_file(args.figures)
        check_unread(args.figures, inputs(args))
    if args.fix:
        check_unread(args.fix, inputs(args))
        check_prepared(args.fix)
    if args.json and args.json.exists() and not _is_list_of_faults(args.json):
        raise ConfigError(f"--json {args.json}: exists, and `validate` has not written it; give another file")
    if args.against and args.against.resolve() in [data_dir.resolve() for data_dir in args.data_dirs]:
        raise ConfigError(f"--against {args.against}: is a directory that is checked itself; give the others as DIR")


def _is_list_of_faults(path: Path) -> bool:
    """Return whether a file has the format that --json writes."""
    from espnet_diverse.untrusted.whole_files import read_json

    keys = {"directory", "action", *_SHOWN}
    try:
        rows = read_json(path)
    except (OSError, ValueError):
        return False
    return isinstance(rows, list) and all(isinstance(row, dict) and row.keys() == keys for row in rows)


def _faults(args: argparse.Namespace, data_dir: Path, limits: "Limits", survey: "Survey | None") -> list:
    from espnet_diverse.data.checks.fixing import shared
    from espnet_diverse.data.checks.validate import find_faults
    from espnet_diverse.data.kaldi import source_of

    features = 0 if source_of(data_dir) == "feats.scp" else None
    faults = find_faults(data_dir, nj=args.nj, decode=not args.headers, features=features, limits=limits, survey=survey)
    return faults + (list(shared(data_dir, args.against)) if args.against else [])
