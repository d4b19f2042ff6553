"""Conditions: properties of an utterance, such as its language, that parts of a model depend on besides their input.

A condition, such as `lang`, has values, such as `de`. This module has the table of all conditions. The name of a
condition is the name of its tensor in a batch and in the scope of a forward pass, and a key of `by` and `conditions` in
a configuration.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Condition(NamedTuple):
    """One condition.

    Attributes:
        label: Name of the condition in messages and reports.
        argument: Name of the argument that gives its value in Python, for example in `Recognizer.transcribe`.
        help: Description of its option in the help of a command.
    """

    label: str
    argument: str
    help: str

    @property
    def option(self) -> str:
        """Option of the command line that gives the value of the condition."""
        return f"--{self.argument}"


CONDITIONS: dict[str, Condition] = {
    "lang": Condition("language", "language", "language of the input: of the speech, or of the source text"),
    "tgtlang": Condition(
        "target language", "target_language", "language of the output text (default for asr: the input's)"
    ),
    "domain": Condition("domain", "domain", "domain of the recordings or texts"),
}
"""Conditions by name. A model numbers the values of a condition in the order in which its config.yaml lists them."""

TABLES: tuple[str, ...] = tuple(f"utt2{name}" for name in CONDITIONS)
"""Tables of a Kaldi data directory that give the value of one condition for every utterance."""


_LANGUAGES = """
af afr afrikaans; am amh amharic; ar ara arb arabic; as asm assamese; az aze azj azerbaijani; be bel belarusian
bg bul bulgarian; bn ben bengali bangla; bo bod tib tibetan; br bre breton; bs bos bosnian; ca cat catalan
cs ces cze czech; cy cym wel welsh; da dan danish; de deu ger german; el ell gre greek; en eng english; eo epo esperanto
es spa spanish castilian; et est ekk estonian; eu eus baq basque; fa fas per pes persian farsi; fi fin finnish
fo fao faroese; fr fra fre french; ga gle irish; gl glg galician; gu guj gujarati; ha hau hausa; he heb iw hebrew
hi hin hindi; hr hrv croatian; ht hat haitian; hu hun hungarian; hy hye arm armenian; id ind in indonesian
is isl ice icelandic; it ita italian; ja jpn japanese; jv jav javanese; ka kat geo georgian; kk kaz kazakh
km khm khmer; kn kan kannada; ko kor korean; ky kir kyrgyz; la lat latin; lb ltz luxembourgish; ln lin lingala
lo lao; lt lit lithuanian; lv lav lvs latvian; mg mlg malagasy; mi mri mao maori; mk mkd mac macedonian
ml mal malayalam; mn mon khk mongolian; mr mar marathi; ms msa may zsm malay; mt mlt maltese; my mya bur burmese
ne nep npi nepali; nl nld dut dutch flemish; nn nno nynorsk; no nor nb nob norwegian bokmål; oc oci occitan
or ori ory odia oriya; pa pan punjabi; pl pol polish; ps pus pbt pashto; pt por portuguese; ro ron rum romanian
ru rus russian; sa san sanskrit; sd snd sindhi; si sin sinhala sinhalese; sk slk slo slovak; sl slv slovenian
sn sna shona; so som somali; sq sqi alb als albanian; sr srp serbian; su sun sundanese; sv swe swedish
sw swa swh swahili; ta tam tamil; te tel telugu; tg tgk tajik; th tha thai; ti tir tigrinya; tk tuk turkmen
tl tgl fil tagalog filipino; tr tur turkish; tt tat tatar; ug uig uyghur; uk ukr ukrainian; ur urd urdu
uz uzb uzn uzbek; vi vie vietnamese; wo wol wolof; xh xho xhosa; yi yid yiddish ji; yo yor yoruba
zh zho chi cmn chinese mandarin; zu zul zulu
"""
_TWO_LETTERS = {
    name: names.split()[0] for names in _LANGUAGES.replace("\n", ";").split(";") if names for name in names.split()
}
"""ISO 639-1 codes by other codes of ISO 639, 639-2 and 639-3, and by English names."""

_OF_A_COUNTRY = re.compile("[-_]")


def _primary(code: str) -> str:
    """The language of a code, without script and country, as a code of two letters where there is one."""
    language = code.lower().replace("_", "-").partition("-")[0]
    return _TWO_LETTERS.get(language, language)


def base_language(code: str) -> str:
    """The written language of a code, without script and country: "zh" for zh-CN, zh_TW, cmn_hans_cn and yue."""
    return "zh" if (language := _primary(code)) == "yue" else language


def known_value(condition: str, value: str, names: Sequence[str]) -> str | None:
    """The value of a condition among `names` that a user means, or None where none is meant or several may be.

    The case does not matter, nor the form of a language: no, NO, no-NO, nor, nob and Norwegian are one; but pt-BR is
    not pt-PT.
    """
    if value in names:
        return value
    alike = [name for name in names if name.casefold().replace("_", "-") == value.casefold().replace("_", "-")]
    if not alike and condition != "domain":
        same = [name for name in names if _primary(name) == _primary(value)]
        alike = [name for name in same if not (_OF_A_COUNTRY.search(name) and _OF_A_COUNTRY.search(value))]
    return alike[0] if len(alike) == 1 else None


def values_by_condition(arguments: Mapping[str, str | None]) -> dict[str, str]:
    """Return the values of conditions among `arguments`, by condition.

    Args:
        arguments: Values by `Condition.argument`; None and "" mean that a condition is not given.
    """
    values = {name: arguments.get(condition.argument) for name, condition in CONDITIONS.items()}
    return {name: value for name, value in values.items() if value}


def as_arguments(values: Mapping[str, str]) -> dict[str, str]:
    """Return values by condition as keyword arguments of `Recognizer.transcribe` and `Translator.translate`."""
    return {CONDITIONS[name].argument: value for name, value in values.items()}


def language_tables(text: str = "text", translated: bool = False) -> tuple[str, ...]:
    """Tables among `TABLES` that give the language of a text; where an utterance is in several, the last counts.

    Args:
        text: Name of the table of the text; src_text is the text to translate.
        translated: Whether other texts are translations, whose language only utt2tgtlang gives.
    """
    if text == "src_text":
        return ("utt2lang",)
    return ("utt2tgtlang",) if translated else ("utt2lang", "utt2tgtlang")
