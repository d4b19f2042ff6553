"""Sections of the report that are measured on request, with their plots: head ablation, calibration, support by CTC."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from espnet_diverse.analysis.collect import KINDS
from espnet_diverse.analysis.html_page import Page
from espnet_diverse.analysis.measures import calibration
from espnet_diverse.analysis.measures.calibration import BINS, Calibration
from espnet_diverse.analysis.measures.head_ablation import HeadAblation
from espnet_diverse.analysis.measures.text_support import TextSupport
from espnet_diverse.analysis.rounding import certain
from espnet_diverse.decoding.options import LEAST_SUPPORT
from espnet_diverse.functional.calibration import (
    entropy_cdf,
    expected_calibration_error,
    overconfidence_error,
    reliability_bins,
)
from espnet_diverse.pictures import save_figure
from espnet_diverse.scoring.metric import lower_is_better

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


_NAMES = {
    "loss": "loss (nats a token)",
    "accuracy": "accuracy (% of tokens)",
    "cer": "CER (%)",
    "wer": "WER (%)",
    "bleu": "BLEU (points)",
    "chrf": "chrF (points)",
}
_BINS = 20
_POINTS = 400  # of a curve
_SMALL = 8  # points
_LISTED = 10


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
        ablation, digits = self.ablation, 3 if self.ablation.metric == "loss" else 1
        low, high = ablation.interval
        signs = ablation.certain()
        every = np.concatenate([matrix.ravel() for matrix in signs.values()])
        needed, harmful, heads = (every > 0).sum(), (every < 0).sum(), len(every)
        page.heading("Head ablation")
        page.paragraph(
            f"The score of {ablation.utterances} utterances with each head masked in turn: its context is 0 before the "
            f"output projection. The whole model has {ablation.metric} {ablation.score:.{digits}f} (95 % interval "
            f"{low:.{digits}f} to {high:.{digits}f}). The table has the drop of each head: "
            f"{axis_label(ablation.metric)}. Near 0: the model does without the head; below 0: it is better without. "
            "A star marks a drop whose 95 % interval, of the bootstrap over utterances, does not hold 0: "
            f"{needed} of {heads} heads are needed, {harmful} do harm; these utterances do not decide about the others."
        )
        drops = ablation.drops()
        columns = max(matrix.shape[1] for matrix in drops.values())
        rows = [
            [
                *(KINDS[kind], str(layer + 1)),
                *(f"{drop:.{digits}f}{'*' * abs(signs[kind][layer, head])}" for head, drop in enumerate(row)),
                *[""] * (columns - len(row)),
            ]
            for kind, matrix in drops.items()
            for layer, row in enumerate(matrix)
        ]
        page.table(["attention", "layer", *(f"head {head}" for head in range(1, columns + 1))], rows)
        draw_drop_histogram(ablation, folder / "ablation.histogram.png")
        page.picture(
            folder / "ablation.histogram.png",
            "Heads by performance drop.",
            "many heads near 0: most of them are redundant; left of the line: without the head the model is better.",
        )
        draw_drops(ablation, folder / "ablation.heads.png")
        page.picture(
            folder / "ablation.heads.png",
            "Performance drop of each head.",
            "red heads, which the model needs, and blue ones, without which it is better. The table says which are "
            "certain.",
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
        page.paragraph("Predictions of every token of the reference texts, given the earlier ones (teacher forcing).")
        page.table(calibration.HEADER, calibration.rows(self.measured))
        page.terms(CALIBRATION_TERMS)
        sure = {name: (data.predictions.confidence, data.predictions.correct) for name, data in self.measured.items()}
        draw_reliability(sure, folder / "calibration.reliability.png")
        page.picture(
            folder / "calibration.reliability.png",
            "Accuracy against confidence, a point for each bin; below, the share of tokens in each.",
            "points below the dashed line, where the model is surer than right; on it, it is calibrated.",
        )
        entropies = {name: data.predictions.entropy for name, data in self.measured.items()}
        draw_entropy_cdf(entropies, folder / "calibration.entropy.png")
        page.picture(
            folder / "calibration.entropy.png",
            "Share of tokens whose prediction has at most this entropy.",
            "a lower curve for data of another domain: fewer predictions are sure, as it should be.",
        )

    def summary(self) -> dict:
        """See `Section`."""
        return {name: data.summary() for name, data in self.measured.items()}

    def arrays(self) -> Mapping[str, NDArray]:
        """See `Section`."""
        return calibration.arrays(self.measured)


def draw_reliability(predictions: Mapping[str, tuple[Tensor, Tensor]], path: Path, of: str = "token") -> None:
    """Plot accuracy against confidence, a point for each bin that is not empty, as in Fig. 4 of An et al. 2020.

    Below it is the share of tokens, or of other items as named by `of`, in each bin.

    Args:
        predictions: By name of the data the confidences of n predictions, (n,), and which are correct, (n,) bool.
        path: The file to write.
        of: Name of an item, for labels.
    """
    figure = Figure(figsize=(5.4, 6.2), layout="constrained")
    axes, shares = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    axes.plot([0, 1], [0, 1], color="grey", linestyle="--", linewidth=1, label="confidence = accuracy")
    for number, (name, sure) in enumerate(predictions.items()):
        accuracy, confidence, size = (values.numpy() for values in reliability_bins(*sure, BINS))
        filled = size > 0
        label = f"{name}: ECE {expected_calibration_error(*sure, BINS):.3f}, OE {overconfidence_error(*sure, BINS):.3f}"
        axes.plot(confidence[filled], accuracy[filled], marker="o", markersize=4, color=f"C{number}", label=label)
        edges = np.linspace(0, 1, len(size) + 1)
        shares.stairs(size / size.sum(), edges, color=f"C{number}", fill=number == 0, alpha=0.6)
    axes.set(xlim=(0, 1), ylim=(0, 1), ylabel="accuracy", title=f"Reliability of {of} predictions")
    axes.legend(fontsize="small")
    shares.set(xlabel="confidence", ylabel=f"share of {of}s", ylim=(0, None))
    save_figure(figure, path)


def draw_entropy_cdf(entropies: Mapping[str, Tensor], path: Path, of: str = "token") -> None:
    """Plot the share of tokens whose predictive distribution has at most an entropy, as in Fig. 5 of An et al. 2020.

    Args:
        entropies: Entropies in nats, (n,), by name of the data.
        path: The file to write.
        of: Name of an item, for labels.
    """
    figure = Figure(figsize=(5.4, 4.2), layout="constrained")
    axes = figure.subplots()
    at = torch.linspace(0, max(values.max().item() for values in entropies.values()), _POINTS, dtype=torch.double)
    lines = [axes.plot(at, entropy_cdf(values, at), label=name)[0] for name, values in entropies.items()]
    axes.set(xlim=(0, None), ylim=(0, 1.02), xlabel="entropy of the predictive distribution (nats)")
    axes.set(ylabel=f"share of {of}s up to this entropy", title="Cumulative distribution of entropy")
    axes.legend(handles=lines, fontsize="small", loc="lower right")  # named one by one: names may begin with "_"
    save_figure(figure, path)


def axis_label(metric: str) -> str:
    """Return the meaning of a performance drop, with its unit, for example "rise of loss (nats a token)"."""
    return f"{'rise' if lower_is_better(metric) else 'fall'} of {_NAMES[metric]}"


def draw_drop_histogram(ablation: HeadAblation, path: Path) -> None:
    """Plot the number of heads by drop, stacked by kind of attention, as in Fig. 2 of the repulsive-attention paper."""
    drops = {kind: matrix.ravel() for kind, matrix in ablation.drops().items()}
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    edges = np.histogram_bin_edges(np.concatenate(list(drops.values())), _BINS)
    axes.hist(list(drops.values()), edges, stacked=True, label=[KINDS[kind] for kind in drops], edgecolor="white")
    axes.axvline(0, color="black", linewidth=1, linestyle="--")
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel(f"performance drop without the head: {axis_label(ablation.metric)}")
    axes.set_ylabel("number of heads")
    axes.set_title("Heads by performance drop after masking")
    axes.legend(fontsize=_SMALL)
    save_figure(figure, path)


def draw_drops(ablation: HeadAblation, path: Path) -> None:
    """Plot the drop of each head: a panel for each kind, a row for each layer, a column for each head; 0 is white."""
    drops = ablation.drops()
    most = max(abs(matrix).max() for matrix in drops.values()) or 1.0
    layers, widths = max(map(len, drops.values())), [matrix.shape[1] for matrix in drops.values()]
    figure = Figure(
        figsize=(2 + 0.5 * sum(widths) + 0.9 * len(drops), 1.6 + 0.3 * max(3, layers)), layout="constrained"
    )
    figure.suptitle("Performance drop without each head")
    panels = figure.subplots(1, len(drops), squeeze=False, width_ratios=widths)[0]
    for axes, (kind, values) in zip(panels, drops.items(), strict=True):
        image = axes.imshow(values, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto", interpolation="nearest")
        axes.set_xticks(range(values.shape[1]), range(1, values.shape[1] + 1), fontsize=_SMALL)
        axes.set_yticks(range(len(values)), range(1, len(values) + 1), fontsize=_SMALL)
        axes.set(xlabel="head", ylabel="layer")
        axes.set_title(KINDS[kind].replace(" ", "\n", 1), fontsize="small")
    figure.colorbar(image, ax=list(panels), label=axis_label(ablation.metric))
    save_figure(figure, path)


@dataclass(frozen=True)
class SupportSection:
    """The support of the texts of utterances by CTC, see `Section`."""

    found: TextSupport
    key: str = "ctc_support"

    def show(self, page: Page, folder: Path) -> None:
        """See `Section`."""
        support, reference = self.found.shares()
        invented = len(self.found.invented())
        page.heading("What CTC hears of the texts")
        page.paragraph(
            f"CTC supports {certain(100 * support)} % of the tokens that the model writes, and "
            f"{certain(100 * reference)} % of the reference tokens (means over utterances): it gives them a "
            f"probability of at least 5 % where it aligns them. Of {len(support)}"
            f" texts {invented} have less than {100 * LEAST_SUPPORT:.0f} %, as texts that a decoder "
            "invents for noise or silence."
        )
        draw_support(self.found, folder / "ctc_support.png")
        page.picture(
            folder / "ctc_support.png",
            "Support of each text by CTC, sorted, of the model's texts and of the references.",
            "a drop at the left of the model's line, texts that may be invented, and at the left of the line of the "
            "references, transcripts that may be wrong. The table has these utterances; listen to them.",
        )
        worst = sorted(self.found.utterances, key=lambda one: min(one.support, one.reference_support))[:_LISTED]
        page.table(
            ("utterance", "text, %", "reference, %", "text of the model", "reference"),
            [
                (
                    one.utterance,
                    f"{100 * one.support:.0f}",
                    f"{100 * one.reference_support:.0f}",
                    one.text,
                    one.reference,
                )
                for one in worst
            ],
        )

    def summary(self) -> dict:
        """See `Section`."""
        return self.found.summary()

    def arrays(self) -> Mapping[str, NDArray]:
        """See `Section`."""
        names = np.array([one.utterance for one in self.found.utterances])
        support, reference = self.found.shares()
        return {"support_utterances": names, "ctc_support": support, "reference_ctc_support": reference}


def draw_support(support: TextSupport, path: Path) -> None:
    """Plot the sorted support of the texts and of the references, in percent of tokens."""
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for name, shares in zip(("text of the model", "reference"), support.shares(), strict=True):
        axes.plot(np.arange(1, len(shares) + 1), 100 * np.sort(shares), marker=".", label=name)
    axes.axhline(100 * LEAST_SUPPORT, color="grey", linestyle="--", linewidth=1, label="below: may be invented")
    axes.set(ylim=(-2, 102), xlabel="utterances, least supported first", ylabel="tokens that CTC supports (%)")
    axes.set_title("Support of texts by CTC")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(fontsize="small", loc="lower right")
    save_figure(figure, path)
