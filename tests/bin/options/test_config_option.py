"""--config given several times."""

import argparse

from espnet_diverse.bin.options.options import add_config, fragments


def test_fragments_of_several_options_are_merged_in_order():
    parser = argparse.ArgumentParser()
    add_config(parser)
    assert fragments(parser.parse_args(["--config", "a,b", "--config", "c"])) == ["a", "b", "c"]
    assert fragments(parser.parse_args(["--config", "a"])) == ["a"]
