"""The option --kernels, which all commands that run a model share."""

import argparse
import os

from espnet_diverse.cpu.machine import KERNELS, KERNELS_VARIABLE


def add_kernels(parser: argparse._ActionsContainer) -> None:
    """Declare --kernels; `take_kernels` follows it."""
    parser.add_argument(
        "--kernels",
        choices=KERNELS,
        help="library of the matrix products of linear layers on a CPU; auto measures once which is faster (default: "
        f"${KERNELS_VARIABLE}, or auto)",
    )


def take_kernels(args: argparse.Namespace) -> None:
    """Make this process and its subprocesses use the requested library, if one is given."""
    if getattr(args, "kernels", None) is not None:
        os.environ[KERNELS_VARIABLE] = args.kernels
