"""Text normalisation of error rates, by name.

none         texts as they are
wer          lower case without punctuation, see `data.normalisation.for_wer`
whisper      the basic rules of Radford et al. 2023, "Robust Speech Recognition via Large-Scale Weak Supervision",
             appendix C: lower case, without notes in brackets, punctuation and symbols; for any language
whisper_en   the English rules there, which also unify contractions, numbers, titles and currencies

The rules of Whisper are classes of the package transformers. The English rules write British words as American ones by
a table, `normalizer.json` of any Whisper model; without it words are compared as they are spelt.
"""

import hashlib
import importlib.metadata
import json
from collections.abc import Callable
from pathlib import Path

from espnet_diverse.data.normalisation import for_wer
from espnet_diverse.errors import ConfigError, DataError, optional_package
from espnet_diverse.untrusted.whole_files import read_bytes

NORMALISATIONS = ("none", "wer", "whisper", "whisper_en")
_WHISPER = "transformers.models.whisper.english_normalizer"


class Normalisation:
    """A normalisation of texts.

    Args:
        name: Name in `NORMALISATIONS`.
        spelling: JSON file with other spellings of words, for whisper_en.

    Attributes:
        signature: Treatment of case and punctuation, and versions, for reports.

    Raises:
        ConfigError: The name is unknown, a spelling is given with another name, or transformers is not installed.
        DataError: The file of spellings cannot be read.
    """

    def __init__(self, name: str = "none", spelling: Path | None = None):
        check_normalisation(name, spelling)
        self.name = name
        self.signature = "case:mixed" if name == "none" else "case:lc|punct:no"
        self._rules: Callable[[str], str] | None = None
        if name.startswith("whisper"):
            library = optional_package(_WHISPER, f"--normalise {name}", "bert")
            english = name == "whisper_en"
            words, digest = _read(spelling) if spelling else ({}, "none")
            self._rules = library.EnglishTextNormalizer(words) if english else library.BasicTextNormalizer()
            self.signature += f"|rules:{name}" + (f"|spelling:{digest}" if english else "")
            self.signature += f"|transformers:{importlib.metadata.version('transformers')}"

    def __call__(self, text: str, language: str = "") -> str:
        """The normalised text; only `wer` uses the language, which may be unknown."""
        if self._rules is not None:
            return self._rules(text)
        return for_wer(text, language) if self.name == "wer" else text


def check_normalisation(name: str, spelling: Path | None = None) -> None:
    """Check the name of a normalisation, and whether it takes spellings.

    Raises:
        ConfigError: The name is unknown, or a spelling is given with another name than whisper_en.
    """
    if name not in NORMALISATIONS:
        raise ConfigError(f"unknown normalisation {name!r}; choose one of {', '.join(NORMALISATIONS)}")
    if spelling is not None and name != "whisper_en":
        raise ConfigError(f"--spelling {spelling} is for --normalise whisper_en, not {name}; leave it out")


def _read(path: Path) -> tuple[dict[str, str], str]:
    """Words with their replacements, and eight digits of the digest of the file."""
    try:
        content = read_bytes(path)
        words = json.loads(content)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as JSON ({error}); give normalizer.json of a Whisper model") from error
    if not isinstance(words, dict) or not all(isinstance(word, str) for word in words.values()):
        raise DataError(f"{path}: is no object of words; give normalizer.json of a Whisper model")
    return words, hashlib.sha256(content).hexdigest()[:8]
