"""The section of the report on how much of the texts CTC hears."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from espnet_diverse.analysis.html_page import Page
from espnet_diverse.analysis.measures.text_support import TextSupport
from espnet_diverse.analysis.rounding import certain
from espnet_diverse.data.files.atomic_files import save_figure
from espnet_diverse.decoding.options import INVENTED

_LISTED = 10


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
            f"{certain(100 * reference)} % of those of the references (means over utterances): it gives them a "
            f"probability of at least 5 % where it aligns them. Of {len(support)}"
            f" texts {invented} have less than {100 * INVENTED:.0f} %, as texts that a decoder "
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


def draw_support(found: TextSupport, path: Path) -> None:
    """Plot the sorted support of the texts and of the references, in percent of tokens."""
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for name, shares in zip(("text of the model", "reference"), found.shares(), strict=True):
        axes.plot(np.arange(1, len(shares) + 1), 100 * np.sort(shares), marker=".", label=name)
    axes.axhline(100 * INVENTED, color="grey", linestyle="--", linewidth=1, label="below: may be invented")
    axes.set(ylim=(-2, 102), xlabel="utterances, least supported first", ylabel="tokens that CTC supports (%)")
    axes.set_title("Support of texts by CTC")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(fontsize="small", loc="lower right")
    save_figure(figure, path)
