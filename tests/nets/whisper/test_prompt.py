"""Prompts by the languages of speech and text."""

import pytest
import torch

from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.nets.whisper.prompt import Prompt, PromptOptions
from espnet_diverse.scope import scope

NAMES = ["de", "en", "zh"]
TASKS = {"transcribe": 21, "translate": 20}
OPTIONS = {"start": 10, "no_timestamps": 25, "languages": {"en": 11, "zh": 12, "de": 13}, **TASKS}


def build(**changed):
    conditions = {"lang": NAMES, "tgtlang": NAMES}
    return Prompt(PromptOptions(**OPTIONS | {"by": list(conditions), "conditions": conditions} | changed))


def prompts(prompt, batch, **ids):
    with scope({name: torch.tensor(values) for name, values in ids.items()}, collect=False):
        return prompt(batch).tolist()


def test_language_and_task():
    prompt = build()
    found = prompts(prompt, 3, lang=[0, 1, 2], tgtlang=[0, 1, 1])
    assert found == [[10, 13, 21, 25], [10, 11, 21, 25], [10, 12, 20, 25]] and len(prompt) == 4
    assert prompts(prompt, 2, lang=[2], tgtlang=[2]) == [[10, 12, 21, 25]] * 2


def test_a_model_of_english_alone():
    prompt = Prompt(PromptOptions(start=10, no_timestamps=25))
    assert prompts(prompt, 2) == [[10, 25]] * 2 and len(prompt) == 2


def test_errors():
    with pytest.raises(DataError, match="de into zh"):
        prompts(build(), 1, lang=[0], tgtlang=[2])
    with pytest.raises(DataError, match="lang"):
        prompts(build(), 1)
    with pytest.raises(ConfigError, match="'fr'"):
        build(conditions={"lang": ["fr"], "tgtlang": ["en"]})
    with pytest.raises(ConfigError, match="transcribe"):
        build(transcribe=None)
