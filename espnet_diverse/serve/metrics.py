"""Counts of a server in Prometheus's text format: answers, their times, refusals with reasons, and seconds of audio.

As those of Prometheus's own client they belong to the process, and begin with it.
"""

from collections import defaultdict

TYPE = "text/plain; version=0.0.4"
"""Content type of the text."""
_BOUNDS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
_FAMILIES = {
    "requests_total": ("counter", "Answers, by path and status; 101 is a websocket."),
    "request_seconds": ("histogram", "Seconds from a request to the end of its answer, by path."),
    "refused_total": ("counter", "Requests and streams that were refused or failed, by reason."),
    "audio_seconds_total": ("counter", "Seconds of audio that were taken, of files and of streams."),
}


class Metrics:
    """Numbers by family and labels; used by one thread."""

    def __init__(self) -> None:
        self._values: dict[str, defaultdict[str, float]] = {family: defaultdict(float) for family in _FAMILIES}

    def add(self, family: str, amount: float = 1.0, suffix: str = "", **labels: str) -> None:
        """Add to a number; the values of labels must be a few names of the program, never texts of a request."""
        named = ",".join(f'{label}="{value}"' for label, value in labels.items())
        self._values[family][f"espnet_diverse_{family}{suffix}{{{named}}}"] += amount

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self.add("requests_total", path=path, status=str(status))
        for bound in _BOUNDS:
            self.add("request_seconds", float(seconds <= bound), "_bucket", path=path, le=f"{bound:g}")
        self.add("request_seconds", 1.0, "_bucket", path=path, le="+Inf")
        self.add("request_seconds", seconds, "_sum", path=path)
        self.add("request_seconds", 1.0, "_count", path=path)

    def text(self) -> str:
        """All numbers in Prometheus's format."""
        lines = []
        for family, (kind, text) in _FAMILIES.items():
            lines += [f"# HELP espnet_diverse_{family} {text}", f"# TYPE espnet_diverse_{family} {kind}"]
            lines += [f"{name} {value!r}" for name, value in self._values[family].items()]
        return "".join(f"{line}\n" for line in lines)


METRICS = Metrics()
