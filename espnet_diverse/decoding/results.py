"""Results of decoding a data directory: the files that are written and the line that is printed."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from espnet_diverse.data.atomic_files import write_text
from espnet_diverse.data.tables import write_table

if TYPE_CHECKING:
    from torch import Tensor

NBEST = "nbest.jsonl"
FILES = ("text", "score", NBEST, "failures.json", "decode.json")
_DIGITS = 6  # significant digits that float32 holds of any number
_DECIMALS = 4  # sums of logits of size 10 are off by some 1e-5 in float32


class Text(NamedTuple):
    """A hypothesis as text.

    Attributes:
        text: Detokenised text.
        tokens: Tokens of the text.
        score: Log score.
    """

    text: str
    tokens: list[str]
    score: float


class Prediction(NamedTuple):
    """Result of one utterance.

    Attributes:
        texts: The n-best texts, best first.
        log_probs: CTC log probabilities of labels (T, V), where they were asked for.
    """

    texts: list[Text]
    log_probs: "Tensor | None"


class Result(NamedTuple):
    """Result of one utterance.

    Attributes:
        utterance: Id of the utterance.
        text: The best text; empty where there is none.
        score: Log score of the text.
        failure: Why the utterance could not be decoded; None where it was.
        seconds: Duration of the audio; 0 for text.
        tokens: Number of tokens of the text.
        nbest: Texts and scores of the n-best hypotheses, best first, if several were asked for.
    """

    utterance: str
    text: str = ""
    score: float = -math.inf
    failure: str | None = None
    seconds: float = 0.0
    tokens: int = 0
    nbest: tuple[tuple[str, float], ...] = ()


def rounded_score(score: float) -> float:
    """A log score or probability with the digits that are certain in float32, as it is written to files.

    Kernels choose the order of a sum by the shapes of their operands and by the CPU, so the digits after these depend
    on the other utterances in a batch and on the machine. Searches compare and rank unrounded scores. Two scores that
    differ only in those digits are written alike, or 1 apart in the last place if they lie on either side of a rounding
    boundary.
    """
    return round(float(f"{score:.{_DIGITS}g}"), _DECIMALS) + 0.0  # not -0.0


def summary(results: Sequence[Result], elapsed: float) -> dict[str, float]:
    """Compute the numbers of decode.json.

    Tokens are those of the best hypotheses without the end of sentence. For text there is no audio_seconds and no
    real_time_factor.

    Args:
        results: Results of all utterances; at least one was decoded.
        elapsed: Wall-clock seconds that decoding took.
    """
    done = [result for result in results if result.failure is None]
    seconds = sum(result.seconds for result in done)
    tokens = sum(result.tokens for result in done)
    audio = {"audio_seconds": seconds, "real_time_factor": elapsed / seconds} if seconds else {}
    return {
        "utterances": len(done),
        "failed": len(results) - len(done),
        "empty": sum(not result.text for result in done),
        "wall_seconds": elapsed,
        **audio,
        "tokens": tokens,
        "tokens_per_second": tokens / elapsed,
    }


def write_results(results: Sequence[Result], numbers: dict[str, float | str], output_dir: Path) -> None:
    """Write text, score and n-best hypotheses of the decoded utterances, and `numbers` as decode.json."""
    done = [result for result in results if result.failure is None]
    write_table(output_dir / "text", {result.utterance: result.text for result in done})
    write_table(output_dir / "score", {result.utterance: f"{rounded_score(result.score):g}" for result in done})
    if any(result.nbest for result in done):
        write_nbest(output_dir / NBEST, {result.utterance: result.nbest for result in done})
    write_json(output_dir / "decode.json", numbers)


def write_nbest(path: Path, nbest: Mapping[str, Sequence[tuple[str, float]]]) -> None:
    """Write texts with their scores, a line of JSON for each utterance."""
    lines = []
    for utterance, hypotheses in sorted(nbest.items()):
        listed = [{"text": text, "score": rounded_score(score)} for text, score in hypotheses]
        lines.append(json.dumps({"utterance": utterance, "hypotheses": listed}, ensure_ascii=False) + "\n")
    write_text(path, "".join(lines))


def write_json(path: Path, content: dict) -> None:
    """Write a mapping as readable JSON."""
    write_text(path, json.dumps(content, ensure_ascii=False, indent=1) + "\n")


def line(numbers: dict[str, float]) -> str:
    """The numbers of `summary` as one line of text."""
    audio, factor = "", ""
    if "audio_seconds" in numbers:
        audio = "{audio_seconds:.0f} s of audio in "
        factor = "real-time factor {real_time_factor:.3f}, "
    return (
        f"decoded {{utterances}} of {{all}} utterances ({{failed}} failed, {{empty}} empty), {audio}"
        f"{{wall_seconds:.0f}} s, {factor}{{tokens_per_second:.0f}} tokens a second"
    ).format(all=numbers["utterances"] + numbers["failed"], **numbers)
