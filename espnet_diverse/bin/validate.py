"""Check data directories and list all of their faults: in the tables, between them, and in the audio or features.

Directories may have segments, entries of arks (wav.1.ark:1234), and feats.scp in place of wav.scp. Exit code 1 means
that there are faults.
"""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `espnet-diverse validate`."""
    parser.add_argument("data_dirs", nargs="+", type=Path, metavar="DIR", help="data directory")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="file for the faults: directory, file, where and what of each"
    )
    parser.add_argument(
        "--headers", action="store_true", help="read only headers of audio and features, not all samples"
    )
    parser.add_argument("--nj", type=int, default=4, help="number of threads that read audio (default: 4)")


def inputs(args: argparse.Namespace) -> list[Path]:
    """The data directories."""
    return args.data_dirs


def outputs(args: argparse.Namespace) -> list[Path]:
    """The list of faults, if it is asked for."""
    return [args.json] if args.json else []


def run(args: argparse.Namespace) -> int:
    """Print the faults of each directory; 1 if there are any."""
    import json
    from dataclasses import asdict

    from espnet_diverse.data.atomic_files import write_text
    from espnet_diverse.data.validate import find_faults
    from espnet_diverse.errors import ConfigError

    if args.nj < 1:
        raise ConfigError(f"--nj {args.nj}: must be 1 or more")
    rows = []
    for data_dir in args.data_dirs:
        has_features = (data_dir / "feats.scp").is_file() and not (data_dir / "wav.scp").is_file()
        faults = find_faults(data_dir, nj=args.nj, decode=not args.headers, features=0 if has_features else None)
        print(*faults, sep="\n", end="\n" if faults else "")
        count = len(faults) or "no"
        print(f"{data_dir}: {count} fault{'s' * (len(faults) != 1)}")
        rows += [{"directory": str(data_dir), **asdict(fault)} for fault in faults]
    if args.json:
        write_text(args.json, json.dumps(rows, ensure_ascii=False, indent=1) + "\n")
    return 1 if rows else 0
