"""Faults that are found in a configuration before there is any data."""

import pytest

from espnet_diverse.errors import ConfigError
from espnet_diverse.runs.config import merge
from espnet_diverse.training.config.early_check import check_early


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("max_epochs=3", "^--set max_epochs=3: unknown option 'max_epochs'; did you mean 'max_epoch'"),
        ("encoder_conf.attention.core=sdmaa", "unknown attention 'sdmaa'; did you mean 'sdma'"),
        ("optim=adamm", "unknown optim 'adamm'; known: adadelta "),
        ("output_dir=exp", "key 'output_dir' is filled in by the command line; remove it"),
        ("use_deepspeed=true", "key 'use_deepspeed' is not supported; training shares batches alone"),
        (
            "iterator_type=task",
            "^--set iterator_type=task: iterator_type task is not supported; give sequence or chunk",
        ),
        ("repulsion.method=svdg", "^--set repulsion.method=svdg: repulsion.*: method must be .* 'svdg'"),
        ("encoder_conf.attention.selection={strategy: groups}", "strategy must be .* but is 'groups'"),
    ],
)
def test_a_mistake_is_found_without_data(change, said):
    with pytest.raises(ConfigError, match=said):
        check_early(["model/tiny", "attention/sdma"], [change], "asr")


@pytest.mark.parametrize(
    ("fragments", "task"),
    [
        (["model/tiny", "attention/softmax", "heads/group", "tag/target_language"], "st"),
        (["model/tiny", "attention/softmax", "heads/static"], "asr"),
        (["model/lm_tiny"], "lm"),
        (["model/mt_tiny", "attention/sdma", "losses/sdma_text"], "mt"),
    ],
)
def test_names_that_only_the_data_have_are_not_required(fragments, task):
    check_early(fragments, [], task)


def test_the_configuration_is_read_as_training_reads_it(tmp_path):
    (tmp_path / "mine.yaml").write_text("max_epochs: 3\n")
    assert merge(["model/tiny", tmp_path / "mine.yaml"])["max_epochs"] == 3
    with pytest.raises(ConfigError, match="mine.yaml:1: unknown option 'max_epochs'"):
        check_early(["model/tiny", str(tmp_path / "mine.yaml")], [], "asr")
