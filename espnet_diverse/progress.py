"""Progress of long operations: a tqdm bar on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TextIO


def progress[Item](
    items: Iterable[Item],
    name: str,
    total: int | None = None,
    unit: str = "item",
    every_seconds: float = 10.0,
    done: int = 0,
) -> Iterator[Item]:
    """Yield `items`, and show name, count, rate and remaining time on stderr.

    Args:
        items: The items to process.
        name: A short label, for example "train epoch 3".
        total: Number of items; by default `len(items)` if `items` has a length.
        unit: Singular name of an item, for the rate.
        every_seconds: Seconds between two lines if stderr is not a terminal.
        done: Number of items that were done before.
    """
    if total is None and hasattr(items, "__len__"):
        total = len(items)
    if sys.stderr.isatty():
        from tqdm import tqdm

        look = {"dynamic_ncols": True, "leave": False, "file": cursor_stream()}
        yield from tqdm(items, desc=name, total=total, unit=unit, initial=done, **look)
        return
    yield from _plain(items, name, total, unit, every_seconds, done)


class WithProgress[Item](Iterable[Item]):
    """Items that show their progress each time they are read; see `progress` for the arguments."""

    def __init__(self, items: Iterable[Item], name: str, total: int | None = None, unit: str = "item"):
        self.items, self.name, self.total, self.unit = items, name, total, unit

    def __iter__(self) -> Iterator[Item]:
        return progress(self.items, self.name, self.total, self.unit)


def cursor_stream() -> TextIO:
    """Stderr for what moves the cursor, which other texts must not do on the terminal of a command."""
    return getattr(sys.stderr, "cursor", sys.stderr)


def _plain[Item](
    items: Iterable[Item], name: str, total: int | None, unit: str, every_seconds: float, before: int
) -> Iterator[Item]:
    start = last = time.monotonic()
    done, shown = before, -1
    for item in items:
        yield item
        done += 1
        now = time.monotonic()
        if now - last >= every_seconds:
            last, shown = now, done
            _line(name, done, total, unit, now - start, before)
    if shown != done:
        _line(name, done, total, unit, time.monotonic() - start, before)


def _line(name: str, done: int, total: int | None, unit: str, seconds: float, before: int) -> None:
    of = f"/{total}" if total is not None else ""
    rate = (done - before) / seconds if seconds > 0 else 0.0
    remaining = f", {timespan((total - done) / rate)} left" if total is not None and done < total and rate else ""
    units = f"{unit}es" if unit.endswith("ch") else f"{unit}s"
    line = f"{name}: {done}{of} {units}, {rate:.1f} {units}/s, {timespan(seconds)}{remaining}"
    print(line, file=sys.stderr, flush=True)


def timespan(seconds: float) -> str:
    """Return a number of seconds as text, such as 42 s, 12 min 05 s or 3 h 07 min."""
    minutes, remainder = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {remainder:02} s" if minutes else f"{remainder} s"
