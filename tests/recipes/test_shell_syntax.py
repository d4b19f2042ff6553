"""Shell syntax in any option of run.sh is text: nothing of it runs, and no pattern of file names is expanded."""

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OPTIONS = re.findall(r"^option (\w+) ", (ROOT / "egs/common/recipe.sh").read_text(), flags=re.MULTILINE)
NUMBERS = ("seed", "nj", "ngpu", "average_number", "vocab_size", "src_vocab_size")
SYNTAX = {
    "index": "options[$(touch {made})]",
    "quotes": """'; touch {made}; "$(touch {made})" `touch {made}`; '""",
    "operators": "x; touch {made} && touch {made} | touch {made} > {made} #",
}


@pytest.mark.parametrize("option", OPTIONS)
def test_shell_syntax_does_not_run(recipe, tmp_path, option):
    made = tmp_path / "made"
    for form in SYNTAX.values():
        value = form.replace("{made}", str(made))
        result = recipe(f"--{option}", value, "--tag", "t", *(["--tag", value] if option == "tag" else []))
        assert not made.exists(), value
        said = result.stderr.strip().splitlines()
        assert result.returncode in (0, 1) and len(said) == 1, result.stderr  # the experiment, or one error
        if option in NUMBERS:
            assert f"--{option} '{value}' is not a " in said[0] and result.stdout == ""


def test_the_words_of_an_option_are_no_patterns(recipe):
    argv = shlex.split(recipe("--tag", "t", "--prepare_options", "--languages *", "--stop_stage", "1").stdout)
    assert argv[argv.index("--languages") + 1] == "*"


@pytest.mark.parametrize("value", ["-1", "1.5", "08", "1e3", "10000000000", "0x10", "x"])
@pytest.mark.parametrize("option", NUMBERS)
def test_numbers_are_whole_numbers(recipe, option, value):
    result = recipe(f"--{option}", value)
    assert result.returncode == 1 and f"--{option} '{value}' is not a " in result.stderr, result.stderr
