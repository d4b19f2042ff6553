"""Workers that read data, killed at random moments."""

import os
import signal

from espnet_diverse.training.data_workers import LoaderBatches


def killing_workers(draw, seconds, marks):
    """Kill a worker of each pass at a random moment before its last batch; a byte of `marks` is written for each."""
    begin = LoaderBatches.begin

    def begin_with_alarm(batches):
        begin(batches)
        if batches.again or not batches._workers:
            return

        def kill(*_):
            workers = [worker for worker in batches._workers if worker.is_alive()]
            if workers and batches.number < len(batches.loader):
                os.write(marks, b"x")
                os.kill(draw.choice(workers).pid, signal.SIGKILL)

        signal.signal(signal.SIGALRM, kill)
        signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-6, seconds))

    LoaderBatches.begin = begin_with_alarm
