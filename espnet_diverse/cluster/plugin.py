"""Set-up of a Dask worker before it receives work; this module imports Dask."""

import logging

from distributed import Worker, WorkerPlugin

from espnet_diverse.cpu.allocator import keep_freed_memory
from espnet_diverse.registration import fast_start


class QuickStart(WorkerPlugin):
    """Asks for memory that stays, and for the quick import of ESPnet.

    Both must be done before the first piece of work is unpickled.
    """

    name = "espnet_diverse quick start"

    def setup(self, worker: Worker) -> None:
        """Called by Dask when a worker starts."""
        keep_freed_memory()
        fast_start()
        # What fails is reported by its result; a connection that ends with its command would be logged as an error.
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
