"""Limits of the requests to a server."""

from dataclasses import dataclass

from espnet_diverse.option_checks import Options, number


@dataclass(frozen=True)
class Limits(Options):
    """Limits of the requests to a server.

    Attributes:
        seconds: Maximum duration of a recording.
        megabytes: Maximum size of an uploaded file in MB.
        waiting: Maximum number of requests that wait for a model.
        streams: Maximum number of recordings of a model that are transcribed while somebody speaks.
        stream_seconds: Maximum duration of one of these recordings.
        characters: Maximum length of a text.
        all_megabytes: Maximum total size of the bodies that are being received, which bounds their memory.
        queued_seconds: Maximum total duration of the recordings that wait for a model, which bounds their memory.
        idle_seconds: A live recording ends if nothing is sent for this time.
    """

    seconds: float = number(120.0, above=0, key="max_seconds")
    megabytes: float = number(20.0, above=0, key="max_megabytes")
    waiting: int = number(8, least=1, key="max_waiting")
    streams: int = number(4, least=1, key="max_streams")
    stream_seconds: float = number(4 * 3600.0, above=0, key="max_stream_seconds")
    characters: int = 5000
    all_megabytes: float = 100.0
    queued_seconds: float = 3600.0
    idle_seconds: float = 10.0

    @property
    def bytes(self) -> int:
        """Maximum size of an uploaded file in bytes."""
        return int(self.megabytes * 1e6)
