"""A filter that logs ESPnet's warnings about each utterance as information."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_MODULES = ("beam_search", "batch_beam_search", "nets_utils")
# None is the root, where `nets_utils` logs.
_LOGGERS = ("espnet2.legacy.nets.beam_search", "espnet2.legacy.nets.batch_beam_search", None)


@contextmanager
def quiet() -> Iterator[None]:
    """Log as information, in this block, that a search stopped at its bound, or that a mask is made from a list.

    Several threads may be in these blocks at once; the first to leave its block ends the filter for all.
    """
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(_as_information)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(_as_information)


def _as_information(record: logging.LogRecord) -> bool:
    if record.module not in _MODULES or record.levelno != logging.WARNING:
        return True
    record.levelno, record.levelname = logging.INFO, logging.getLevelName(logging.INFO)
    return logging.getLogger().isEnabledFor(logging.INFO)
