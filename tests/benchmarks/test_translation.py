"""The benchmark of text translation at a tiny size: a complete table; times are not judged."""

import json
import re

import pytest
import torch


def test_the_table_is_complete(tiny_translation, capsys):
    run, root = tiny_translation, tiny_translation.train_dir.parent
    sizes = ["--batch_tokens", "60", "--tokens", "100", "--repeats", "2", "--threads", str(torch.get_num_threads())]
    folders = {"train_dir": run.train_dir, "tokens_dir": run.tokens_dir, "src_tokens_dir": root / "src_tokens"}
    paths = [word for name, path in folders.items() for word in (f"--{name}", str(path))]
    options = [
        "--config",
        str(root / "mt.yaml"),
        "--stats_dir",
        str(run.stats_dir),
        *paths,
        *sizes,
        "--memory",
        "--use_amp",
    ]
    import translation

    translation.main(options)
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert [row[0] for row in rows] == ["contestant", "espnet folded", "espnet numel", "ours", "ours, use_amp"]
    for _, batches, tokens, padding, speed, ratio, peak in rows[1:]:
        assert int(batches) > 0 and int(tokens) > 20 and 0 <= float(padding) < 100
        assert float(speed) > 0 and float(ratio) > 0 and int(peak) >= 0


def test_without_a_corpus_the_sentences_are_random(tiny_translation, tmp_path, capsys):
    import translation

    config, output = tiny_translation.train_dir.parent / "mt.yaml", tmp_path / "translation.json"
    size = ["--sentences", "200", "--characters", "30", "--batch_tokens", "200", "--tokens", "300", "--repeats", "1"]
    translation.main(["--config", str(config), *size, "--output", str(output), "--products"])
    shown = capsys.readouterr().out
    assert "| ours |" in shown
    shares = re.search(r"share of a round: espnet folded (\d+) %, espnet numel (\d+) %, ours (\d+) %\n", shown).groups()
    assert all(1 <= int(share) <= 99 for share in shares)
    (row,) = json.loads(output.read_text(encoding="utf-8"))["rows"]
    assert list(row["measured"]) == ["espnet numel", "espnet folded", "ours"]
    assert all(one["amount"] > 100 for one in row["measured"].values())


def test_options_that_do_not_go_together_are_refused(capsys, monkeypatch):
    import translation

    with pytest.raises(SystemExit, match="2"):
        translation.main(["--train_dir", "data/train"])
    assert "--train_dir, --tokens_dir and --stats_dir go together" in capsys.readouterr().err
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(SystemExit, match="2"):
        translation.main(["--products", "--device", "cuda"])
    assert "--products measures operations of a CPU; leave out --device" in capsys.readouterr().err
