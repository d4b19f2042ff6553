"""Facts about a model, as the command `pack` reads them."""

from pathlib import Path

import pytest

from espnet_diverse.bin.main import command_parser
from espnet_diverse.bin.options.arguments import from_args
from espnet_diverse.errors import ConfigError
from espnet_diverse.packing.facts import Facts


def test_the_command_reads_them():
    _, parser = command_parser("pack")
    words = ["exp", "--output", "m.zip"]
    assert from_args(Facts, parser.parse_args(words)) == Facts()
    words += ["--name", "n", "--license", "mit", "--languages", "de", "en", "--datasets", "a", "--data", "talks"]
    words += ["--results", "RESULTS.md", "--push_to", "o/n"]
    given = Facts("n", "mit", ("de", "en"), ("a",), "talks", Path("RESULTS.md"), "o/n")
    assert from_args(Facts, parser.parse_args(words)) == given


@pytest.mark.parametrize("code", ["{", "", "d", "de,en", "deutsche_sprache_", "de\nen"])
def test_what_is_no_code_of_a_language_is_refused(code):
    assert Facts(languages=("de", "zh-TW", "sr_Latn", "nan", "zh-Hant-TW")).languages
    with pytest.raises(ConfigError, match="^--languages .*: is no code"):
        Facts(languages=("de", code))
