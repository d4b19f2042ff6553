"""Memory that Python's objects take."""

import tracemalloc


def traced(call, *args):
    """Result of a call, and the greatest number of bytes that it holds."""
    tracemalloc.start()
    try:
        return call(*args), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
