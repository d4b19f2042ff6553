"""What `import espnet_diverse` offers: the public names and nothing else, and advice for a name that it lacks."""

import subprocess
import sys

import pytest

import espnet_diverse


def test_completion_lists_the_public_names_alone():
    assert dir(espnet_diverse) == sorted([*espnet_diverse.__all__, "__version__"])
    assert all(getattr(espnet_diverse, name) is not None for name in espnet_diverse.__all__)


def test_a_fresh_process_sees_no_modules_among_the_names():
    code = "import espnet_diverse; print(*dir(espnet_diverse))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert found == sorted([*espnet_diverse.__all__, "__version__"])


@pytest.mark.parametrize(("name", "advice"), [("Recogniser", "'Recognizer'"), ("finetune", "'fine_tune'")])
def test_a_misspelt_name_is_corrected(name, advice):
    with pytest.raises(AttributeError, match=f"{name}.*did you mean {advice}"):
        getattr(espnet_diverse, name)


def test_a_name_unlike_all_gets_no_advice():
    with pytest.raises(AttributeError, match="'zzz'$"):
        _ = espnet_diverse.zzz
