"""What `import espnet_diverse` offers: the public names and nothing else, and advice for a name that it lacks."""

import pytest

import espnet_diverse


def test_completion_lists_the_public_names_alone():
    assert dir(espnet_diverse) == sorted([*espnet_diverse.__all__, "__version__"])
    assert all(getattr(espnet_diverse, name) is not None for name in espnet_diverse.__all__)


@pytest.mark.parametrize(("name", "advice"), [("Recogniser", "'Recognizer'"), ("finetune", "'fine_tune'")])
def test_a_misspelt_name_is_corrected(name, advice):
    with pytest.raises(AttributeError, match=f"{name}.*did you mean {advice}"):
        getattr(espnet_diverse, name)


def test_a_name_unlike_all_gets_no_advice():
    with pytest.raises(AttributeError, match="'zzz'$"):
        _ = espnet_diverse.zzz
