"""Keep the number of workers of a local cluster; this module imports Dask."""

from distributed import Adaptive
from distributed.core import Status


class KeepWorkers(Adaptive):
    """Restarts the process of a worker that Dask has given up.

    Each worker has a nanny, which starts it again after a death. Where that fails, as when the new process is killed
    before it has connected, the nanny closes, and Dask would go on with fewer workers or none.
    """

    async def recommendations(self, target: int) -> dict:
        """Called by Dask each second; workers that the cluster lacks are then started."""
        for name, nanny in list(self.cluster.workers.items()):
            if nanny.status in (Status.closed, Status.failed):
                del self.cluster.workers[name]
        return await super().recommendations(target)
