"""The option --cluster, which several commands share."""

import argparse
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from espnet_diverse.cluster.pool import Pool


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Declare --cluster, after --nj if the command has it; `workers` starts the cluster."""
    place = ", and replaces --nj" if "--nj" in parser._option_string_actions else ""
    parser.add_argument(
        "--cluster",
        metavar="NAME_OR_FILE,...",
        default="",
        help="spread the work over a cluster: local or slurm of conf/cluster, or a YAML file; needs "
        f"the extra cluster{place} (default: this machine alone)",
    )


@contextmanager
def workers(
    args: argparse.Namespace, load: Callable[[], Any], files: Iterable[Path], model: bool = False
) -> Iterator["Pool | None"]:
    """The workers of the cluster that the option names, or None without it; they stop at the end of the block.

    Args:
        args: Parsed arguments.
        load: Function that a worker calls once to load what it needs, see `cluster.worker.Setup`.
        files: Files that a worker reads.
        model: Whether it loads a model; if so, workers multiply matrices with the libraries that this process chooses.

    Raises:
        ConfigError: The configuration of the cluster is wrong, or Dask is not installed.
        ClusterError: The cluster does not start.
    """
    if not args.cluster:
        yield None
        return
    from espnet_diverse.cluster.backends import started
    from espnet_diverse.cluster.configuration import read_cluster
    from espnet_diverse.cluster.pool import Pool
    from espnet_diverse.cluster.worker import Setup

    options = read_cluster(args.cluster)
    if model:
        from espnet_diverse.cpu.linear_kernels import choice, load_with

        load = partial(load_with, choice(), load)
    with started(options) as client:
        yield Pool(client, options, Setup(load, files))
