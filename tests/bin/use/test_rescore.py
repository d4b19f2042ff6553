"""rescore: what it reads and writes; its results are tested in decoding."""

from pathlib import Path

import pytest

from espnet_diverse.bin.main import main


def test_files_of_the_command(parse):
    module, args = parse("rescore", ["lm", "--decode_dir", "old", "--output_dir", "new", "--data_dir", "data"])
    model = [Path("lm/config.yaml"), Path("lm/valid.acc.ave.pth")]
    assert module.inputs(args) == [*model, Path("old/nbest.jsonl"), Path("data")]
    assert module.outputs(args) == [Path("new/text"), Path("new/score"), Path("new/nbest.jsonl")]


@pytest.mark.usefixtures("unchecked_paths")
@pytest.mark.parametrize(("weight", "is_no"), [("nan", "number"), ("inf", "finite number"), ("-inf", "finite number")])
def test_a_weight_that_is_no_number_is_refused(weight, is_no, tmp_path, capsys):
    paths = ["--decode_dir", str(tmp_path / "old"), "--output_dir", str(tmp_path / "new")]
    assert main(["rescore", str(tmp_path), *paths, f"--weight={weight}"]) == 1
    said = f"espnet-diverse rescore: error: --weight must be a {is_no}, but is {weight}\n"
    assert capsys.readouterr().err == said
    assert list(tmp_path.iterdir()) == []
