"""A plan: its table has a row for each attention, and its numbers are of the corpus that the data are a sample of."""

from dataclasses import replace

import pytest

from espnet_diverse.errors import ConfigError
from espnet_diverse.training.planning.table import HEADER


def cells(table):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"]


@pytest.mark.parametrize("gpu", ["4090", "cpu"])
def test_the_table_has_a_row_for_each_attention(planned, capsys, gpu):
    hours = 2.0
    table = replace(planned, gpu=gpu, attentions=["sdma", "attention/softmax,modifiers/rotary"], hours=hours).table()
    head, _, *rows = cells(table)
    assert tuple(head) == HEADER and [row[0] for row in rows] == ["sdma", "attention/softmax,modifiers/rotary"]
    assert table.startswith("2.0 h of audio, ") and "audio of 16 bits takes 0.2 GB" in table
    assert all(float(row[2]) > 0 and float(row[3]) > 0 for row in rows)
    assert "batch_type" in capsys.readouterr().out  # of the statistics


def test_a_larger_vocabulary_makes_a_larger_model(planned, trial):
    (_, larger), *_ = replace(planned, vocabulary=1000).trials()
    assert larger.model.vocab_size == 1000 > trial.model.vocab_size
    assert larger.args.token_list[-1] == "<sos/eos>" and larger.args.token_list[2] == trial.model.token_list[2]
    with pytest.raises(ConfigError, match="--vocabulary 3: the data have .* tokens already; give as many or more"):
        next(replace(planned, vocabulary=3).trials())


def test_text_has_no_hours_of_audio(planned, tiny_translation):
    sets = {"train_dir": tiny_translation.train_dir, "valid_dir": tiny_translation.valid_dir}
    shared = {**sets, "task": "mt", "set": ["batch_type=tokens", "batch_bins=50"]}
    text = replace(planned, shared=shared, fragments=["model/mt_tiny"], attentions=["softmax"])
    about, *_ = text.table().splitlines()
    assert about == "8 batches an epoch, 40 epochs"
    with pytest.raises(ConfigError, match="^--hours 3: needs a task of audio; leave it out$"):
        replace(text, hours=3).table()


def test_this_cpu_is_one_device(planned):
    with pytest.raises(ConfigError, match="^--gpus 2: is for GPUs, and --gpu is cpu; leave it out$"):
        replace(planned, gpu="cpu", gpus=2).table()
