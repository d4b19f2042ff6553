"""rescore: what it reads and writes; its results are tested in decoding."""

from pathlib import Path

import pytest

from espnet_diverse.errors import ConfigError


def test_files_of_the_command(parse):
    module, args = parse("rescore", ["lm", "--decode_dir", "old", "--output_dir", "new", "--data_dir", "data"])
    model = [Path("lm/config.yaml"), Path("lm/valid.acc.ave.pth")]
    assert module.inputs(args) == [*model, Path("old/nbest.jsonl"), Path("data")]
    assert module.outputs(args) == [Path("new/text"), Path("new/score"), Path("new/nbest.jsonl")]


@pytest.mark.parametrize("weight", ["nan", "inf", "-inf"])
def test_a_weight_that_ranks_nothing_is_refused(parse, weight):
    module, args = parse("rescore", ["lm", "--decode_dir", "old", "--output_dir", "new", f"--weight={weight}"])
    with pytest.raises(ConfigError, match=f"^--weight {weight} cannot rank texts; give a number such as 0.3$"):
        module.run(args)
