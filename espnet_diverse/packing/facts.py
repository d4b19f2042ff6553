"""Fields of a model card that the user gives."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from espnet_diverse.errors import ConfigError
from espnet_diverse.option_checks import listed, text

_CODE = re.compile("[A-Za-z]{2,12}([-_][A-Za-z0-9]{1,8})*")


@dataclass(frozen=True)
class Facts:
    """Statements of the user about a model; `results` is a file of Markdown.

    Raises:
        ConfigError: `languages` has what is no code of a language.
    """

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

    def __post_init__(self) -> None:
        if wrong := [code for code in self.languages if not _CODE.fullmatch(code)]:
            raise ConfigError(
                f"--languages {wrong[0]!r:.100}: is no code of a language, such as de or zh-TW; correct it"
            )
