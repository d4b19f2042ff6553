"""Compare runs: scores with their intervals, sizes and tokens per second, as one page with plots.

With --reference the decoded texts are compared too: the differences from the first run with their intervals, and the
utterances that differ most.
"""

import argparse
import json
from pathlib import Path

from espnet_diverse.bin.options.input_paths import RUN_DIR
from espnet_diverse.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.add_argument("runs", nargs="+", type=RUN_DIR, metavar="RUN", help="directories of the runs")
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
        "--reference", type=Path, metavar="FILE", help="reference texts, to compare the texts of each utterance"
    )
    parser.add_argument(
        "--output_dir", type=Path, required=True, help="directory for compare.html, .md, .json and .png"
    )


def inputs(args: argparse.Namespace) -> list[Path]:
    """Files that are read."""
    there = [run / args.decoded / "decode.json" for run in args.runs]
    needed = [path for run in args.runs for path in (run / "config.yaml", run / args.decoded / "score.json")]
    texts = [args.reference, *(run / args.decoded / "text" for run in args.runs)] if args.reference else []
    return [*needed, *(path for path in there if path.exists()), *texts]


def outputs(args: argparse.Namespace) -> list[Path]:
    """Files that are written."""
    suffixes = ("html", "md", "json", "png", *(["differences.png"] if args.reference else []))
    return [args.output_dir / f"compare.{suffix}" for suffix in suffixes]


def run(args: argparse.Namespace) -> int:
    """Compare, and print the table."""
    from espnet_diverse.data.files.atomic_files import write_text

    if args.names and len(args.names) != len(args.runs):
        raise ConfigError(
            f"--names has {len(args.names)} names for {len(args.runs)} runs; give one name per run, or none"
        )
    if args.reference and len(args.runs) < 2:
        raise ConfigError(f"--reference {args.reference} compares runs, and there is one; name two or more")
    from espnet_diverse.analysis.comparison import check_signatures, read_system, table, to_dict
    from espnet_diverse.analysis.comparison_page import draw_comparison, draw_differences, verdict, write_page
    from espnet_diverse.analysis.differences import measure_differences
    from espnet_diverse.runs.logs import logged
    from espnet_diverse.scoring.groups import OVERALL
    from espnet_diverse.scoring.score_file import read_metrics

    metric = args.metric or next(iter(read_metrics(args.runs[0] / args.decoded / "score.json")))
    names, out = args.names or [None] * len(args.runs), args.output_dir
    pictures = {"scores": out / "compare.png", "differences": out / "compare.differences.png"}
    with logged(out / "compare.log"):
        systems = [read_system(run, args.decoded, metric, name) for run, name in zip(args.runs, names, strict=True)]
        check_signatures(systems)
        differences, said = None, ""
        if len({system.name for system in systems}) < len(systems):
            raise ConfigError("two runs have the same name; tell them apart by --names")
        if args.reference:
            files = {system.name: run / args.decoded / "text" for system, run in zip(systems, args.runs, strict=True)}
            scores = [system.scores[OVERALL] for system in systems]
            differences = measure_differences(args.reference, files, metric, scores)
            said = "".join(f"\n{verdict(each, systems[0].name, metric.upper())}\n" for each in differences.found)
            draw_differences(differences, metric.upper(), pictures["differences"])
        else:
            pictures["differences"].unlink(missing_ok=True)  # of a former call
        draw_comparison(systems, metric.upper(), pictures["scores"])
        markdown = table(systems, metric.upper()) + said
        write_text(out / "compare.md", markdown)
        write_text(out / "compare.json", json.dumps(to_dict(systems, metric, differences), indent=1) + "\n")
        write_page(systems, metric.upper(), differences, pictures, out / "compare.html")
    print(markdown, end="")
    return 0
