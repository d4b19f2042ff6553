"""The option --kernels, which all commands that run a model share."""

import argparse
import os

from espnet_diverse.bin.options.arguments import add_options
from espnet_diverse.bin.options.options import Device
from espnet_diverse.cpu.machine import KERNELS_VARIABLE


def add_kernels(parser: argparse._ActionsContainer) -> None:
    """Declare --kernels; `take_kernels` follows it."""
    add_options(parser, Device, "kernels")


def take_kernels(args: argparse.Namespace) -> None:
    """Make this process and its subprocesses use the requested library, if one is given."""
    if getattr(args, "kernels", None) is not None:
        os.environ[KERNELS_VARIABLE] = args.kernels
