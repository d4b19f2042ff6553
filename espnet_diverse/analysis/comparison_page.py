"""The page of `espnet-diverse compare`: first pictures, then tables."""

from collections.abc import Sequence
from pathlib import Path

from espnet_diverse.analysis.comparison import HEADER, System, columns, rows
from espnet_diverse.analysis.differences import Difference, Differences
from espnet_diverse.analysis.html_page import Page

_LISTED = 10


def write_page(
    systems: Sequence[System], metric: str, differences: Differences | None, pictures: dict[str, Path], path: Path
) -> None:
    """Write compare.html.

    Args:
        systems: The systems; others are compared with the first.
        metric: Name of the metric.
        differences: Differences by utterance; None without references.
        pictures: Pictures "scores", and with references "differences".
        path: The file.
    """
    page = Page(f"{metric}: {', '.join(system.name for system in systems)}")
    if differences is not None:
        page.heading("Differences")
        for each in differences.found:
            page.paragraph(verdict(each, systems[0].name, metric))
        page.picture(
            pictures["differences"],
            f"Above: {metric} of each system minus that of {systems[0].name}, with 95 % intervals of the paired "
            "bootstrap over utterances. Below: the same of each utterance, sorted.",
            "intervals that do not hold 0: these systems differ. Below, a long flat middle and steep ends: the systems "
            "write the same texts but for a few utterances.",
        )
    page.heading("Scores")
    page.picture(
        pictures["scores"],
        f"{metric} of each system, by language, direction or domain where there are several, with 95 % intervals; "
        "further panels show it by the pool of heads and by parameters where the systems differ in them.",
        "intervals that do not overlap. Where they do, the difference may still be certain: it is paired, "
        + ("see above." if differences is not None else "which --reference FILE measures."),
    )
    names = columns(systems)
    page.table([*HEADER, *(f"{metric} {name}" for name in names)], rows(systems, names))
    if differences is not None:
        for each in differences.found:
            _utterances(page, differences, each, metric)
    page.write(path)


def verdict(found: Difference, first: str, metric: str) -> str:
    """Say in a sentence how a system differs from the first one, and whether that is certain."""
    low, high = found.interval
    if len(found.by_utterance) < 2:
        said = "one utterance has no interval and says nothing of others"
        return f"{found.name} has {found.difference:+.1f} {metric} against {first}; {said}."
    certain = "certain" if low > 0 or high < 0 else "not certain: the interval holds 0"
    return (
        f"{found.name} has {found.difference:+.1f} {metric} against {first} (95 % interval {low:+.1f} to {high:+.1f}, "
        f"p = {found.p_value:.3f}), which is {certain}."
    )


def _utterances(page: Page, differences: Differences, found: Difference, metric: str) -> None:
    largest = differences.largest(found, _LISTED)
    first = next(iter(differences.texts))
    if not largest:
        page.paragraph(f"No utterance has another {metric} with {found.name} than with {first}.")
        return
    page.heading(f"Utterances that differ most: {found.name} and {first}")
    header = ("utterance", metric, "reference", first, found.name)
    page.table(header, [(name, f"{size:+.1f}", *texts) for name, size, *texts in largest])
