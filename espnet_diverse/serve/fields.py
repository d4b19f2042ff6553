"""Fields of a request for a transcription or a translation."""

from dataclasses import dataclass
from typing import Any

from espnet_diverse.decoding.search.hotwords import split_hotwords, split_prompt
from espnet_diverse.option_checks import (
    OptionError,
    Options,
    choice,
    conflict,
    flag,
    listed,
    must_be,
    number,
    read,
    text,
)

_GRANULARITIES = "timestamp_granularities"

UNUSED = {
    "chunking_strategy": "recordings are always split at pauses",
    "vad_filter": "recordings are always split at pauses",
}
"""Fields of OpenAI's and other servers that have no effect here, and why."""
RESPONSE_FORMATS = ("json", "text", "srt", "vtt", "verbose_json")


@dataclass(frozen=True)
class Asked(Options):
    """Fields of a request for a transcription or a translation, apart from its file."""

    model: str = text("", help="name of the model; may be left out if there is only one")
    language: str = text("", help="spoken language")
    target_language: str = text("", help="language of a translation; English where the model knows several")
    domain: str = text("", help="domain of the recording")
    prompt: str = text("", help="a text in Whisper's sense; its short terms are hotwords")
    hotwords: str = text("", help="hotwords, between commas or line ends")
    response_format: str = choice(*RESPONSE_FORMATS, help="form of the answer")
    temperature: float = number(0.0, least=0, most=1, help="has no effect: the search does not sample")
    timestamp_granularities: tuple[str, ...] = listed(
        ("segment",), choice("segment", "word"), help="units that get times in verbose_json; words also in srt and vtt"
    )
    include: tuple[str, ...] = listed(
        (), choice("logprobs"), help="logprobs: logarithms of the confidences of tokens, in json"
    )
    stream: bool = flag(help="whether the text comes in parts, as server-sent events")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stream and self.response_format not in ("json", "text"):
            raise conflict(self, "response_format", "stream; set json")
        if self.include and self.response_format != "json":
            raise conflict(self, "response_format", "include logprobs; set json")
        if self.has_words and self.response_format in ("json", "text"):
            raise conflict(self, "response_format", f"{_GRANULARITIES} word; set verbose_json")

    @classmethod
    def of(cls, form: list[tuple[str, str]], most_characters: int) -> "Asked":
        """Read the fields of a form; empty ones, and those in `UNUSED`, count as left out.

        Raises:
            OptionError: A field is unknown, has a value that is not allowed, or is repeated.
        """
        values: dict[str, Any] = {}
        for name, value in form:
            name = field_of(name)
            if not value.strip() or name in UNUSED or (name, value.lower()) == ("language", "auto"):
                continue
            if name in (_GRANULARITIES, "include"):
                values[name] = (*values.get(name, ()), value)
            elif name == "keywords":
                values["hotwords"] = f"{values.get('hotwords', '')}\n{value}"
            elif name in values:
                raise OptionError(name, f"{name} is given twice; give it once")
            elif name == "temperature":
                values[name] = _number(name, value)
            elif name == "stream":
                values[name] = {"true": True, "1": True, "false": False, "0": False}.get(value.lower(), value)
            elif len(value) > most_characters:
                raise must_be(name, f"a text of at most {most_characters} characters", f"{len(value)} characters")
            else:
                values[name] = value
        return read(cls, values, "a request")

    @property
    def has_words(self) -> bool:
        """Whether words get times."""
        return "word" in self.timestamp_granularities

    @property
    def terms(self) -> tuple[str, ...]:
        """Phrases that may be hotwords."""
        return tuple(dict.fromkeys((*split_hotwords(self.hotwords), *split_prompt(self.prompt))))


def field_of(name: str) -> str:
    """The field of a form without the brackets of a list or an object, as in include[] and chunking_strategy[type]."""
    return name.partition("[")[0]


def _number(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError as error:
        raise must_be(name, "a number", value) from error
