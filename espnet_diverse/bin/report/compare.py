"""Compare runs: scores with their intervals, sizes and tokens per second, as one page with plots.

With --reference the decoded texts are compared too: the differences from the first run with their intervals, and the
utterances that differ most.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from espnet_diverse.bin.options.arguments import Arguments, adder
from espnet_diverse.bin.options.input_paths import RUN_DIR
from espnet_diverse.errors import ConfigError
from espnet_diverse.option_checks import listed, path, text


class CommandOptions(Arguments):
    runs: Sequence[Path] = listed(
        of=path(parse=RUN_DIR), positional=True, metavar="RUN", help="directories of the runs"
    )
    decoded: str = text("decode/test", help="directory in each run with score.json and decode.json")
    metric: str | None = text(None, help="metric of score.json to compare", shown="the first")
    names: Sequence[str] = listed((), metavar="NAME", help="names of the systems", shown="names of the directories")
    reference: Path | None = path(None, metavar="FILE", help="reference texts, to compare the texts of each utterance")
    output_dir: Path = path(help="directory for compare.html, .md, .json and .png")


add_arguments = adder(CommandOptions)


def inputs(options: CommandOptions) -> list[Path]:
    """Files that are read."""
    optional = [run / options.decoded / "decode.json" for run in options.runs]
    needed = [path for run in options.runs for path in (run / "config.yaml", run / options.decoded / "score.json")]
    texts = [options.reference, *(run / options.decoded / "text" for run in options.runs)] if options.reference else []
    return [*needed, *(path for path in optional if path.exists()), *texts]


def outputs(options: CommandOptions) -> list[Path]:
    """Files that are written."""
    suffixes = ("html", "md", "json", "png", *(["differences.png"] if options.reference else []))
    return [options.output_dir / f"compare.{suffix}" for suffix in suffixes]


def run(options: CommandOptions) -> int:
    """Compare, and print the table."""
    from espnet_diverse.data.files.atomic_files import write_text

    if options.names and len(options.names) != len(options.runs):
        count = len(options.names)
        raise ConfigError(f"--names has {count} names for {len(options.runs)} runs; give one name per run, or none")
    if not all(options.names):
        raise ConfigError("--names has an empty name; give one name per run, or none")
    if options.reference and len(options.runs) < 2:
        raise ConfigError(f"--reference {options.reference} compares runs, and there is one; name two or more")
    from espnet_diverse.analysis.comparison import check_signatures, read_system, table, to_dict
    from espnet_diverse.analysis.comparison_page import draw_comparison, draw_differences, verdict, write_page
    from espnet_diverse.analysis.differences import measure_differences
    from espnet_diverse.runs.logs import logged
    from espnet_diverse.scoring.groups import OVERALL
    from espnet_diverse.scoring.metric import shown_name
    from espnet_diverse.scoring.score_file import read_metrics

    metric = options.metric or next(iter(read_metrics(options.runs[0] / options.decoded / "score.json")))
    shown = shown_name(metric)
    names, out = options.names or [None] * len(options.runs), options.output_dir
    pictures = {"scores": out / "compare.png", "differences": out / "compare.differences.png"}
    with logged(out / "compare.log"):
        named = zip(options.runs, names, strict=True)
        systems = [read_system(run, options.decoded, metric, name) for run, name in named]
        check_signatures(systems)
        differences, message = None, ""
        if len({system.name for system in systems}) < len(systems):
            raise ConfigError("two runs have the same name; tell them apart by --names")
        if options.reference:
            texts = [run / options.decoded / "text" for run in options.runs]
            files = dict(zip((system.name for system in systems), texts, strict=True))
            scores = [system.scores[OVERALL] for system in systems]
            differences = measure_differences(options.reference, files, metric, scores)
            message = "".join(f"\n{verdict(difference, systems[0].name, shown)}\n" for difference in differences.found)
            draw_differences(differences, shown, pictures["differences"])
        else:
            pictures["differences"].unlink(missing_ok=True)  # of a former call
        draw_comparison(systems, shown, pictures["scores"])
        markdown = table(systems, shown) + message
        write_text(out / "compare.md", markdown)
        write_text(out / "compare.json", json.dumps(to_dict(systems, metric, differences), indent=1) + "\n")
        write_page(systems, shown, differences, pictures, out / "compare.html")
    print(markdown, end="")
    return 0
