"""What decoding a data directory gave: the files it leaves behind and the line it prints."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from espnet_diverse.data.atomic_files import write_text
from espnet_diverse.data.tables import write_table

FILES = ("text", "score", "failures.json", "decode.json")
_DIGITS = 6  # significant digits that float32 holds of any number
_DECIMALS = 4  # sums of logits of size 10 are off by some 1e-5 in float32


class Text(NamedTuple):
    """A hypothesis for people: its text, its tokens and its log score."""

    text: str
    tokens: list[str]
    score: float


class Outcome(NamedTuple):
    """What became of one utterance: its text, its log score and its number of tokens, or why it has none of them; its
    audio's seconds."""

    utterance: str
    text: str = ""
    score: float = -math.inf
    failure: str | None = None
    seconds: float = 0.0
    tokens: int = 0


def rounded_score(score: float) -> float:
    """A log score or probability with the digits that are certain in float32, as it is written to files.

    Kernels choose the order of a sum by the shapes of their operands and by the CPU, so the digits after these depend
    on the other utterances in a batch and on the machine. Searches compare and rank unrounded scores. Two scores that
    differ only in those digits are written alike, or 1 apart in the last place if they lie on either side of a rounding
    boundary.
    """
    return round(float(f"{score:.{_DIGITS}g}"), _DECIMALS) + 0.0  # not -0.0


def summary(outcomes: Sequence[Outcome], elapsed: float) -> dict[str, float]:
    """The numbers of decode.json; tokens are those of the best hypotheses without the end of sentence. Of text there is
    no audio_seconds and no real_time_factor.

    Args:
        outcomes: Of all utterances; at least one was decoded.
        elapsed: Seconds that decoding took, by the clock.
    """
    done = [outcome for outcome in outcomes if outcome.failure is None]
    seconds = sum(outcome.seconds for outcome in done)
    tokens = sum(outcome.tokens for outcome in done)
    heard = {"audio_seconds": seconds, "real_time_factor": elapsed / seconds} if seconds else {}
    return {
        "utterances": len(done),
        "failed": len(outcomes) - len(done),
        "empty": sum(not outcome.text for outcome in done),
        "wall_seconds": elapsed,
        **heard,
        "tokens": tokens,
        "tokens_per_second": tokens / elapsed,
    }


def write_outcomes(outcomes: Sequence[Outcome], numbers: dict[str, float | str], output_dir: Path) -> None:
    """Write text and score of what was decoded, and `numbers` as decode.json."""
    done = [outcome for outcome in outcomes if outcome.failure is None]
    write_table(output_dir / "text", {outcome.utterance: outcome.text for outcome in done})
    write_table(output_dir / "score", {outcome.utterance: f"{rounded_score(outcome.score):g}" for outcome in done})
    write_json(output_dir / "decode.json", numbers)


def write_json(path: Path, content: dict) -> None:
    """Write a mapping as readable JSON."""
    write_text(path, json.dumps(content, ensure_ascii=False, indent=1) + "\n")


def line(numbers: dict[str, float]) -> str:
    """The numbers of `summary` for people."""
    audio, factor = "", ""
    if "audio_seconds" in numbers:
        audio = "{audio_seconds:.0f} s of audio in "
        factor = "real-time factor {real_time_factor:.3f}, "
    return (
        f"decoded {{utterances}} of {{all}} utterances ({{failed}} failed, {{empty}} empty), {audio}"
        f"{{wall_seconds:.0f}} s, {factor}{{tokens_per_second:.0f}} tokens a second"
    ).format(all=numbers["utterances"] + numbers["failed"], **numbers)
