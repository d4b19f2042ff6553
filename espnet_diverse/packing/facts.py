"""Statements of the user about a model, for its card."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from espnet_diverse.option_checks import listed, text


@dataclass(frozen=True)
class Facts:
    """Statements of the user about a model; `results` is a file of Markdown."""

    name: str = text("", help="name of the model", shown="name of the directory")
    license: str = text("", metavar="ID", help="identifier of the licence, such as apache-2.0")
    languages: Sequence[str] = listed(
        (), metavar="CODE", help="language codes", shown="the languages that the model knows"
    )
    datasets: Sequence[str] = listed((), metavar="NAME", help="names of the training data sets")
    data: str = text("", metavar="TEXT", help="description of the training data")
    results: Path | None = None
    repository: str | None = text(
        None,
        key="push_to",
        metavar="OWNER/NAME",
        help="publish the packed model as this repository, by the account of `hf auth login` or $HF_TOKEN (extra hub)",
    )
