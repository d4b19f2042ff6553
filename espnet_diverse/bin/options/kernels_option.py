"""The option --kernels, which all commands that run a model share."""

import argparse

from espnet_diverse.bin.options.arguments import add_options
from espnet_diverse.bin.options.options import Device


def add_kernels(parser: argparse._ActionsContainer) -> None:
    """Declare --kernels, which holds while the command runs."""
    add_options(parser, Device, "kernels")
