"""`espnet-diverse transcribe --stream`: streaming recognition."""

import json
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from espnet_diverse.bin.options import options as shared
from espnet_diverse.bin.options.arguments import part
from espnet_diverse.errors import ConfigError
from espnet_diverse.option_checks import flag, number
from espnet_diverse.progress import cursor_stream
from espnet_diverse.transcription.segmentation_options import SegmentationOptions

if TYPE_CHECKING:
    from espnet_diverse.transcription.streaming import StreamResult

STREAM_FORMATS = ("txt", "json")
SEGMENTATION = ("vad", "max_seconds", "min_silence_seconds", "padding_seconds")
_CLEAR = "\r\x1b[K"
_UNKNOWN_WIDTH = 80  # of a terminal that does not report it


class StreamOptions(shared.Model, shared.Searching, shared.Conditions, shared.FusionFiles, shared.Computing):
    """Options of streaming, and those of the model and the search."""

    GROUP = "streaming"
    ABOUT = (
        "With --stream the one source is a file as if it were live, or a FIFO or - with raw samples: PCM, 16-bit "
        "little-endian, mono. The text of each utterance is printed when it ends, and on a terminal also while it is "
        "spoken; --output_format json prints each change as a line. The encoder must be a contextual block encoder, or "
        "diverse_transformer with a memory."
    )

    segmentation: SegmentationOptions = part(SegmentationOptions, *SEGMENTATION)
    stream: bool = flag(help="transcribe live audio, or a file as if it were live")
    pcm_rate: int | None = number(None, kind=int, metavar="HZ", help="rate of raw samples", shown="the model's rate")
    real_time: bool = flag(help="read a file in real time")


def check_stream_options(options: StreamOptions) -> None:
    """Refuse options of streaming without --stream.

    Raises:
        ConfigError: Such an option is given.
    """
    flags = {"--pcm_rate": options.pcm_rate is not None, "--real_time": options.real_time}
    if not options.stream and (option := next((name for name, is_set in flags.items() if is_set), None)):
        raise ConfigError(f"{option} is for --stream; give that too, or leave it out")


def run_stream(options: StreamOptions, source: str, output_format: str) -> int:
    """Print texts until the stream ends; an interrupt ends it as well.

    Args:
        options: The options.
        source: A file, a FIFO, or - for standard input.
        output_format: A name in `STREAM_FORMATS`.
    """
    searching, helpers = options.searching(), shared.fusion(options)
    from espnet_diverse.audio.live import open_live
    from espnet_diverse.inference import StreamRecognizer  # takes seconds
    from espnet_diverse.transcription.streaming import Latencies

    recognizer = StreamRecognizer(
        *options.model,
        device=options.device,
        segmentation=options.segmentation,
        options=searching,
        fusion=helpers,
        conditions=options.conditions,
    )
    shown, latencies, interrupts = _Printer(output_format), Latencies(), Interrupts()
    rate = recognizer.search.rate
    try:
        # In this order: opening a FIFO may wait for its writer, and an interrupt must end the wait at once.
        live = open_live(source, options.pcm_rate, rate, real_time=options.real_time)
        with live as blocks, interrupts.handled():
            for result in recognizer.stream(interrupts.between(blocks)):
                latencies.add(result)
                shown.print(result)
    except KeyboardInterrupt:
        pass  # the usual end of a microphone; the last utterance has its text
    finally:
        shown.close()
    print(f"transcribe: {latencies}", file=sys.stderr, flush=True)
    return 0


class _Printer:
    """Prints results: json lines, or texts with a line on the terminal that follows the speaker."""

    def __init__(self, output_format: str):
        self.json = output_format == "json"
        self.follows = not self.json and sys.stderr.isatty()

    def print(self, result: "StreamResult") -> None:
        if self.json:
            print(_json_line(result), flush=True)
            return
        if self.follows:
            width = os.get_terminal_size(sys.stderr.fileno()).columns or _UNKNOWN_WIDTH
            shown = "" if result.is_final else _end(result.text, width - 1)
            print(_CLEAR, end="", file=cursor_stream())
            print(shown, end="", file=sys.stderr, flush=True)
        if result.is_final and result.text:
            print(result.text, flush=True)

    def close(self) -> None:
        if self.follows:
            print(_CLEAR, end="", file=cursor_stream(), flush=True)


def _end(text: str, width: int) -> str:
    """The end of a text that fits into `width` columns: a longer line could not be erased."""
    from espnet_diverse.data.characters import columns

    start = len(text)
    while start and (width := width - columns(text[start - 1])) >= 0:
        start -= 1
    return text[start:]


def _json_line(result: "StreamResult") -> str:
    from espnet_diverse.decoding.prediction import rounded_score

    fields = {
        "type": "final" if result.is_final else "partial",
        "start": round(result.start, 3),
        "end": round(result.end, 3),
        "text": result.text,
        "score": rounded_score(result.score),
        "heard": round(result.heard, 3),
        "computing": round(result.computing, 3),
    }
    return json.dumps(fields, ensure_ascii=False, allow_nan=False)


class Interrupts:
    """Turns SIGINT into KeyboardInterrupt while a stream is read: the audio read before is processed to its end.

    A second SIGINT is a KeyboardInterrupt at once. Used in the main thread:

        interrupts = Interrupts()
        with interrupts.handled():
            for block in interrupts.between(blocks): ...
    """

    def __init__(self):
        self._reading, self._asked = False, False

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle SIGINT within this context, unless the process ignores it or has a handler of its own."""
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return
        signal.signal(signal.SIGINT, self._on_signal)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def between[Block](self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Yield blocks as they come.

        Raises:
            KeyboardInterrupt: There was a SIGINT while a block was read, or before that.
        """
        source = iter(blocks)
        while True:
            self._reading = True
            try:
                if self._asked:
                    raise KeyboardInterrupt
                block = next(source)
            except StopIteration:
                return
            finally:
                self._reading = False
            yield block

    def _on_signal(self, *_: object) -> None:
        if self._reading or self._asked:
            raise KeyboardInterrupt
        self._asked = True
