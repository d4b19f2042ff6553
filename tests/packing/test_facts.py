"""Facts about a model, as the command `pack` reads them."""

from pathlib import Path

from espnet_diverse.bin.main import command_parser
from espnet_diverse.bin.options.arguments import from_args
from espnet_diverse.packing.facts import Facts


def test_the_command_reads_them():
    _, parser = command_parser("pack")
    words = ["exp", "--output", "m.zip"]
    assert from_args(Facts, parser.parse_args(words)) == Facts()
    words += ["--name", "n", "--license", "mit", "--languages", "de", "en", "--datasets", "a", "--data", "talks"]
    words += ["--results", "RESULTS.md", "--push_to", "o/n"]
    given = Facts("n", "mit", ("de", "en"), ("a",), "talks", Path("RESULTS.md"), "o/n")
    assert from_args(Facts, parser.parse_args(words)) == given
