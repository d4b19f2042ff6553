"""Workers that read data, killed at random moments."""

import os
import signal

from espnet_diverse.training.data.data_workers import LoaderBatches


def killed(pid):
    """Kill a child and wait until it has ended; it stays for its parent to notice.

    A process that has yet to die, as with much load, may otherwise end after the last batch, where nobody misses it.
    """
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def killing_workers(draw, seconds, marks):
    """Kill a worker of each pass at a random moment before its last batch; a byte of `marks` is written for each."""
    begin = LoaderBatches._begin

    def begin_with_alarm(batches, number):
        begin(batches, number)
        if batches.again or not batches._workers:
            return

        def kill(*_):
            workers = [worker for worker in batches._workers if worker.is_alive()]
            if workers and batches.number < len(batches.loader):
                os.write(marks, b"x")
                killed(draw.choice(workers).pid)

        signal.signal(signal.SIGALRM, kill)
        signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-6, seconds))

    LoaderBatches._begin = begin_with_alarm
