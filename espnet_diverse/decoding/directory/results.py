"""Results of decoding a data directory: the files that are written and the line that is printed."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from espnet_diverse.data.files.atomic_files import write_parts, write_text
from espnet_diverse.data.table_views import Mapped, items_in_order
from espnet_diverse.data.tables import write_table
from espnet_diverse.decoding.prediction import rounded_score

NBEST = "nbest.jsonl"
FILES = ("score", "failures.json", "text", NBEST, "decode.json")
"""Files of results in the order in which they are moved; a text alone would look like a data directory's."""


class Result(NamedTuple):
    """Result of one utterance.

    Attributes:
        utterance: Id of the utterance.
        text: The best text; empty where there is none.
        score: Log score of the text.
        failure: Why the utterance could not be decoded; None where it was.
        seconds: Duration of the audio; 0 for text.
        tokens: Number of tokens of the text.
        nbest: Texts and scores of the n-best hypotheses, best first, if several were requested.
        length: Number of frames that were decoded; for a text, of its tokens.
    """

    utterance: str
    text: str = ""
    score: float = -math.inf
    failure: str | None = None
    seconds: float = 0.0
    tokens: int = 0
    nbest: tuple[tuple[str, float], ...] = ()
    length: int = 0

    def to_json(self) -> str:
        """All fields in one line."""
        return json.dumps(self)

    @classmethod
    def from_json(cls, line: str) -> "Result":
        """The inverse of `to_json`."""
        *fields, nbest, length = json.loads(line)
        return cls(*fields, tuple((text, score) for text, score in nbest), length)


def summary(results: Iterable[Result], elapsed: float) -> dict[str, float]:
    """Compute the numbers of decode.json.

    Tokens are counted in the best hypotheses, without the end of sentence. For text there is no audio_seconds and no
    real_time_factor.

    Args:
        results: Results of all utterances; at least one was decoded.
        elapsed: Wall-clock seconds that decoding took, in all calls if some were stopped.
    """
    counts, seconds = Counter(utterances=0, failed=0, empty=0, tokens=0), 0.0
    for result in results:
        if result.failure is not None:
            counts["failed"] += 1
            continue
        counts.update(utterances=1, empty=not result.text, tokens=result.tokens)
        seconds += result.seconds
    audio = {"audio_seconds": seconds, "real_time_factor": elapsed / seconds} if seconds else {}
    return {
        **{name: counts[name] for name in ("utterances", "failed", "empty")},
        "wall_seconds": elapsed,
        **audio,
        "tokens": counts["tokens"],
        "tokens_per_second": counts["tokens"] / elapsed,
    }


def write_results(
    done: Mapping[str, Result], numbers: dict[str, float | str], output_dir: Path, several: bool = False
) -> None:
    """Write text and score of the decoded utterances, `numbers` as decode.json, and the n-best hypotheses if several
    were asked for, whether or not they were found."""
    write_table(output_dir / "text", Mapped(done, lambda result: result.text))
    write_table(output_dir / "score", Mapped(done, lambda result: f"{rounded_score(result.score):g}"))
    if several:
        write_nbest(output_dir / NBEST, Mapped(done, lambda result: result.nbest))
    write_json(output_dir / "decode.json", numbers)


def replace_results(staged: Path, output_dir: Path) -> None:
    """Move all results from the folder `staged` to `output_dir`; earlier results there are replaced or removed."""
    for name in FILES:
        if (staged / name).exists():
            (staged / name).replace(output_dir / name)
        else:
            (output_dir / name).unlink(missing_ok=True)


def write_nbest(path: Path, nbest: Mapping[str, Sequence[tuple[str, float]]]) -> None:
    """Write texts with their scores, a line of JSON for each utterance."""

    def as_json(utterance: str, hypotheses: Sequence[tuple[str, float]]) -> str:
        listed = [{"text": text, "score": rounded_score(score)} for text, score in hypotheses]
        return json.dumps({"utterance": utterance, "hypotheses": listed}, ensure_ascii=False) + "\n"

    write_parts(path, (as_json(*row) for row in items_in_order(nbest)))


def write_json(path: Path, content: Mapping) -> None:
    """Write a mapping as readable JSON; values that are infinite or NaN, which JSON does not have, become null."""
    nulls = {name: None for name, value in content.items() if isinstance(value, float) and not math.isfinite(value)}
    write_text(path, json.dumps({**content, **nulls}, ensure_ascii=False, indent=1, allow_nan=False) + "\n")


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
