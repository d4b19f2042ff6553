"""Results of a model by number of threads, library of products, compilation and precision, on this machine.

Each variant decodes the same utterances, and is compared with float32 in one thread: by the texts that differ, and by
the largest difference between the scores of equal texts, which are natural logarithms.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from espnet_diverse.cpu.machine import KERNELS_VARIABLE
from espnet_diverse.data.kaldi import spaced
from espnet_diverse.decoding.directory.decode_dir import list_jobs
from espnet_diverse.decoding.directory.results import Result
from espnet_diverse.decoding.directory.utterances import Job, Search, batches_of, decode_batch, readable
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.process_state import environment, restored

type Load = Callable[[str, bool], Search]
"""Loads a model with a precision, compiled or not."""


class Variant(NamedTuple):
    """A way to compute: the options that ask for it, and whether it only changes the order of sums."""

    name: str
    precision: str = "float32"
    compiled: bool = False
    threads: int = 1
    kernels: str | None = None

    @property
    def is_exact(self) -> bool:
        """Whether only the order of sums differs from float32 in one thread."""
        return self.precision == "float32"


BASE = Variant("float32, 1 thread")
VARIANTS = (
    Variant("2 threads", threads=2),
    Variant("--kernels onednn", kernels="onednn"),
    Variant("--kernels mkl", kernels="mkl"),
    Variant("--compile", compiled=True),
    Variant("--precision bfloat16", "bfloat16"),
    Variant("--precision int8", "int8"),
)


class Difference(NamedTuple):
    """Difference of a variant from `BASE`.

    Attributes:
        variant: The variant.
        texts: Number of utterances with another text, or that fail.
        score: Largest difference between the scores of equal texts; None where there are none.
        refused: Why the variant is not possible; "" where it is.
    """

    variant: Variant
    texts: int = 0
    score: float | None = None
    refused: str = ""


def differences(
    load: Load, data_dir: Path, count: int, conditions: Mapping[str, str]
) -> tuple[int, Iterator[Difference]]:
    """Decode utterances by `BASE`, and then by each variant.

    Args:
        load: Loads the model.
        data_dir: Data directory.
        count: Maximum number of utterances, taken at equal distances.
        conditions: Values by condition that hold for all utterances, instead of the tables.

    Returns:
        Number of utterances that `BASE` decoded, and the differences, found one by one.

    Raises:
        DataError: No utterance can be decoded; see also `decode_dir.list_jobs`.
    """

    def results(variant: Variant) -> dict[str, Result]:
        with environment(**{KERNELS_VARIABLE: variant.kernels}), restored():
            torch.set_num_threads(variant.threads)
            search = load(variant.precision, variant.compiled)
            return _results(search, spaced(list_jobs(search, data_dir, conditions), count))

    base = results(BASE)
    good = {utterance: result for utterance, result in base.items() if result.failure is None}
    if not good:
        utterance, result = next(iter(base.items()), ("", Result("", failure="there are none")))
        raise DataError(f"{data_dir}: no utterance could be decoded; first {utterance}: {result.failure}")
    return len(good), (_difference(variant, good, results) for variant in VARIANTS)


def _results(search: Search, jobs: Sequence[Job]) -> dict[str, Result]:
    failed: list[Result] = []
    batches = batches_of(readable(search, jobs, failed), search)
    decoded = [result for batch in batches for result in decode_batch(search, batch)]
    return {result.utterance: result for result in [*decoded, *failed]}


def _difference(
    variant: Variant, base: Mapping[str, Result], results: Callable[[Variant], Mapping[str, Result]]
) -> Difference:
    try:
        actual = results(variant)
    except ConfigError as error:
        return Difference(variant, refused=str(error))
    same = [name for name, result in base.items() if (actual[name].text, actual[name].failure) == (result.text, None)]
    pairs = [(actual[name].score, base[name].score) for name in same]
    scores = [abs(one - other) if one != other else 0.0 for one, other in pairs]  # both -inf where there is no text
    return Difference(variant, len(base) - len(same), max(scores, default=None))
