import pytest

from espnet_diverse.errors import ConfigError
from espnet_diverse.training.text_batches import TokenBatches, build_batch_sampler

TARGET = {"a": 3, "b": 1, "c": 3, "d": 9, "e": 1, "f": 2}
SOURCE = {"a": 5, "b": 1, "c": 1, "d": 2, "e": 2, "f": 2}


@pytest.fixture
def shapes(tmp_path):
    for name, lengths in (("text", TARGET), ("src_text", SOURCE)):
        (tmp_path / name).write_text("".join(f"{key} {length},30\n" for key, length in lengths.items()))
    return [str(tmp_path / "text"), str(tmp_path / "src_text")]


def test_batches_hold_sentences_of_similar_length_up_to_a_number_of_tokens(shapes):
    batches = list(TokenBatches(shapes, 9))
    assert batches == [("b", "e", "f"), ("c",), ("a",), ("d",)]
    for batch in batches[:-1]:
        assert len(batch) * max(max(TARGET[name], SOURCE[name]) + 1 for name in batch) <= 9
    assert batches[-1] == ("d",)  # ten tokens: a sentence that is longer than a batch is one by itself


def test_a_batch_has_at_least_so_many_sentences(shapes):
    assert list(TokenBatches(shapes, 9, min_batch_size=2)) == [("b", "e", "f"), ("c", "a", "d")]


def test_the_last_batch_may_be_left_out(shapes):
    assert list(TokenBatches(shapes, 9, drop_last=True)) == [("b", "e", "f"), ("c",), ("a",)]
    assert list(TokenBatches(shapes, 100, drop_last=True)) == [("b", "e", "f", "c", "a", "d")]


def test_other_types_are_espnets(shapes):
    options = {"batch_size": 2, "batch_bins": 9, "fold_lengths": [9, 9], "drop_last": False, "min_batch_size": 1}
    order = {"sort_in_batch": "descending", "sort_batch": "descending"}
    assert len(list(build_batch_sampler("unsorted", shapes[:1], **options, **order))) == 3
    ours = build_batch_sampler("tokens", shapes, **options, **order)
    assert repr(ours) == "TokenBatches(N-batch=4, batch_bins=9)" and len(ours) == 4


def test_no_tokens_are_refused(shapes):
    with pytest.raises(ConfigError, match="batch_bins 0 is not allowed; give a number of tokens, for example 4096"):
        TokenBatches(shapes, 0)
