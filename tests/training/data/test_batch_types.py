import numpy as np
import pytest
from espnet2.samplers.build_batch_sampler import build_batch_sampler

from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.training.data.batch_types import BatchOptions, Shapes, make_batches, read_shapes

TARGET = {"a": 3, "b": 1, "c": 3, "d": 9, "e": 1, "f": 2}
SOURCE = {"a": 5, "b": 1, "c": 1, "d": 2, "e": 2, "f": 2}


def write(folder, **kinds):
    for name, lengths in kinds.items():
        (folder / name).write_text("".join(f"{key} {length}\n" for key, length in lengths.items()))
    return [str(folder / name) for name in kinds]


@pytest.fixture
def shapes(tmp_path):
    sides = {"text": TARGET, "src_text": SOURCE}
    return write(tmp_path, **{name: {k: f"{n},30" for k, n in side.items()} for name, side in sides.items()})


def named(files, **options):
    ids, shapes = read_shapes(files)
    return [tuple(ids.key(row) for row in batch) for batch in make_batches(shapes, BatchOptions(**options))]


def test_batches_hold_sentences_of_similar_length_up_to_a_number_of_tokens(shapes):
    batches = named(shapes, type="tokens", batch_bins=9)
    assert batches == [("b", "e", "f"), ("c",), ("a",), ("d",)]
    for batch in batches[:-1]:
        assert len(batch) * max(max(TARGET[name], SOURCE[name]) + 1 for name in batch) <= 9
    assert batches[-1] == ("d",)  # ten tokens: a sentence that is longer than a batch is one by itself


def test_a_batch_has_at_least_so_many_sentences(shapes):
    assert named(shapes, type="tokens", batch_bins=9, min_batch_size=2) == [("b", "e", "f"), ("c", "a", "d")]


def test_the_last_batch_may_be_left_out(shapes):
    assert named(shapes, type="tokens", batch_bins=9, drop_last=True) == [("b", "e", "f"), ("c",), ("a",)]
    assert named(shapes, type="tokens", batch_bins=100, drop_last=True) == [("b", "e", "f", "c", "a", "d")]


@pytest.mark.parametrize("kind", ["unsorted", "sorted", "folded", "length", "numel"])
@pytest.mark.parametrize("count", [1, 7, 31, 200])
def test_espnets_types_give_espnets_batches(kind, count, tmp_path):
    random = np.random.default_rng(count)
    names = [f"u{number:03d}" for number in range(count)]
    speech = {name: f"{random.integers(1, 40)},80" for name in names}
    files = write(tmp_path, speech=speech, text={name: f"{random.integers(1, 9)}" for name in names})
    compared = 0
    for least in (1, 3):
        for drop_last in (False, True):
            for inside in ("ascending", "descending"):
                for outside in ("ascending", "descending"):
                    options = {"batch_size": 6, "batch_bins": 9000 if kind == "numel" else 90, "drop_last": drop_last}
                    options |= {"min_batch_size": least, "sort_in_batch": inside, "sort_batch": outside}
                    try:
                        theirs = build_batch_sampler(kind, shape_files=files, fold_lengths=[9, 4], **options)
                    except IndexError:  # ESPnet's folded batches: fewer batches than utterances to spread
                        continue
                    assert named(files, type=kind, fold_lengths=[9, 4], **options) == [tuple(x) for x in theirs]
                    compared += 1
    assert compared >= 8


def test_utterances_of_a_small_last_batch_are_spread_where_espnet_fails(tmp_path):
    files = write(tmp_path, text=dict.fromkeys("abcdefgh", "1"))
    batches = named(files, type="folded", batch_size=6, fold_lengths=[9], min_batch_size=3)
    assert sorted(name for batch in batches for name in batch) == list("abcdefgh")


def test_shape_files_that_do_not_belong_together_are_refused(tmp_path):
    files = write(tmp_path, text={"a": "1", "b": "2"}, src_text={"a": "1", "c": "2"})
    with pytest.raises(DataError, match="src_text: has other utterances than .*text; run espnet-diverse stats again"):
        read_shapes(files)


def test_widths_must_agree_where_they_count(tmp_path):
    files = write(tmp_path, speech={"a": "5,80", "b": "6,83"})
    assert read_shapes(files)[1][0].width is None and named(files, type="length", batch_bins=100)
    with pytest.raises(DataError, match="batch_type numel needs data of one width, and widths differ"):
        named(files, type="numel", batch_bins=100)


def test_a_shape_is_a_length_and_a_width():
    assert Shapes.parsed(["5,4,3", "7,4,3"]).width == 12 and Shapes.parsed(["5", "7"]).width == 1
    assert Shapes.parsed(["5", "7"]).lengths.tolist() == [5, 7]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"type": "big"}, "batch_type must be one of unsorted sorted folded length numel tokens, but is 'big'"),
        ({"type": "tokens", "batch_bins": 0}, "batch_bins must be at least 1, but is 0"),
        ({"type": "numel", "batch_bins": 0}, "batch_bins must be at least 1, but is 0"),
        ({"type": "sorted", "batch_size": 0}, "batch_size must be at least 1, but is 0"),
        ({"type": "sorted", "sort_batch": "up"}, "sort_batch must be one of descending ascending, but is 'up'"),
        ({"type": "folded"}, "fold_length has 0 values for 2 kinds of data; give one for each"),
    ],
)
def test_options_that_are_not_allowed(options, said, shapes):
    with pytest.raises(ConfigError, match=said):
        named(shapes, **options)
