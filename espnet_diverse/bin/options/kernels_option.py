"""The option --kernels, which all commands that run a model share."""

import argparse

from espnet_diverse.cpu.machine import KERNELS, KERNELS_VARIABLE


def add_kernels(parser: argparse._ActionsContainer) -> None:
    """Declare --kernels, which holds while the command runs."""
    parser.add_argument(
        "--kernels",
        choices=KERNELS,
        help="library of the matrix products of linear layers on a CPU; auto measures once which is faster (default: "
        f"${KERNELS_VARIABLE}, or auto)",
    )
