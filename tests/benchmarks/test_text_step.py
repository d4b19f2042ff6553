"""The benchmark of training steps of text at a tiny size."""


def test_the_table_is_complete(tiny_step, tmp_path, capsys):
    import text_step

    size = "encoder_conf: {output_size: 16, attention_heads: 2, linear_units: 16, num_blocks: 1}"
    size += "\ndecoder_conf: {attention_heads: 2, linear_units: 16, num_blocks: 1}"
    size += "\nfrontend: embed\nfrontend_conf: {embed_dim: 16}\nencoder: diverse_transformer"
    size += "\ndecoder: diverse_transformer\nmodel: diverse\n"
    model = tmp_path / "tiny.yaml"
    model.write_text(size, encoding="utf-8")
    text_step.main(["--model", str(model), "--sentences", "3", "--time", "6", "--vocabulary", "12", "--repeats", "2"])
    printed = capsys.readouterr().out
    assert "ratios of medians of 2 rounds" in printed
    head, _, row = (line.strip("| ").split(" | ") for line in printed.splitlines()[-3:])
    assert head == ["model: B, T", "softmax ms", "sma", "sdma"]
    assert row[0] == f"{model}: 3, 6" and all(float(cell) > 0 for cell in row[1:])


def test_sentences_are_padded_after_their_last_token(tiny_step):
    import text_step

    batch = text_step.batch_of(4, 20, 50)
    for side in ("text", "src_text"):
        tokens = batch[side] >= 0
        assert tokens.sum(1).tolist() == batch[f"{side}_lengths"].tolist() == [20, 19, 18, 17]
