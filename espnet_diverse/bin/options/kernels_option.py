"""The option --kernels, which all commands that run a model share."""

import argparse
import os
from dataclasses import dataclass

from espnet_diverse.bin.options.arguments import add_options
from espnet_diverse.cpu.machine import KERNELS, KERNELS_VARIABLE
from espnet_diverse.option_checks import choice


@dataclass(frozen=True, kw_only=True)
class Kernels:
    """The library of matrix products."""

    kernels: str | None = choice(
        *KERNELS,
        none=True,
        help="library of the matrix products of linear layers on a CPU; auto measures once which is faster",
        shown=f"${KERNELS_VARIABLE}, or auto",
    )


def add_kernels(parser: argparse._ActionsContainer) -> None:
    """Declare --kernels; `take_kernels` follows it."""
    add_options(parser, Kernels)


def take_kernels(args: argparse.Namespace) -> None:
    """Make this process and its subprocesses use the requested library, if one is given."""
    if getattr(args, "kernels", None) is not None:
        os.environ[KERNELS_VARIABLE] = args.kernels
