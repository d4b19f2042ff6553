"""rescore: what it reads and writes; its results are tested in decoding."""

from pathlib import Path


def test_files_of_the_command(parse):
    module, args = parse("rescore", ["lm", "--decode_dir", "old", "--output_dir", "new", "--data_dir", "data"])
    model = [Path("lm/config.yaml"), Path("lm/valid.acc.ave.pth")]
    assert module.inputs(args) == [*model, Path("old/nbest.jsonl"), Path("data")]
    assert module.outputs(args) == [Path("new/text"), Path("new/score"), Path("new/nbest.jsonl")]
