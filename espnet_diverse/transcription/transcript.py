"""A recording to transcribe, and its transcript."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from espnet_diverse.audio.sources import Source
from espnet_diverse.data.scripts import join_texts
from espnet_diverse.transcription.formats import written
from espnet_diverse.transcription.result import Segment, Word


@dataclass(frozen=True)
class Request:
    """A recording to transcribe.

    Attributes:
        audio: The recording, as for `open_audio`.
        rate: The rate of samples in Hz, as for `open_audio`.
        conditions: Known values by condition, such as {"lang": "es", "domain": "talks"}.
        on_progress: Called with the seconds of the recording that are done, and its length in seconds. An exception
            that it raises becomes the result of the recording, and the rest of it is not decoded.
        on_segments: Called with the next segments of the recording in the order of time, as soon as they are decoded;
            more than a batch of them are decoded separately from other recordings.
        channel: Number of the channel to transcribe, as for `open_audio`.
    """

    audio: Source
    rate: int | None = None
    conditions: Mapping[str, str] = field(default_factory=dict)
    on_progress: Callable[[float, float], None] | None = field(default=None, compare=False)
    on_segments: Callable[[Sequence[Segment]], None] | None = field(default=None, compare=False)
    channel: int | None = None


@dataclass(frozen=True)
class Transcript:
    """The transcript of a recording.

    Attributes:
        segments: Segments of speech in the order of time; empty if there is no speech. They overlap only where speakers
            of several channels do, see `of_channels`.
        duration: Length of the recording in seconds.
        conditions: Values by condition, such as {"lang": "es", "domain": "talks"}, for the conditions of the model; the
            language may be a detected one.
        language_probabilities: Probability of each language of the model, highest first; None unless the language was
            detected.
        language: The spoken language: as given, as detected, or the model's only or default language. None if it was
            not given and the model has no languages, or if there is no speech to detect it from.
    """

    segments: tuple[Segment, ...]
    duration: float
    conditions: dict[str, str]
    language_probabilities: dict[str, float] | None = None
    language: str | None = None

    @classmethod
    def of_channels(cls, channels: Sequence["Transcript"]) -> "Transcript":
        """The transcript of a recording with a speaker in each channel, from the transcripts of its channels.

        The speaker of a segment is "channel 0", "channel 1" and so on. Languages and other conditions that differ
        between channels, and the probabilities of languages, are left out.
        """
        segments = [
            replace(one, speaker=f"channel {number}") for number, part in enumerate(channels) for one in part.segments
        ]
        first, *others = channels
        conditions = {
            name: value
            for name, value in first.conditions.items()
            if all(other.conditions.get(name) == value for other in others)
        }
        heard = {part.language for part in channels if part.segments}
        return cls(
            tuple(sorted(segments, key=lambda one: one.start)),
            max(part.duration for part in channels),
            conditions,
            language=heard.pop() if len(heard) == 1 else None,
        )

    @property
    def text(self) -> str:
        """The texts of the segments, with spaces between them except in scripts without spaces, such as Chinese."""
        return join_texts(segment.text for segment in self.segments)

    @property
    def words(self) -> tuple[Word, ...]:
        """The words of all segments; empty unless word times were requested."""
        return tuple(word for segment in self.segments for word in segment.words)

    def with_speakers(self, speaker_of: Callable[[float, float], str]) -> "Transcript":
        """Return this transcript with the speaker of each segment.

        A segment whose words have times is split where the speaker changes; its parts have the score of the whole
        segment, and neither tokens nor alternatives.

        Args:
            speaker_of: Returns the speaker between two times in seconds.
        """
        parts = (part for segment in self.segments for part in _by_speaker(segment, speaker_of))
        return replace(self, segments=tuple(parts))

    def to_json(self, name: str = "") -> str:
        """All fields and `name`, as `transcribe --output_format json` writes them."""
        return written(self, name, "json")

    def to_srt(self, max_line_width: int | None = None) -> str:
        """SubRip subtitles, in lines of at most `max_line_width` columns; see `formats`."""
        return written(self, "", "srt", max_line_width)

    def to_vtt(self, max_line_width: int | None = None) -> str:
        """WebVTT subtitles; takes the same arguments as `to_srt`."""
        return written(self, "", "vtt", max_line_width)


def _by_speaker(segment: Segment, speaker_of: Callable[[float, float], str]) -> Iterator[Segment]:
    positions = segment.word_positions() or []
    named = [speaker_of(word.start, word.end) for word in segment.words] if positions else []
    if len(set(named)) < 2:
        yield replace(segment, speaker=named[0] if named else speaker_of(segment.start, segment.end))
        return
    starts = [0, *positions[1:], len(segment.text)]
    for speaker, places in groupby(range(len(named)), key=named.__getitem__):
        indices = list(places)
        words = segment.words[indices[0] : indices[-1] + 1]
        text = segment.text[starts[indices[0]] : starts[indices[-1] + 1]].strip()
        part = Segment(words[0].start, words[-1].end, text, segment.score, words=words, speaker=speaker)
        yield replace(part, ctc_support=segment.ctc_support)
