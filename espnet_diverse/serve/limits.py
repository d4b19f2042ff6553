"""Limits of the requests to a server."""

from dataclasses import dataclass

from espnet_diverse.option_checks import Options, number


@dataclass(frozen=True)
class Limits(Options):
    """Limits of the requests to a server.

    Attributes:
        all_megabytes: Maximum total size of the bodies that are being received, which bounds their memory.
        queued_seconds: Maximum total duration of the recordings that wait for a model, which bounds their memory.
        idle_seconds: A live recording ends if nothing is sent for this time.
    """

    seconds: float = number(120.0, above=0, key="max_seconds", help="maximum length of a recording in seconds")
    megabytes: float = number(20.0, above=0, key="max_megabytes", help="maximum size of a file in MB")
    waiting: int = number(
        8, least=1, key="max_waiting", help="maximum recordings that wait for a model; more are answered 429"
    )
    streams: int = number(4, least=1, key="max_streams", help="maximum number of concurrent streams of a model")
    stream_seconds: float = number(
        4 * 3600.0, above=0, key="max_stream_seconds", help="maximum length of a live recording in seconds"
    )
    request_seconds: float = number(
        600.0, above=0, key="max_request_seconds", help="maximum seconds from a request to its answer; beyond them 504"
    )
    characters: int = 5000
    all_megabytes: float = 100.0
    queued_seconds: float = 3600.0
    idle_seconds: float = 10.0

    @property
    def bytes(self) -> int:
        """Maximum size of an uploaded file in bytes."""
        return int(self.megabytes * 1e6)
