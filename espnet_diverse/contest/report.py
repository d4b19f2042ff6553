"""The report of a contest, contest.html and contest.md, made from the finished runs; the others are named."""

import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from espnet_diverse.analysis.comparison import COUNTED, Size
from espnet_diverse.analysis.html_page import Page
from espnet_diverse.contest.costs import Cost, read_costs
from espnet_diverse.contest.curves import read_curves
from espnet_diverse.contest.differences import Difference, compare, conclusion
from espnet_diverse.contest.figures import draw_costs, draw_curves, draw_differences, draw_redundancy
from espnet_diverse.contest.options import passes_twice
from espnet_diverse.contest.redundant_heads import KINDS, read_redundancy
from espnet_diverse.contest.runs import Run
from espnet_diverse.contest.scores import mean_cell, missing
from espnet_diverse.contest.settings import Contest
from espnet_diverse.cpu.machine import cpu_model
from espnet_diverse.data.characters import safe_name
from espnet_diverse.data.files.atomic_files import staged_directory, write_text
from espnet_diverse.data.output_paths import check_prepared, mark_prepared
from espnet_diverse.scoring.metric import Metric, lower_is_better, shown_name
from espnet_diverse.scoring.table import markdown_table

NAME = "contest"
PICTURES = "pictures"
"""Folder beside the report; it is replaced as a whole."""
_FIRM = "\u00a0"  # a space at which no line ends, in the narrow cells of a phone
_TERMS = (
    (
        "interval over seeds",
        "95 % interval of Student's t for the mean difference of runs with the same seed: where the mean would lie if "
        "all were trained again. It reaches 12.7 standard errors to each side with two seeds, 4.3 with three and 2.8 "
        "with five: more seeds make it narrower.",
    ),
    (
        "interval over sentences",
        "95 % interval of a paired bootstrap: where the difference of these models would lie on other sentences of the "
        "same kind. p is the p-value of this test, about one-sided.",
    ),
    (
        "shown",
        "A difference is called shown where its intervals lie on one side of 0. Each interval is for one comparison: "
        "of twenty methods that equal the baseline, one is expected outside of its interval by chance.",
    ),
)


class Document:
    """A report, from top to bottom.

    Args:
        title: Its title.
        pictures: Name of the folder of the pictures, beside the report.
    """

    def __init__(self, title: str, pictures: str):
        self._page, self._lines, self._pictures = Page(title), [f"# {title}", ""], pictures

    def heading(self, text: str) -> None:
        """Begin a section."""
        self._page.heading(text)
        self._lines += [f"## {text}", ""]

    def paragraph(self, text: str) -> None:
        """Add a paragraph."""
        self._page.paragraph(text)
        self._lines += [text, ""]

    def terms(self, meanings: Sequence[tuple[str, str]]) -> None:
        """Add a list of terms and their meanings."""
        self._page.terms(meanings)
        self._lines += [f"- **{term}**: {meaning}" for term, meaning in meanings]
        self._lines.append("")

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Add a table."""
        rows = list(rows)
        self._page.table(header, rows)
        self._lines.append(markdown_table(header, rows))

    def picture(self, path: Path, caption: str) -> None:
        """Add a PNG file from the folder of pictures."""
        self._page.picture(path, caption)
        title = caption.partition(".")[0]
        self._lines += [f"![{title}]({self._pictures}/{path.name})", "", caption, ""]

    def write(self, path: Path) -> None:
        """Write the HTML and the Markdown file, `path` with .html and with .md."""
        write_text(path.with_suffix(".md"), "\n".join(self._lines))
        self._page.write(path.with_suffix(".html"))


def write_report(
    contest: Contest,
    runs: Sequence[Run],
    results: Sequence[Mapping[str, str]],
    metric: Metric | None,
    notes: Sequence[str] = (),
) -> list[str]:
    """Write contest.html, contest.md and pictures/, the report last; return its conclusions, one for each set.

    Args:
        contest: The contest.
        runs: All of its runs.
        results: Scores of finished runs.
        metric: The metric, for the bootstrap over sentences; None leaves it out.
        notes: Sentences about what did not go as planned.

    Raises:
        DataError: `pictures` has files that a contest has not written, or a text cannot be read.
        ModelError: A checkpoint of a finished run is missing or damaged.
    """
    check_prepared(contest.output_dir / PICTURES, NAME)
    waiting = missing(runs, results)
    done = [run for run in runs if run not in waiting]
    compared = {name: compare(runs, results, name, metric) for name in runs[0].sets}
    costs = read_costs(contest.output_dir / "costs.json")
    document = Document(f"Contest {contest.name}: which attention?", PICTURES)
    conclusions = [conclusion(differences, runs[0].metric, name) for name, differences in compared.items()]
    for message in conclusions:
        document.paragraph(message)
    if waiting:
        labels = ", ".join(f"{run.name} with seed {run.seed}" for run in waiting)
        document.paragraph(f"Without scores so far: {labels}.")
    infinite = {f"{row['run']} with seed {row['seed']}" for row in results if not math.isfinite(float(row["score"]))}
    if infinite:
        document.paragraph(f"Without a finite score on a set, and left out there: {', '.join(sorted(infinite))}.")
    for note in notes:
        document.paragraph(note)
    with staged_directory(contest.output_dir / PICTURES) as folder:
        _difference_section(document, compared, runs[0].metric, folder)
        _cost_section(document, compared, costs, runs[0].metric, folder)
        _curve_section(document, done, list(contest.methods), folder)
        _redundancy_section(document, done, folder)
        _settings_section(document, contest, runs, results)
        mark_prepared(folder, NAME)
    document.write(contest.output_dir / NAME)
    return conclusions


def _difference_section(
    document: Document, compared: Mapping[str, Sequence[Difference]], metric: str, folder: Path
) -> None:
    document.heading("Differences")
    better = "lower" if lower_is_better(metric) else "higher"
    for name, differences in compared.items():
        path = folder / f"forest_{safe_name(name)}.png"
        draw_differences(differences, metric, name, path)
        document.picture(
            path,
            f"{name}: {shown_name(metric)} ({better} is better), as differences from {differences[0].method}. An "
            "interval that holds 0 shows no difference, and the true one may lie anywhere within it. An arrow: it "
            "continues beyond the picture.",
        )
        header = (name, "difference", "95 % over seeds", "95 % over sentences", "p", shown_name(metric), "seeds")
        document.table(*_without_empty_columns(header, list(map(_difference_row, differences))))
    is_empty = {
        "interval over seeds": not any(result.over_seeds for group in compared.values() for result in group),
        "interval over sentences": not any(result.over_sentences for group in compared.values() for result in group),
    }
    document.terms([(term, meaning) for term, meaning in _TERMS if not is_empty.get(term)])


def _without_empty_columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    columns = [column for column in range(len(header)) if any(row[column] for row in rows)]
    return [header[column] for column in columns], [[row[column] for column in columns] for row in rows]


def _difference_row(result: Difference) -> list[str]:
    p = "" if result.p_value is None else f"{result.p_value:.3f}"
    difference = f"{result.mean:+.2f}" if result.by_seed else ""
    score = mean_cell(list(result.scores.values())).replace(" ", _FIRM)
    count = str(len(result.scores))
    return [result.method, difference, _bounds(result.over_seeds), _bounds(result.over_sentences), p, score, count]


def _bounds(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else f"{interval[0]:+.2f} to {interval[1]:+.2f}".replace(" ", _FIRM)


def _cost_section(
    document: Document,
    compared: Mapping[str, Sequence[Difference]],
    costs: Mapping[str, Cost],
    metric: str,
    folder: Path,
) -> None:
    if not costs:
        return
    document.heading("Score against costs")
    name, differences = list(compared.items())[-1]
    path = folder / "costs.png"
    draw_costs(differences, costs, metric, name, path)
    document.picture(
        path,
        f"{name}: {shown_name(metric)} against what a method costs. Markers: mean over seeds; lines beside them: "
        "seeds. Times are of short trials, one after another.",
    )
    baseline = costs.get(differences[0].method)
    rows = []
    for result in differences:
        if cost := costs.get(result.method):
            ratio = f"{cost.step / baseline.step:.2f}" if baseline else ""
            times = [f"{1e3 * cost.step:.1f}", ratio]
            rows.append([result.method, *times, f"{cost.memory:.2f}", f"{cost.parameters:,}"])
            rows[-1] += Size(cost.parameters, cost.flops, cost.example).cells()
    document.table(("method", "ms a batch", "ratio", "memory (GB)", "parameters", *COUNTED), rows)
    document.paragraph(
        "Memory is the peak of the GPU, or of the whole process on a CPU, with all libraries. The last two columns are "
        "counted in a forward pass of one example."
    )


def _curve_section(document: Document, done: Sequence[Run], methods: Sequence[str], folder: Path) -> None:
    if not (curves := read_curves(done)):
        return
    document.heading("Learning curves")
    path = folder / "curves.png"
    draw_curves(curves, methods, path)
    document.picture(path, "Statistics of the validation set by epoch: mean over seeds, and the range of the seeds.")


def _redundancy_section(document: Document, done: Sequence[Run], folder: Path) -> None:
    measured = {run.name: redundancy for run in done if (redundancy := read_redundancy(run))}
    if not measured:
        return
    document.heading("Redundancy of heads")
    path = folder / "redundancy.png"
    draw_redundancy(measured, path)
    document.picture(
        path,
        "How alike the heads of a layer attend, with teacher forcing on some utterances, the first seed. A method "
        "without a row, or without a kind of attention, keeps no weights there that could be compared.",
    )
    keys = ("lr_normalised", "hr", "entropy")
    rows = [
        [name, KINDS[kind], *("–" if values[key] is None else f"{values[key]:.3f}" for key in keys)]
        for name, kinds in measured.items()
        for kind, values in kinds.items()
    ]
    document.table(("method", "attention", "LR / log2 H", "HR", "entropy (nats)"), rows)
    document.paragraph("espnet-diverse analyse explains these measures; its report is in analysis/ of each run.")


def _settings_section(
    document: Document, contest: Contest, runs: Sequence[Run], results: Sequence[Mapping[str, str]]
) -> None:
    document.heading("Settings")
    halved = [name for name, config in contest.merged().items() if passes_twice(config)]
    less = f"; half of the updates for {' '.join(halved)}, with two passes over each batch" if halved else ""
    document.paragraph(
        f"All methods have the same budget: {contest.budget}{less}. The base configuration is "
        f"{runs[0].shared['config']}, with the fragments of a method instead of {{}}; the data are from "
        f"{contest.recipe or contest.data_dir}. All settings are in contest.yaml, all scores in contest.tsv."
    )
    rows = []
    for name, settings in contest.methods.items():
        mine = [run.seed for run in runs if run.name == name]
        rows.append([name, settings["fragments"], " ".join(settings["set"]), " ".join(map(str, mine))])
    document.table(("method", "fragments", "changes", "seeds"), rows)
    commits = ", ".join(dict.fromkeys(row["commit"] for row in results)) or "none"
    processors = ", ".join(dict.fromkeys(row["processor"] for row in results)) or cpu_model()
    document.paragraph(
        f"Commits or versions of espnet_diverse that trained: {commits}. Processors: {processors}. Report by "
        f"espnet_diverse {version('espnet_diverse')}, Python {platform.python_version()}."
    )
