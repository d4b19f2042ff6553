"""The full-corpus Aishell model has the number of parameters that the SDMA paper prints."""

from pathlib import Path

import pytest
import torch

CONF = Path(__file__).parents[2] / "egs/aishell/asr1/conf"
CHARACTERS = 4233


@pytest.mark.parametrize(
    ("fragments", "parameters", "printed"),
    [
        (["attention/softmax"], 16_157_714, "16.2"),  # ESPnet's transformer with the paper's 80 features
        (["attention/sma"], 16_207_250, "16.2"),
        (["attention/sdma"], 16_219_634, "16.2"),  # the constant variance that the paper's text describes
        (["attention/sdma", CONF / "learned_variance.yaml"], 16_262_810, "16.3"),  # what the paper prints
    ],
)
def test_parameters(fragments, parameters, printed):
    from espnet_diverse.runs.config import merge
    from espnet_diverse.runs.tasks import ASRTask

    config = merge(["model/transformer_6x6", *fragments, "update/adam_noam_25k", CONF / "train.yaml"])
    parser = ASRTask.get_parser()
    parser.set_defaults(**config)
    args = parser.parse_args([])
    args.token_list = [f"character{i}" for i in range(CHARACTERS)]
    with torch.device("meta"):  # without values, which take longer than all else
        model = ASRTask.build_model(args)
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count == parameters
    assert f"{count / 1e6:.1f}" == printed
