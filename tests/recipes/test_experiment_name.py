"""The name of an experiment holds the settings that distinguish it from others."""

import pytest


@pytest.mark.parametrize(
    ("options", "tag"),
    [
        (["--corpus_dir", "/data/aishell 1"], "aishell 1_small"),
        (["--corpus_dir", "/data/aishell", "--data_dir", "data/sample"], "sample_small"),
        (["--data_dir", "data/sample/"], "sample_small"),
        (["--corpus", "synthetic"], "synthetic_small"),
        (["--seed", "2"], "small_seed2"),
        ([], "small"),
    ],
)
def test_the_name_joins_data_config_and_seed(recipe, options, tag):
    result = recipe(*options, "--config", "model/small")
    assert f"experiment exp/{tag}, data " in result.stderr
