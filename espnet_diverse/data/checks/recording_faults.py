"""Faults in the samples of a recording, and among all recordings of a set: the same audio, several formats."""

from array import array
from collections.abc import Iterable, Iterator

from espnet_diverse.audio.ark import CODED
from espnet_diverse.audio.libsndfile import AudioInfo, Powers
from espnet_diverse.data.checks.plausibility import CANCELLED, Finding, Measures, sound_findings
from espnet_diverse.data.checks.repetitions import same_digests
from espnet_diverse.data.faults import Fault


def sound_faults(measures: Measures, powers: Powers) -> Iterable[Finding]:
    """Faults of samples, by their measures and by the powers of the channels that they are the mean of."""
    return [Finding("silent", CANCELLED)] if powers.cancel else sound_findings(measures)


class SameAudio:
    """Recordings with equal digests."""

    def __init__(self) -> None:
        self._rows, self._digests = array("q"), bytearray()

    def add(self, row: int, digest: bytes) -> None:
        """Add a recording by its number, which must exceed all earlier numbers, and its digest of 16 bytes."""
        self._rows.append(row)
        self._digests += digest

    def faults(self, table: str, recordings: Iterable[str]) -> Iterator[Fault]:
        """One fault for each recording that equals an earlier one; `recordings` are the names by number."""
        pairs = list(same_digests(self._rows, self._digests))
        wanted = {row for pair in pairs for row in pair}
        names = {row: name for row, name in enumerate(recordings) if row in wanted} if wanted else {}
        for row, first in pairs:
            reason = f"has the same audio as {names[first]}; remove one of them"
            yield Fault(table, names[row], reason, "same_audio")


class Formats:
    """Rates, channels and formats of recordings."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, int, str], tuple[int, str]] = {}  # number, and the first recording

    def add(self, recording: str, info: AudioInfo) -> None:
        """Add a recording."""
        kind = "" if info.converted_from == CODED else info.converted_from
        count, first = self._found.get((info.rate, info.channels, kind), (0, recording))
        self._found[info.rate, info.channels, kind] = (count + 1, first)

    def faults(self, table: str) -> Iterator[Fault]:
        """One fault for each rate, number of channels and format, except the most frequent if training can read it."""
        usual = max(self._found, key=lambda key: self._found[key][0], default=None)
        for (rate, channels, kind), (count, first) in self._found.items():
            if (rate, channels, kind) != usual or channels > 1 or kind:
                reason = f"{count} recording{'s have' if count > 1 else ' has'} {rate} Hz and {channels} channel"
                reason += "s" if channels > 1 else ""
                reason += f" as {kind}" if kind else ""
                todo = "training reads one rate and mono: convert them with espnet-diverse prepare kaldi"
                yield Fault(table, first, f"{reason}; the first is this one; {todo}", "format")
