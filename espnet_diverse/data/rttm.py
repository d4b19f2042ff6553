"""Speaker turns in NIST's RTTM, as programs for diarisation write them.

    SPEAKER talk 1 0.25 3.10 <NA> <NA> anna <NA> <NA>

The columns are type, recording, channel, start and length in seconds, two that are not read, and the speaker. Lines of
other types are skipped.
"""

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from espnet_diverse.data.characters import id_fault
from espnet_diverse.data.faults import Fault, refuse
from espnet_diverse.data.lines import numbered_lines


@dataclass(frozen=True)
class Turn:
    """A turn of one speaker: start and end in seconds, and the speaker."""

    start: float
    end: float
    speaker: str


def read_turns(path: Path) -> dict[str, list[Turn]]:
    """Read the turns of each recording, by start.

    Raises:
        DataError: The file cannot be read, a line is faulty, or there is no turn.
    """
    faults: list[Fault] = []
    turns: dict[str, list[Turn]] = {}
    for number, line in numbered_lines(path, faults):
        fields = line.split()
        if not fields or fields[0] != "SPEAKER":
            continue
        try:
            start, length, speaker = float(fields[3]), float(fields[4]), fields[7]
        except (IndexError, ValueError):
            start, length, speaker = math.nan, math.nan, ""
        if not (0 <= start < math.inf and 0 <= length < math.inf):
            form = "SPEAKER recording 1 start length <NA> <NA> speaker"
            faults.append(Fault(str(path), number, f"is no turn; the columns are {form}, times in seconds"))
            continue
        if wrong := id_fault(speaker):
            faults.append(Fault(str(path), number, f"speaker: {wrong}"))
        turns.setdefault(fields[1], []).append(Turn(start, start + length, speaker))
    if not turns and not faults:
        faults.append(Fault(str(path), None, "has no line of type SPEAKER"))
    refuse(faults)
    return {recording: sorted(speaker_turns, key=lambda turn: turn.start) for recording, speaker_turns in turns.items()}


def speaker_of(turns: list[Turn], start: float, end: float) -> str:
    """The speaker of a part of a recording: the speaker with the most time in it, or else of the nearest turn."""
    shares: Counter[str] = Counter()
    for turn in turns:
        shares[turn.speaker] += max(0.0, min(end, turn.end) - max(start, turn.start))
    if any(shares.values()):
        return shares.most_common(1)[0][0]
    return min(turns, key=lambda turn: max(turn.start - end, start - turn.end)).speaker
