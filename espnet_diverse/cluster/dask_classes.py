"""Set-up of a Dask worker before it receives work, and replacement of lost workers; this module imports Dask."""

import logging

from distributed import Adaptive, Worker, WorkerPlugin
from distributed.core import Status

from espnet_diverse.cluster.connections import separate_connections
from espnet_diverse.cpu.allocator import keep_freed_memory
from espnet_diverse.registration import fast_start


class QuickStart(WorkerPlugin):
    """Keeps freed memory, prepares the quick import of ESPnet, and separates connections.

    The first two must be done before the first piece of work is unpickled.
    """

    name = "espnet_diverse quick start"

    def setup(self, worker: Worker) -> None:
        """Called by Dask when a worker starts."""
        keep_freed_memory()
        fast_start()
        separate_connections()
        # Failures are reported by results; a connection that ends with its command would be logged as an error.
        logging.getLogger("distributed").setLevel(logging.CRITICAL)


class KeepWorkers(Adaptive):
    """Restarts workers that Dask has given up.

    Each worker has a nanny, which starts it again after a death. If that fails, for example because the new process is
    killed before it has connected, the nanny closes, and Dask would continue with fewer workers or none.
    """

    async def recommendations(self, target: int) -> dict:
        """Called by Dask each second; starts the workers that the cluster lacks."""
        for name, nanny in list(self.cluster.workers.items()):
            if nanny.status in (Status.closed, Status.failed):
                del self.cluster.workers[name]
        return await super().recommendations(target)
