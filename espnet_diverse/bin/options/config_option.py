"""The option --config, which may be given several times: the fragments are joined in the order of the command line."""

import argparse


class JoinFragments(argparse.Action):
    """Adds the names of one --config to those of the ones before it."""

    def __call__(self, parser, namespace, values, option_string=None):
        before = getattr(namespace, self.dest)
        setattr(namespace, self.dest, f"{before},{values}" if before else values)
