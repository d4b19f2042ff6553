"""Text normalisation of error rates, by name.

none         texts as they are
wer          lower case without punctuation, see `data.normalisation.for_wer`
unvocalised  as wer, and without short vowels and tatweel of the Arabic script and points of Hebrew
whisper      the basic rules of Radford et al. 2023, "Robust Speech Recognition via Large-Scale Weak Supervision",
             appendix C: lower case, without notes in brackets, punctuation and symbols
whisper_en   the English rules there, which also unify contractions, numbers, titles and currencies

The rules of Whisper are classes of the package transformers, with two changes to the basic ones. They replace the marks
of words (Unicode categories Mn and Mc) by spaces, which cuts words of Indic and other scripts into letters and hides
errors in vowels; here marks stay. They lower İ to i and a mark; see `data.normalisation.lower_case`. The English rules
write British words as American ones by a table, `normalizer.json` of any Whisper model; without it words are compared
as they are spelt.
"""

import hashlib
import importlib.metadata
import json
import unicodedata
from collections.abc import Callable, Iterable, Set
from pathlib import Path

from espnet_diverse.conditions import base_language
from espnet_diverse.data.normalisation import DOTTED_I, GLYPH_VARIANTS, VOCALISATION, for_wer, lower_case
from espnet_diverse.errors import ConfigError, DataError, optional_package
from espnet_diverse.untrusted.whole_files import read_bytes

NORMALISATIONS = ("none", "wer", "unvocalised", "whisper", "whisper_en")
DOTLESS = "i:dotless"
"""Part of a signature: the lower case of I is ı in Turkish and Azerbaijani, and i in other languages."""
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
        self.signature += "|vowels:no" * (name == "unvocalised")
        self._rules: Callable[[str], str] | None = None
        if name.startswith("whisper"):
            library = optional_package(_WHISPER, f"--normalise {name}", "bert")
            english = name == "whisper_en"
            words, digest = _read(spelling) if spelling else ({}, "none")
            self._rules = library.EnglishTextNormalizer(words) if english else library.BasicTextNormalizer()
            if not english:
                self._rules.clean = _without_symbols
            self.signature += f"|rules:{name}|" + (f"spelling:{digest}" if english else "marks:kept")
            self.signature += f"|transformers:{importlib.metadata.version('transformers')}"

    def __call__(self, text: str, language: str = "") -> str:
        """The normalised text; the language, which may be unknown, tells the lower case of I."""
        if self._rules is not None:
            return self._rules(lower_case(text, language) if self.name == "whisper" else text)
        if self.name == "unvocalised":
            text = VOCALISATION.sub("", text)
        return text if self.name == "none" else for_wer(text, language)

    def of_languages(self, languages: Iterable[str]) -> str:
        """Return the addition to the signature for texts in these languages, of which some write I as ı."""
        lowers = self.name in ("wer", "unvocalised", "whisper")
        return f"|{DOTLESS}" if lowers and any(base_language(name) in DOTTED_I for name in languages) else ""

    def notes(self, references: Set[str], hypotheses: Set[str]) -> list[str]:
        """Notes on what the normalisation does to texts.

        Args:
            references, hypotheses: The characters of all references and hypotheses.
        """
        notes = []
        marks = sorted(filter(_is_mark, references | hypotheses))
        if marks and self.name.startswith("whisper"):
            lost = f"the marks of words, such as U+{ord(marks[0]):04X}"
            notes.append(
                f"--normalise whisper keeps {lost}, which Whisper's own rules replace by spaces: scores by those are "
                "not comparable"
                if self.name == "whisper"
                else f"--normalise whisper_en is for English and removes {lost}; --normalise whisper keeps them"
            )
        signs = [bool(VOCALISATION.search("".join(side))) for side in (references, hypotheses)]
        if self.name != "unvocalised" and signs[0] != signs[1]:
            which = "references" if signs[0] else "hypotheses"
            notes.append(
                f"only the {which} have short vowels, tatweel or points; --normalise unvocalised scores without them"
            )
        return notes


def check_normalisation(name: str, spelling: Path | None = None) -> None:
    """Check the name of a normalisation, and whether it takes spellings.

    Raises:
        ConfigError: The name is unknown, or a spelling is given with another name than whisper_en.
    """
    if name not in NORMALISATIONS:
        raise ConfigError(f"unknown normalisation {name!r}; choose one of {', '.join(NORMALISATIONS)}")
    if spelling is not None and name != "whisper_en":
        raise ConfigError(f"--spelling {spelling} is for --normalise whisper_en, not {name}; leave it out")


def _is_mark(character: str) -> bool:
    return unicodedata.category(character) in ("Mn", "Mc") and ord(character) not in GLYPH_VARIANTS


def _without_symbols(text: str) -> str:
    """Text in NFKC with spaces for symbols, punctuation and marks, as in Whisper's rules; marks of words stay."""
    cleaned = ""
    for character in unicodedata.normalize("NFKC", text.translate(GLYPH_VARIANTS)):
        in_word = _is_mark(character) and cleaned and not cleaned[-1].isspace()
        cleaned += character if in_word or unicodedata.category(character)[0] not in "MSP" else " "
    return cleaned


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
