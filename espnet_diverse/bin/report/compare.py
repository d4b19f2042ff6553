"""Compare runs in one table of sizes, tokens per second and scores by language, and plot score against pool size."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="directories of the runs")
    parser.add_argument(
        "--decoded",
        default="decode/test",
        help="directory in each run with score.json and decode.json (default: decode/test)",
    )
    parser.add_argument("--metric", help="metric of score.json to compare (default: the first)")
    parser.add_argument(
        "--names",
        nargs="+",
        default=[],
        metavar="NAME",
        help="names of the systems (default: names of the directories)",
    )
    parser.add_argument(
        "--output_dir", type=Path, required=True, help="directory for compare.md, compare.json and compare.png"
    )


def inputs(args: argparse.Namespace) -> list[Path]:
    """Files that are read."""
    there = [run / args.decoded / "decode.json" for run in args.runs]
    needed = [path for run in args.runs for path in (run / "config.yaml", run / args.decoded / "score.json")]
    return [*needed, *(path for path in there if path.exists())]


def outputs(args: argparse.Namespace) -> list[Path]:
    """Files that are written."""
    return [args.output_dir / f"compare.{suffix}" for suffix in ("md", "json", "png")]


def run(args: argparse.Namespace) -> int:
    """Compare, and print the table."""
    import json

    from espnet_diverse.data.files.atomic_files import write_text
    from espnet_diverse.errors import ConfigError

    if args.names and len(args.names) != len(args.runs):
        raise ConfigError(
            f"--names has {len(args.names)} names for {len(args.runs)} runs; give one name per run, or none"
        )
    from espnet_diverse.analysis.comparison import read_system, table, to_dict
    from espnet_diverse.analysis.figures.comparison_plot import draw_comparison
    from espnet_diverse.runs.logs import logged
    from espnet_diverse.scoring.score_file import read_metrics

    metric = args.metric or next(iter(read_metrics(args.runs[0] / args.decoded / "score.json")))
    names = args.names or [None] * len(args.runs)
    with logged(args.output_dir / "compare.log"):
        systems = [read_system(run, args.decoded, metric, name) for run, name in zip(args.runs, names, strict=True)]
        markdown = table(systems, metric.upper())
        write_text(args.output_dir / "compare.md", markdown)
        write_text(args.output_dir / "compare.json", json.dumps(to_dict(systems, metric), indent=1) + "\n")
        draw_comparison(systems, metric.upper(), args.output_dir / "compare.png")
    print(markdown, end="")
    return 0
