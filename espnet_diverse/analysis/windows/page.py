"""The report of windows that were chosen for a model: windows.html with pictures, and its numbers in windows.json."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from espnet_diverse.analysis.html_page import Page
from espnet_diverse.analysis.windows.choice import Windows
from espnet_diverse.analysis.windows.lengths import AFTER, BEFORE, NAMES, Cost
from espnet_diverse.analysis.windows.pictures import draw_costs, draw_map, draw_reach, draw_search
from espnet_diverse.data.files.atomic_files import write_text

PAGE, NUMBERS = "windows.html", "windows.json"


def write_windows(chosen: Windows, costs: Sequence[Cost], title: str, output_dir: Path, step: float | None) -> None:
    """Write windows.html and windows.json into a directory.

    Args:
        chosen: The windows.
        costs: Cost of the encoder at some lengths.
        title: Title of the page.
        output_dir: The directory.
        step: Seconds from one position of the encoder to the next, if they are known.
    """
    page = Page(title)
    with TemporaryDirectory() as name:
        _overview(page, chosen, costs)
        _map(page, chosen, step, Path(name))
        _loss(page, chosen, Path(name))
        if costs:
            _costs(page, costs, Path(name))
    write_text(output_dir / NUMBERS, json.dumps(numbers(chosen, costs), ensure_ascii=False, indent=1) + "\n")
    page.write(output_dir / PAGE)


def saved(costs: Sequence[Cost]) -> list[str]:
    """Return a sentence for each length about what windows save, or why it is not known."""
    message = []
    for cost in costs:
        times, memory = cost.time_ratio(), cost.memory_ratio()
        if times is not None and memory is not None:
            message.append(
                f"At {_length(cost.seconds)} the encoder takes {times:.2f} of the time and {memory:.2f} of the memory."
            )
        message += [
            f"At {_length(cost.seconds)} the encoder{f' with {name}' if name else ''} was not measured: {reason}."
            for name, reason in cost.left_out.items()
        ]
    return message


def numbers(chosen: Windows, costs: Sequence[Cost]) -> dict:
    """Return the numbers for JSON: losses in nats, rises in percent, times in seconds, memory in bytes."""
    return {
        "widths": list(chosen.widths),
        "windows": chosen.chosen().tolist(),
        "reach": chosen.reach.tolist(),
        "tolerance": chosen.tolerance,
        "loss": {
            "before": float(chosen.before.mean()),
            "after": float(chosen.after.mean()),
            "rise": chosen.rise(),
            "interval": chosen.rise_interval(),
        },
        "pairs": chosen.pairs(),
        "passes": chosen.passes,
        "utterances": {
            name: {"positions": length, "before": float(before), "after": float(after)}
            for name, length, before, after in zip(
                chosen.utterances, chosen.lengths, chosen.before, chosen.after, strict=True
            )
        },
        "skipped": dict(chosen.skipped),
        "proposals": [
            {"share": state.share, "rise": chosen.rise(state), "pairs": chosen.pairs(state)}
            for state in chosen.proposals
        ],
        "steps": [{"rise": chosen.rise(state), "pairs": chosen.pairs(state)} for state in chosen.path],
        "lengths": [_cost_numbers(cost) for cost in costs],
    }


def _cost_numbers(cost: Cost) -> dict:
    return {
        "seconds": cost.seconds,
        "positions": cost.positions,
        "time_ratio": cost.time_ratio(),
        "memory_ratio": cost.memory_ratio(),
        "times": cost.times,
        "memory": {name: counts.peak for name, counts in cost.counts.items()},
        "operations": {name: counts.flops for name, counts in cost.counts.items()},
        "left_out": cost.left_out,
    }


def _overview(page: Page, chosen: Windows, costs: Sequence[Cost]) -> None:
    layers, heads = chosen.chosen().shape
    left_out = f"; {len(chosen.skipped)} could not be read and are listed in {NUMBERS}" if chosen.skipped else ""
    page.heading("At a glance")
    page.paragraph(
        f"Each of the {heads} heads of the {layers} encoder layers got a window: a query sees the positions at most so "
        f"far away. {chosen.summary()} This is on {len(chosen.utterances)} utterances{left_out}. The windows were "
        "chosen on the same utterances, so on others the loss may rise more: compare scores on a set of your own."
    )
    for sentence in saved(costs):
        page.paragraph(sentence)


def _map(page: Page, chosen: Windows, step: float | None, folder: Path) -> None:
    page.heading("Windows")
    widest = chosen.widths[-1]
    known = "" if step is None else f" A position is {1000 * step:g} ms."
    draw_map(chosen, folder / "map.png")
    page.picture(
        folder / "map.png",
        f"Width of each window, in positions on each side of a query.{known} {widest} is the widest: it covers the "
        "longest of the utterances, so that nothing was cut off.",
        "layers of narrow windows, whose heads do local work, and single wide heads, without which the loss rises.",
    )
    header = ["layer", *(f"head {head}" for head in range(1, chosen.chosen().shape[1] + 1))]
    page.table(header, [[str(n), *map(str, row)] for n, row in enumerate(chosen.chosen().tolist(), 1)])
    draw_reach(chosen.widths, chosen.reach, folder / "reach.png")
    page.picture(
        folder / "reach.png",
        "Share of the weight of each head within a width, mean over queries and utterances.",
        "lines that reach the top at the left: their heads lose little weight by a narrow window.",
    )


def _loss(page: Page, chosen: Windows, folder: Path) -> None:
    page.heading("Loss")
    low, high = chosen.rise_interval()
    rise = f"{chosen.rise():.3f} ({low:.3f} to {high:.3f})"
    page.paragraph(
        "The loss is the one that the model is trained with, in evaluation mode and utterance by utterance: for "
        "Whisper the cross-entropy of the decoder, with CTC the weighted sum of both losses. Means over utterances are "
        "in nats; the interval is of the paired bootstrap over utterances."
    )
    page.table(
        ("loss of an utterance", "all positions", "windows", "rise, %", "tolerance, %"),
        [("mean", f"{chosen.before.mean():.3f}", f"{chosen.after.mean():.3f}", rise, f"{chosen.tolerance:g}")],
    )
    shares = ", ".join(f"{100 * state.share:g} %" for state in chosen.proposals if state.share is not None)
    page.paragraph(
        f"{chosen.passes} passes over the utterances: windows were proposed that keep a share of each head's weight "
        f"({shares}), to find the smallest share that uses up at most half of the tolerance; from there "
        f"{len(chosen.path) - 1} windows were halved, each time the one whose loss rises least for each pair that it "
        "saves."
    )
    draw_search(chosen, folder / "search.png")
    page.picture(
        folder / "search.png",
        "Rise of the loss against the pairs of positions that remain, from right to left.",
        "a long flat part: these pairs are not needed. Below 0 the model is better with windows on these utterances.",
    )


def _costs(page: Page, costs: Sequence[Cost], folder: Path) -> None:
    page.heading("Time and memory")
    page.paragraph(
        "Of the encoder alone, for noise of each length: CPU time of one thread, as the median of rounds in which both "
        "take turns, and the peak memory of the tensors of a pass, without the weights. Ratios below 1 are savings."
    )
    header = ("length", "positions", "rounds", "s", "s with windows", "ratio")
    rows = []
    for cost in costs:
        times = {name: median(taken) for name, taken in cost.times.items()}
        peaks = {name: counts.peak / 1e6 for name, counts in cost.counts.items()}
        flops = {name: counts.flops / 1e9 for name, counts in cost.counts.items()}
        rounds = max(map(len, cost.times.values()), default=0)
        cells = [
            *(*(_cell(times.get(name)) for name in NAMES), _cell(cost.time_ratio())),
            *(*(_cell(peaks.get(name)) for name in NAMES), _cell(cost.memory_ratio())),
            *(_cell(flops.get(name)) for name in NAMES),
        ]
        rows.append((_length(cost.seconds), str(cost.positions or "–"), str(rounds or "–"), *cells))
    page.table((*header, "MB", "MB with windows", "ratio", "GFLOP", "GFLOP with windows"), rows)
    if any(BEFORE in cost.counts or AFTER in cost.counts for cost in costs):
        draw_costs(costs, folder / "costs.png")
        page.picture(
            folder / "costs.png",
            "Time and memory against the length of the audio, both on logarithmic scales.",
            "lines that part to the right: attention over all positions grows with the square of the length.",
        )


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def _length(seconds: float) -> str:
    """A length in words, in minutes from one minute on."""
    return f"{seconds / 60:g} min" if seconds >= 60 else f"{seconds:g} s"
