#!/usr/bin/env python3
"""Write the tables of docs/reproduction.md and draw its pictures.

    egs/reproduction_page.py           # after a change of claims.yaml or new rows in reproduce.tsv
    egs/reproduction_page.py --check   # changes nothing; the first table or picture that is not up to date is an error

claims.yaml holds the claims of each paper. A claim that was measured names runs of reproduce.tsv: its difference from
the baseline is that of the means over seeds, each seed being the mean over all sets of the experiment, with Welch's
95 % interval where both have two seeds or more. Above 0 is better, whichever way the metric counts. Prose between the
tables is written by hand; a section for each claim that was tried has the claim as its heading.
"""

import argparse
import json
import re
import statistics
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import blended_transform_factory
from PIL import Image
from scipy.stats import ttest_ind

from espnet_diverse.contest.scores import read_results
from espnet_diverse.data.files.atomic_files import write_text
from espnet_diverse.scoring.metric import lower_is_better

EGS = Path(__file__).resolve().parent

VERDICTS = ("reproduced", "mostly", "not reproduced", "open", "not tried")
METRICS = {"bleu": "BLEU", "cer": "CER", "wer": "WER", "word_perplexity": "perplexity", "accuracy": "accuracy"}
BEST_HIGH = {shown for metric, shown in METRICS.items() if not lower_is_better(metric)}
RELATIVE = {"perplexity"}  # whose differences are in percent of the baseline
MOST_WORDS = 12  # of a cell
KEYS = {"claim": str, "paper": (str, list), "ours": (str, list), "verdict": str}
RESULT_KEYS = {
    "paper": ({"of", "metric", "score", "baseline"}, {"of", "metric", "gain"}),
    "ours": ({"of", "run", "baseline"},),
}
WIDTH, ROW, AXIS = 5.6, 0.2, 0.58  # inches: letters are read at the width of a phone and of a page
STYLES = {  # of a difference of ours or not, with or without an interval
    (False, False): ("the paper", {"marker": "D", "color": "none", "markeredgecolor": "black", "markersize": 6}),
    (True, True): ("ours (seeds), 95 % interval", {"marker": "o", "color": "C0", "markersize": 6}),
    (True, False): ("ours (1), no interval", {"marker": "s", "color": "C1", "linestyle": "", "markersize": 6}),
}


@dataclass(frozen=True)
class Difference:
    """What a method gains over its baseline.

    Attributes:
        data: The data, and what tells it from other differences of the claim.
        unit: The metric, with % where the difference is relative.
        gain: Difference of the means; above 0 is better.
        interval: Its 95 % interval, None for single seeds and for the figures of papers.
        seeds: Number of seeds of the method and of its baseline; empty for the figures of papers.
    """

    data: str
    unit: str
    gain: float
    interval: tuple[float, float] | None = None
    seeds: tuple[int, ...] = ()


@dataclass(frozen=True)
class Claim:
    """A row of a table, and the rows of the picture below its name."""

    name: str
    cells: tuple[str, str]
    verdict: str
    paper: tuple[Difference, ...]
    ours: tuple[Difference, ...]


def read_claims(path: Path, results: Sequence[Mapping[str, str]]) -> dict[str, list[Claim]]:
    """The claims of each paper, measured by the results.

    Args:
        path: The file of claims.
        results: Rows of the file of scores.
    """
    papers = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {paper: [_claim(one, results, f"{path}: {paper}") for one in claims] for paper, claims in papers.items()}


def _claim(given: Mapping[str, Any], results: Sequence[Mapping[str, str]], where: str) -> Claim:
    for key, kind in KEYS.items():
        if not isinstance(given.get(key), kind):
            sys.exit(f"error: {where}: {key} is {given.get(key)!r} in {given}; each claim has {' '.join(KEYS)}")
    where = f"{where}: {given['claim']}"
    if given["verdict"] not in VERDICTS or set(given) - set(KEYS):
        sys.exit(f"error: {where}: verdicts are {', '.join(VERDICTS)}, keys are {' '.join(KEYS)}; got {given}")
    paper, ours = (_results(given, key, where) for key in RESULT_KEYS)
    for one in paper:
        if one["metric"] not in METRICS.values():
            sys.exit(f"error: {where}: metric {one['metric']!r} is not known; give {', '.join(METRICS.values())}")
    theirs = tuple(_published(one) for one in paper)
    measured = tuple(_measured(one, results, where) for one in ours)
    cells = (_figures(paper[0]) if paper else given["paper"], _cell(measured[0]) if measured else given["ours"])
    for cell in (given["claim"], *cells):
        if len(cell.split()) > MOST_WORDS:
            sys.exit(f"error: {where}: a cell has at most {MOST_WORDS} words, shorten {cell!r}")
    return Claim(given["claim"], cells, given["verdict"], theirs, measured)


def _results(given: Mapping[str, Any], key: str, where: str) -> list[dict[str, Any]]:
    """The results below a key, none where it is a text."""
    found = given[key] if isinstance(given[key], list) else []
    for one in found:
        if not isinstance(one, dict) or set(one) not in RESULT_KEYS[key]:
            allowed = ", or ".join(" ".join(sorted(keys)) for keys in RESULT_KEYS[key])
            sys.exit(f"error: {where}: {key} has {one}; each of its entries has {allowed}")
    return found


def _published(one: Mapping[str, Any]) -> Difference:
    unit, gain = (
        (one["metric"], one["gain"]) if "gain" in one else _gain(one["metric"], [one["score"]], [one["baseline"]])
    )
    return Difference(one["of"], unit, gain)


def _figures(one: Mapping[str, Any]) -> str:
    told = f"{one['gain']:+}" if "gain" in one else f"{one['score']} against {one['baseline']}"
    return f"{one['of']}, {one['metric']} {told}"


def _measured(one: Mapping[str, str], results: Sequence[Mapping[str, str]], where: str) -> Difference:
    experiment, _, run = one["run"].partition("/")
    mine, base = (
        [row for row in results if (row["experiment"], row["run"]) == (experiment, name)]
        for name in (run, one["baseline"])
    )
    for name, rows in ((run, mine), (one["baseline"], base)):
        if not rows:
            sys.exit(f"error: {where}: there is no score of {experiment}/{name}; name runs of the file of scores")
    metric = METRICS[mine[0]["metric"]]
    sets: dict[str, set[str]] = {}
    for row in (*mine, *base):
        sets.setdefault(f"{row['run']}/{row['seed']}", set()).add(row["set"])
    every = set().union(*sets.values())
    if lacking := next((label for label, found in sets.items() if found != every), None):
        missing = " ".join(sorted(every - sets[lacking]))
        sys.exit(f"error: {where}: {experiment}/{lacking} has no score of {missing}; decode and score it first")
    scores, baseline = _seeds(mine), _seeds(base)
    unit, gain = _gain(metric, scores, baseline)
    interval = None
    if min(len(scores), len(baseline)) > 1:
        ends = ttest_ind(scores, baseline, equal_var=False).confidence_interval()
        mean = statistics.mean(baseline)
        low, high = sorted(_gain(metric, [mean + end], [mean])[1] for end in (ends.low, ends.high))
        interval = (low, high)
    mark = "†" if any(row["commit"].endswith("-dirty") for row in mine) else ""
    return Difference(f"{one['of']}{mark}", unit, gain, interval, (len(scores), len(baseline)))


def _seeds(rows: Sequence[Mapping[str, str]]) -> list[float]:
    """The mean over all sets, of each seed."""
    seeds = sorted({row["seed"] for row in rows})
    return [statistics.mean(float(row["score"]) for row in rows if row["seed"] == seed) for seed in seeds]


def _gain(metric: str, scores: Sequence[float], baseline: Sequence[float]) -> tuple[str, float]:
    """The unit of a difference, and what the scores gain, rounded as it is shown."""
    mean = statistics.mean(baseline)
    gain = (statistics.mean(scores) - mean) * (1 if metric in BEST_HIGH else -1)
    if metric in RELATIVE:
        return f"% {metric}", round(100 * gain / mean, 1) + 0.0
    return metric, round(gain, 1) + 0.0


def _cell(one: Difference) -> str:
    between = f" ({one.interval[0]:+.1f} to {one.interval[1]:+.1f})" if one.interval else ""
    return f"{one.data}: {one.gain:+.1f} {one.unit}{between}, {_count(one.seeds)}"


def _count(seeds: tuple[int, ...]) -> str:
    """The number of seeds that both have."""
    return f"{min(seeds)} seed{'s' * (min(seeds) > 1)}"


def table(paper: str, claims: Sequence[Claim]) -> Iterator[str]:
    """Yield the lines of the picture and the table of a paper."""
    if any(claim.ours for claim in claims):
        yield f"![What each method gains over its baseline: the figures of the table below](reproduction_{paper}.png)"
        yield ""
    yield "| claim | paper | ours | verdict |"
    yield "|---|---|---|---|"
    for claim in claims:
        place = f"not tried {paper.replace('_', ' ')}" if claim.verdict == "not tried" else claim.name
        yield f"| [{claim.name}](#{anchor(place)}) | {claim.cells[0]} | {claim.cells[1]} | {claim.verdict} |"


def anchor(heading: str) -> str:
    """The anchor that GitHub and mkdocs give a heading of words and single blanks."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def counts(papers: Mapping[str, Sequence[Claim]]) -> Iterator[str]:
    """Yield the first sentence of the page: the number of claims, and of those with each verdict."""
    found = Counter(claim.verdict for claims in papers.values() for claim in claims)
    said = [f"{found[verdict]} **{verdict}**" for verdict in VERDICTS]
    yield f"{found.total()} claims: {', '.join(said[:-1])} and {said[-1]}."


def overview(text: str, papers: Mapping[str, Sequence[Claim]]) -> Iterator[str]:
    """Yield the lines of the table of verdicts, with the headings of the page above the table of each paper.

    Claims with a result are named, those with the last two verdicts are counted.
    """
    yield f"| paper | {' | '.join(VERDICTS)} |"
    yield "|---" * (len(VERDICTS) + 1) + "|"
    for paper, claims in papers.items():
        heading = re.findall(r"^## (.+)$", text.partition(_begin(paper))[0], flags=re.MULTILINE)[-1:] or [paper]
        names = {verdict: [claim.name for claim in claims if claim.verdict == verdict] for verdict in VERDICTS}
        cells = ["; ".join(f"[{name}](#{anchor(name)})" for name in names[verdict]) for verdict in VERDICTS[:-2]]
        cells += [str(len(names[verdict]) or "") for verdict in VERDICTS[-2:]]
        yield f"| [{heading[0]}](#{anchor(heading[0])}) | {' | '.join(cells)} |"


def _begin(name: str) -> str:
    return f"<!-- {name}, by egs/reproduction_page.py -->\n"


def page(text: str, papers: Mapping[str, Sequence[Claim]], path: Path) -> str:
    """The page with new tables.

    Args:
        text: The page as it is.
        papers: The claims of each paper.
        path: The name of the page in messages.
    """
    parts = {"counts": counts(papers), "overview": overview(text, papers)}
    parts |= {paper: table(paper, claims) for paper, claims in papers.items()}
    for name, lines in parts.items():
        begin = _begin(name)
        head, found, rest = text.partition(begin)
        _, ended, tail = rest.partition("<!-- end -->\n")
        if not found or not ended:
            sys.exit(f"error: {path}: no line {begin.strip()!r} with a line '<!-- end -->' below it; add both")
        text = "".join([head, begin, "\n", *(f"{line}\n" for line in lines), "\n", ended, tail])
    return text


def shown(claims: Sequence[Claim]) -> str:
    """What a picture shows, as it stands in its metadata."""
    rows = [
        [claim.name, claim.verdict, *(asdict(one) for one in (*claim.paper, *claim.ours))]
        for claim in claims
        if claim.ours
    ]
    return json.dumps(rows, ensure_ascii=True)


def draw(claims: Sequence[Claim], path: Path) -> None:
    """Write a PNG: below the name of each claim that was measured, the paper's differences and ours.

    Args:
        claims: The claims of a paper. Those with a relative difference of ours have an axis of their own.
        path: The picture.
    """
    measured = [claim for claim in claims if claim.ours]
    panels = [[one for one in measured if one.ours[0].unit.startswith("%") == relative] for relative in (False, True)]
    panels = [panel for panel in panels if panel]
    heights = [ROW * sum(_rows(claim) for claim in panel) for panel in panels]
    total = sum(heights) + 0.3 + AXIS * len(panels)
    figure = Figure(figsize=(WIDTH, total))
    top = total - 0.3
    for panel, height in zip(panels, heights, strict=True):
        axes = figure.add_axes((0.45, (top - height) / total, 0.53, height / total))
        _panel(figure, axes, panel)
        top -= height + AXIS
    kinds = {(bool(one.seeds), one.interval is not None) for claim in measured for one in (*claim.paper, *claim.ours)}
    handles = [Line2D([], [], label=label, **style) for kind, (label, style) in STYLES.items() if kind in kinds]
    figure.legend(handles=handles, loc="upper center", ncols=3, fontsize=8, frameon=False, columnspacing=1)
    figure.savefig(path, dpi=160, metadata={"Description": shown(claims)})


def _rows(claim: Claim) -> float:
    return 1.35 + len(claim.paper) + len(claim.ours)


def _panel(figure: Figure, axes: Axes, claims: Sequence[Claim]) -> None:
    """Draw claims with differences of comparable units."""
    points = [one for claim in claims for one in (*claim.paper, *claim.ours)]
    across = blended_transform_factory(figure.transFigure, axes.transData)
    text = {"transform": across, "va": "center", "fontsize": 8, "zorder": 5}
    axes.axvline(0, color="0.4", linewidth=1)
    axes.set_xlim(*_limits(points))
    axes.set_ylim(sum(_rows(claim) for claim in claims), 0)
    y = 0.0
    for claim in claims:
        axes.fill_between([0, 1], y, y + 1, transform=across, color="0.92", linewidth=0, zorder=3, clip_on=False)
        axes.text(0.01, y + 0.5, claim.name, **text | {"fontsize": 9, "fontweight": "bold"})
        axes.text(0.99, y + 0.5, claim.verdict, ha="right", **text)
        for place, one in enumerate((*claim.paper, *claim.ours), 1):
            count = f" ({min(one.seeds)})" if one.seeds else ""
            axes.text(0.02, y + place + 0.5, f"{one.data}, {one.unit.removeprefix('% ')}{count}", **text)
            _mark(axes, one, y + place + 0.5)
        y += _rows(claim)
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    axes.set_yticks([])
    axes.tick_params(labelsize=8)
    axes.grid(axis="x", alpha=0.3)
    units = " or ".join(dict.fromkeys(one.unit for one in points))
    axes.set_xlabel(f"gain over the baseline, {units}\nright is better", fontsize=8)


def _limits(points: Sequence[Difference]) -> tuple[float, float]:
    """The ends of the axis: wide intervals of two seeds reach over them, so that the means can be told apart."""
    gains = [0.0, *(one.gain for one in points)]
    room = 0.35 * (max(gains) - min(gains)) + 0.4
    return min(gains) - room, max(gains) + room


def _mark(axes: Axes, one: Difference, y: float) -> None:
    """Draw a difference; an interval that reaches over an end of the axis has an arrow there."""
    if one.interval:
        ends = axes.get_xlim()
        low, high = max(one.interval[0], ends[0]), min(one.interval[1], ends[1])
        axes.plot([low, high], [y, y], color="C0", linewidth=1.6)
        for end, cut, arrow in ((low, low > one.interval[0], "<"), (high, high < one.interval[1], ">")):
            axes.plot(end, y, arrow if cut else "|", color="C0", markersize=6, clip_on=False)
    axes.plot(one.gain, y, **STYLES[bool(one.seeds), one.interval is not None][1])


def _check(text: str, new: str, papers: Mapping[str, Sequence[Claim]], path: Path) -> None:
    """End with an error of one line if a table or picture is not that of the claims and scores."""
    again = "run egs/reproduction_page.py"
    for old_line, line in zip(text.splitlines(), new.splitlines(), strict=False):
        if old_line != line:
            sys.exit(f"error: {path}: {old_line!r} is not what the scores and claims give; {again}")
    if text != new:
        sys.exit(f"error: {path} is not what the scores and claims give; {again}")
    for paper, claims in papers.items():
        picture = _picture(path, paper)
        if any(claim.ours for claim in claims) and (not picture.is_file() or _described(picture) != shown(claims)):
            sys.exit(f"error: {picture} does not show what the scores and claims give; {again}")


def _described(picture: Path) -> str:
    with Image.open(picture) as opened:
        return opened.info.get("Description", "")


def _picture(path: Path, paper: str) -> Path:
    return path.with_name(f"reproduction_{paper}.png")


def main(argv: Sequence[str] | None = None) -> None:
    """Write the tables and pictures, or check that they are up to date."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--claims", type=Path, default=EGS / "claims.yaml", help="the file of claims (egs/claims.yaml)")
    parser.add_argument("--results", type=Path, default=EGS / "reproduce.tsv", help="file of scores (reproduce.tsv)")
    parser.add_argument("--page", type=Path, default=EGS.parent / "docs" / "reproduction.md", help="the page")
    parser.add_argument("--check", action="store_true", help="write nothing: fail if something is not up to date")
    args = parser.parse_args(argv)
    papers = read_claims(args.claims, read_results(args.results))
    text = args.page.read_text(encoding="utf-8")
    new = page(text, papers, args.page)
    if args.check:
        _check(text, new, papers, args.page)
        return
    write_text(args.page, new)
    for paper, claims in papers.items():
        if any(claim.ours for claim in claims):
            draw(claims, _picture(args.page, paper))


if __name__ == "__main__":
    main()
