"""A recipe whose source is read by a pretrained encoder."""


def test_a_pretrained_encoder_brings_its_vocabulary(recipe, tmp_path):
    (tmp_path / "my bert").mkdir()
    options = ["--task", "mt", "--src_token_type", "bert", "--src_vocab_size", "99", "--bert", "my bert", "--tag", "x"]
    lines = recipe(*options, cwd=tmp_path).stdout.splitlines()
    (source,) = [line for line in lines if "--type bert" in line]
    assert f"--bert '{tmp_path / 'my bert'}'" in source and "--vocab_size" not in source
    for command in ("stats", "train"):
        (line,) = [line for line in lines if line.startswith(f"{command}\tespnet-diverse {command} ")]
        assert (
            f"--set 'frontend_conf.bert={tmp_path / 'my bert'}'" in line and "--src_tokens_dir data/src_tokens" in line
        )


def test_a_name_on_the_hub_stays_as_it_is(recipe):
    lines = recipe("--task", "mt", "--src_token_type", "bert", "--bert", "some/bert", "--stage", "tokens").stdout
    assert "--type bert --bert some/bert" in lines
