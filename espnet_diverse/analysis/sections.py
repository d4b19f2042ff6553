"""Sections of the report that are measured on request: head ablation and calibration."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from numpy.typing import NDArray

from espnet_diverse.analysis.collect import KINDS
from espnet_diverse.analysis.figures.ablation_plot import axis_label, draw_drop_histogram, draw_drops
from espnet_diverse.analysis.figures.calibration_plot import draw_entropy_cdf, draw_reliability
from espnet_diverse.analysis.html_page import Page
from espnet_diverse.analysis.measures import calibration
from espnet_diverse.analysis.measures.calibration import Calibration
from espnet_diverse.analysis.measures.head_ablation import HeadAblation

CALIBRATION_TERMS = (
    (
        "ECE, expected calibration error",
        "Tokens are grouped by confidence, the probability of the most likely token, into "
        f"{calibration.BINS} bins of equal width. ECE is the mean difference between accuracy and confidence of a bin, "
        "weighted by its tokens. 0: the model is right as often as it says.",
    ),
    (
        "OE, overconfidence error",
        "The same, but only where confidence exceeds accuracy, and weighted by confidence as well: high for a model "
        "that is sure and wrong.",
    ),
)


class Section(Protocol):
    """A section of the report.

    Attributes:
        key: Its key in analysis.json.
    """

    key: str

    def show(self, page: Page, folder: Path) -> None:
        """Add it to the page; pictures are written into `folder`."""

    def summary(self) -> dict:
        """Return its numbers, for JSON."""

    def arrays(self) -> Mapping[str, NDArray]:
        """Return its arrays, for npz."""


@dataclass(frozen=True)
class AblationSection:
    """The contribution of each head."""

    ablation: HeadAblation
    key: str = "ablation"

    def show(self, page: Page, folder: Path) -> None:
        """See `Section`."""
        found = self.ablation
        page.heading("Head ablation")
        page.paragraph(
            f"The score of {found.utterances} utterances with each head masked in turn: its context is 0 before the "
            f"output projection. The whole model has {found.metric} {found.score:.4f}. The table has the drop of each "
            f"head: {axis_label(found.metric)}. Near 0: the model does without the head; below 0: it is better without."
        )
        drops = found.drops()
        heads = max(each.shape[1] for each in drops.values())
        rows = [
            [KINDS[kind], str(layer), *(f"{drop:.4f}" for drop in row), *[""] * (heads - len(row))]
            for kind, each in drops.items()
            for layer, row in enumerate(each, start=1)
        ]
        page.table(["attention", "layer", *(f"head {head}" for head in range(1, heads + 1))], rows)
        draw_drop_histogram(found, folder / "ablation.histogram.png")
        page.picture(
            folder / "ablation.histogram.png",
            "Heads by performance drop. Many heads near 0: most of them are redundant; left of the line: without the "
            "head the model is better.",
        )
        draw_drops(found, folder / "ablation.heads.png")
        page.picture(
            folder / "ablation.heads.png", "Performance drop of each head. Red: it is needed; blue: it does harm."
        )

    def summary(self) -> dict:
        """See `Section`."""
        return self.ablation.summary()

    def arrays(self) -> Mapping[str, NDArray]:
        """See `Section`."""
        return self.ablation.arrays()


@dataclass(frozen=True)
class CalibrationSection:
    """Calibration on data directories, by name."""

    measured: Mapping[str, Calibration]
    key: str = "calibration"

    def show(self, page: Page, folder: Path) -> None:
        """See `Section`."""
        page.heading("Calibration")
        page.paragraph("Predictions of every token of the reference texts, given those before it (teacher forcing).")
        page.table(calibration.HEADER, calibration.rows(self.measured))
        page.terms(CALIBRATION_TERMS)
        draw_reliability(self.measured, folder / "calibration.reliability.png")
        page.picture(
            folder / "calibration.reliability.png",
            "Accuracy against confidence, a point for each bin; below, the share of tokens in each. On the dashed line "
            "the model is calibrated, below it overconfident.",
        )
        draw_entropy_cdf(self.measured, folder / "calibration.entropy.png")
        page.picture(
            folder / "calibration.entropy.png",
            "Share of tokens whose prediction has at most this entropy. For data of another domain a lower curve is "
            "better: fewer predictions are sure.",
        )

    def summary(self) -> dict:
        """See `Section`."""
        return {name: each.summary() for name, each in self.measured.items()}

    def arrays(self) -> Mapping[str, NDArray]:
        """See `Section`."""
        return calibration.arrays(self.measured)
