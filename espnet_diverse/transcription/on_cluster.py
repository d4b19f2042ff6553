"""Transcribe recordings on the workers of a cluster, in the batches of a single process.

`Transcription` joins the segments of short recordings in a window; a long recording has separate windows. Workers read
recordings twice: first to count the segments that each adds to a window, so that the client knows where windows end,
then to transcribe them, a window at a time.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple, Protocol

from espnet_diverse.cluster.pool import Pool
from espnet_diverse.decoding.condition_ids import KnownConditions
from espnet_diverse.decoding.predictor import Predictor
from espnet_diverse.errors import DataError, UserError
from espnet_diverse.transcription.recordings import Transcription
from espnet_diverse.transcription.segmentation_options import SegmentationOptions
from espnet_diverse.transcription.transcript import Request, Transcript


class Recognizer(Protocol):
    """Interface of the `inference.Recognizer` that workers have loaded."""

    search: Predictor
    segmentation: SegmentationOptions

    def transcribe_all(self, requests: Iterable[Request], word_timestamps: bool) -> Iterator[Transcript | Exception]:
        """One result for each request, in order."""


class Description(NamedTuple):
    """Properties of the search that workers have loaded, for commands; see `Predictor`."""

    task: str
    conditions: KnownConditions


class ClusterRecognizer:
    """A `Recognizer` on the workers of a cluster, for recordings in files.

    Args:
        pool: Workers that have loaded a `Recognizer`.

    Attributes:
        search: Task and conditions of its search.

    Raises:
        ClusterError: See `Pool.map_pieces`.
    """

    def __init__(self, pool: Pool):
        self._pool = pool
        self.search: Description = pool.ask(_describe)

    def transcribe_all(
        self, requests: Sequence[Request], word_timestamps: bool = False
    ) -> Iterator[Transcript | Exception]:
        """Results of `Recognizer.transcribe_all`, with the options that workers have loaded.

        `on_progress` of a request is called once, with its result. An exception is a `DataError` with the reason.
        """
        window = self._pool.ask(partial(_window, word_timestamps))
        sent = [Request(item.audio, item.rate, item.conditions, channel=item.channel) for item in requests]
        of_one = ([request] for request in sent)
        counts = chain.from_iterable(self._pool.map_pieces(partial(_count, word_timestamps), of_one, urgent=True))
        places: list[list[int]] = []

        def pieces() -> Iterator[list[Request]]:
            for piece in windows(counts, window):
                places.append(piece)
                yield [sent[place] for place in piece]

        finished: dict[int, Transcript | Exception] = {}
        done = 0
        for number, results in enumerate(self._pool.map_pieces(partial(_transcribe, word_timestamps), pieces())):
            finished.update(zip(places[number], results, strict=True))
            while done in finished:
                result = finished.pop(done)
                _report(requests[done], result)
                yield result
                done += 1


def windows(counts: Iterable[int | Exception], size: int) -> Iterator[list[int]]:
    """Positions of the recordings in each piece, split so that windows are the same as for all recordings in order.

    Args:
        counts: For each recording the number of segments that it adds to the window, 0 for one that has separate
            windows or cannot be read, and an exception if counting failed.
        size: Number of segments at which `Transcription` decodes a window.
    """
    piece, filled = [], 0
    for place, count in enumerate(counts):
        if not isinstance(count, int) or count == 0:
            yield [place]
            continue
        piece.append(place)
        filled += count
        if filled >= size:
            yield piece
            piece, filled = [], 0
    if piece:
        yield piece


def _describe(recognizer: Recognizer) -> Description:
    return Description(recognizer.search.task, recognizer.search.conditions)


def _transcription(word_timestamps: bool, recognizer: Recognizer) -> Transcription:
    return Transcription(recognizer.search, recognizer.segmentation, word_timestamps)


def _window(word_timestamps: bool, recognizer: Recognizer) -> int:
    return _transcription(word_timestamps, recognizer).window


def _count(word_timestamps: bool, recognizer: Recognizer, requests: Sequence[Request]) -> list[int]:
    return [_transcription(word_timestamps, recognizer).count(request) for request in requests]


def _transcribe(
    word_timestamps: bool, recognizer: Recognizer, requests: Sequence[Request]
) -> list[Transcript | Exception]:
    return [_sendable(result) for result in recognizer.transcribe_all(requests, word_timestamps)]


def _sendable(result: Transcript | Exception) -> Transcript | Exception:
    """The result; an exception becomes one that every process can unpickle, with the same text."""
    if not isinstance(result, Exception):
        return result
    return DataError(str(result) if isinstance(result, UserError) else f"{type(result).__name__}: {result}")


def _report(request: Request, result: Transcript | Exception) -> None:
    if request.on_progress is not None and not isinstance(result, Exception):
        request.on_progress(result.duration, result.duration)
