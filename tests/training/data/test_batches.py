import hashlib
import json
import tracemalloc
from argparse import Namespace
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from espnet2.iterators.sequence_iter_factory import SequenceIterFactory
from espnet2.samplers.build_batch_sampler import build_batch_sampler

from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.runs.config import merge
from espnet_diverse.training.data.batch_types import BatchOptions, Shapes
from espnet_diverse.training.data.batches import BalancedSampler, Sampling, probabilities, read_sampling, row_batches

SIZES = {"ar": 4, "de": 16, "ru": 64}
CATEGORIES = {f"{name}{number:02d}": name for name, count in SIZES.items() for number in range(count)}
IDS = list(CATEGORIES)
SHAPES = [
    {utterance: str(1000 + 10 * number) for number, utterance in enumerate(CATEGORIES)},
    dict.fromkeys(CATEGORIES, "5,10"),
]
OPTIONS = {
    **{"type": "numel", "batch_size": 8, "batch_bins": 10000, "fold_lengths": [1500, 100], "min_batch_size": 1},
    **{"sort_in_batch": "descending", "sort_batch": "ascending"},
}
KINDS = ("unsorted", "sorted", "numel", "length", "folded")
EPOCHS = 60
DIGEST = "ba95e5678451204d"  # of the batches that a seed gives


def sampler(temperature, batches="mixed", shard=(0, 1), **options):
    sampling, shapes = Sampling("lang", temperature, batches), [Shapes.parsed(each.values()) for each in SHAPES]
    return BalancedSampler(IDS, CATEGORIES, sampling, shapes, BatchOptions(**OPTIONS | options), shard)


def names(batch):
    return [IDS[row] for row in batch]


def listed(batches):
    return [names(batch) for batch in batches]


def heard(balanced):
    """Share of each category among the utterances of many epochs."""
    counts = Counter(
        CATEGORIES[IDS[row]] for seed in range(EPOCHS) for batch in balanced.generate(seed) for row in batch
    )
    return {name: counts[name] / counts.total() for name in SIZES}


def test_probabilities_by_hand():
    assert probabilities(SIZES, 1) == {"ar": 4 / 84, "de": 16 / 84, "ru": 64 / 84}
    assert probabilities(SIZES, 2) == {"ar": 2 / 14, "de": 4 / 14, "ru": 8 / 14}
    assert probabilities(SIZES, float("inf")) == {"ar": 1 / 3, "de": 1 / 3, "ru": 1 / 3}


@pytest.mark.parametrize("temperature", [1, 2, float("inf")])
@pytest.mark.parametrize("batches", ["mixed", "single"])
@pytest.mark.parametrize("kind", KINDS)
def test_categories_are_heard_as_often_as_they_should(temperature, batches, kind):
    shares, expected = heard(sampler(temperature, batches, type=kind)), probabilities(SIZES, temperature)
    for name, share in expected.items():
        sigma = np.sqrt(share * (1 - share) / (84 * EPOCHS))
        # batches beyond the length of the epoch are left out whole, hence the floor
        assert abs(shares[name] - share) < 5 * sigma + 0.02, name


def test_epochs_are_as_long_as_without_sampling_and_the_same_in_every_run():
    plain = len(sampler(1)._cut(np.arange(len(IDS))))
    for temperature, batches in ((1, "mixed"), (5, "mixed"), (float("inf"), "single")):
        balanced = sampler(temperature, batches)
        first = listed(balanced.generate(7))
        assert len(balanced) == plain and {len(balanced.generate(seed)) for seed in range(9)} == {plain}
        assert first == listed(sampler(temperature, batches).generate(7)) != listed(balanced.generate(8))
        assert listed(balanced) == listed(balanced.generate(0))


def test_batches_keep_to_the_budget_and_single_ones_to_a_language():
    for batch in sampler(5, "single").generate(0):
        assert len({CATEGORIES[utterance] for utterance in names(batch)}) == 1
    mixed = listed(sampler(5).generate(0))
    assert any(len({CATEGORIES[utterance] for utterance in batch}) > 1 for batch in mixed)
    for batch in mixed:
        longest = max(int(SHAPES[0][utterance]) for utterance in batch[1:])
        assert (len(batch) - 1) * (longest + 50) <= OPTIONS["batch_bins"]  # ESPnet closes a batch when it is full


@pytest.mark.parametrize("kind", KINDS)
def test_mixed_batches_mix_categories_whose_utterances_are_equally_long(kind):
    balanced = sampler(float("inf"), type=kind, batch_bins=1800)
    balanced.shapes = [Shapes.parsed(["100"] * len(IDS)), Shapes.parsed(["5,10"] * len(IDS))]
    balanced.count = len(balanced._cut(np.arange(len(IDS))))
    mixes = [len({CATEGORIES[name] for name in names(batch)}) for batch in balanced.generate(0) if len(batch) > 4]
    assert len(mixes) > 4 and mixes.count(1) < len(mixes) / 4


def test_every_utterance_is_drawn_before_one_is_drawn_again():
    drawn = sampler(float("inf"))._draw(np.random.default_rng(0))
    for name, utterances in drawn.items():
        counts = Counter(names(utterances))
        whole, _ = divmod(len(utterances), SIZES[name])
        assert {counts[utterance] for utterance in CATEGORIES if utterance.startswith(name)} <= {whole, whole + 1}
    assert sum(map(len, drawn.values())) == len(CATEGORIES)


def test_processes_share_batches():
    whole = listed(sampler(5, min_batch_size=2).generate(3))
    shards = [listed(sampler(5, shard=(rank, 2), min_batch_size=2).generate(3)) for rank in range(2)]
    for rank, shard in enumerate(shards):
        assert shard == [batch[rank::2] for batch in whole]
        assert all(shard)


@pytest.mark.parametrize("batches", ["mixed", "single"])
def test_batches_that_are_too_small_for_all_processes_are_refused(batches):
    said = "^a batch has 1 utterances, and 2 processes take shares of it; give larger batches, or fewer processes$"
    with pytest.raises(ConfigError, match=said):
        sampler(5, batches, shard=(0, 2), type="unsorted", batch_size=1, min_batch_size=2).generate(3)


def test_the_section_of_the_configuration():
    assert read_sampling(None) is None
    assert read_sampling(merge(["sampling/temperature_5"])["sampling"]) == Sampling("lang", 5, "mixed")
    assert read_sampling({"by": "lang", "temperature": 5}) == Sampling(["lang"], 5, "mixed")


@pytest.mark.parametrize(
    ("section", "said"),
    [
        (5, "sampling must be a mapping of options, such as {by: ...}, but is 5"),
        ({"temperature": 5}, "sampling needs by"),
        ({"by": "lang", "temp": 5}, "unknown option 'temp' of sampling"),
        ({"by": "lang", "tasks": 5}, "unknown option 'tasks' of sampling"),
        ({"by": "language"}, "by must be one or a list of lang tgtlang domain, but is 'language'"),
        ({"by": "lang", "temperature": 0.5}, "temperature must be at least 1, but is 0.5"),
        ({"by": "lang", "temperature": "5"}, "temperature must be a number, but is '5'"),
        ({"by": "lang", "batches": "one"}, "batches must be one of mixed single, but is 'one'"),
    ],
)
def test_options_that_are_not_allowed(section, said):
    with pytest.raises(ConfigError, match=said):
        read_sampling(section)


def test_directions_are_categories_too(tmp_path):
    (tmp_path / "utt2lang").write_text("a es\nb es\n")
    (tmp_path / "utt2tgtlang").write_text("a en\nb fr\n")
    categories = Sampling(["lang", "tgtlang"]).categories(tmp_path)
    assert dict(categories) == {"a": "es-en", "b": "es-fr"} and len(categories) == 2
    with pytest.raises(DataError, match="utt2domain: no such table; add it, or change `by`"):
        Sampling("domain").categories(tmp_path)


def test_sampled_batches_match_earlier_versions():
    batches = {
        f"{kind} {mode} {temperature}": listed(sampler(temperature, mode, type=kind).generate(7))
        for kind in KINDS
        for mode in ("mixed", "single")
        for temperature in (1, 5)
    }
    digest = hashlib.sha256(json.dumps(batches).encode()).hexdigest()
    assert digest[:16] == DIGEST


@pytest.fixture
def written(tmp_path):
    """Arguments of ESPnet's training command and options of its iterators, for a data directory with text alone."""
    (tmp_path / "utt2lang").write_text("".join(f"{utterance} {name}\n" for utterance, name in CATEGORIES.items()))
    (tmp_path / "text").write_text("".join(f"{utterance} {name}\n" for utterance, name in CATEGORIES.items()))
    files = [tmp_path / "speech_shape", tmp_path / "text_shape"]
    for file, shapes in zip(files, SHAPES, strict=True):
        file.write_text("".join(f"{utterance} {shape}\n" for utterance, shape in shapes.items()))
    args = Namespace(sampling=None, fold_length=[1, 1], seed=3, num_workers=0, ngpu=0, shuffle_within_batch=False)
    args.sort_in_batch, args.sort_batch, args.drop_last_iter, args.min_batch_size = "descending", "descending", False, 1
    args.train_dtype, args.allow_variable_data_keys = "float32", False
    options = SimpleNamespace(distributed=False, batch_type="numel", batch_size=8, batch_bins=10000, train=True)
    options.data_path_and_name_and_type = [(str(tmp_path / "text"), "text", "text")]
    options.preprocess_fn, options.max_cache_size, options.max_cache_fd, options.allow_multi_rates = None, 0.0, 0, False
    options.num_iters_per_epoch, options.collate_fn, options.num_batches = None, None, None
    options.shape_files = list(map(str, files))
    return args, options


def test_sampled_batches_come_from_the_data_directory(written):
    args, options = written
    args.sampling = {"by": "lang", "temperature": 5}
    factory = row_batches(args, options, "train", lambda *given, **named: None)
    assert list(factory.dataset.ids) == IDS
    expected = listed(sampler(5, sort_batch="descending").generate(5))
    assert listed(factory.build_iter(epoch=2).batch_sampler.batches) == expected


def test_batches_are_shuffled_as_espnet_shuffles_them(written):
    args, options = written
    checked = []
    factory = row_batches(args, options, "train", lambda dataset, *given, **named: checked.append((dataset, named)))
    assert checked == [(factory.dataset, {"train": True})]
    limits = {name: OPTIONS[name] for name in ("type", "batch_size", "batch_bins", "fold_lengths", "min_batch_size")}
    espnets = list(build_batch_sampler(shape_files=options.shape_files, sort_batch="descending", **limits))
    theirs = SequenceIterFactory(dataset=None, batches=espnets, seed=3, shuffle=True)
    ours = listed(factory.build_iter(epoch=2).batch_sampler.batches)
    assert ours == [list(batch) for batch in theirs.build_iter(epoch=2).batch_sampler]
    assert ours != listed(factory.build_iter(epoch=3).batch_sampler.batches)


def test_processes_share_batches_that_are_large_enough(written, monkeypatch):
    args, options = written
    whole = listed(row_batches(args, options, "valid", lambda *given, **named: None).sampler)
    options.distributed = True
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    shared = listed(row_batches(args, options, "valid", lambda *given, **named: None).sampler)
    assert shared == [batch[1::2] for batch in whole]
    args.min_batch_size = 6
    shared = listed(row_batches(args, options, "valid", lambda *given, **named: None).sampler)
    assert shared != [batch[1::2] for batch in whole] and min(map(len, shared)) == 3
    options.batch_type, options.batch_size = "unsorted", 1
    with pytest.raises(ConfigError, match="a batch has 1 utterances, and 2 processes take shares of it; give larger"):
        row_batches(args, options, "valid", lambda *given, **named: None)


def test_an_epoch_may_have_a_number_of_batches(written):
    args, options = written
    options.num_iters_per_epoch = 3
    for section in (None, {"by": "lang", "temperature": 5}):
        args.sampling = section
        factory = row_batches(args, options, "train", lambda *given, **named: None)
        assert [len(factory.build_iter(epoch).batch_sampler) for epoch in (1, 2)] == [3, 3]


def test_attention_plots_take_the_first_batches(written):
    args, options = written
    options.num_batches = 2
    assert len(row_batches(args, options, "plot_att", lambda *given, **named: None).sampler) == 2


def test_an_utterance_takes_a_few_bytes_of_memory(written):
    args, options = written
    options.batch_type, rows = "numel", 5_000
    folder = Path(options.shape_files[0]).parent
    for file, value in ((folder / "text", "words of this sentence"), (folder / "shape", "37,80")):
        file.write_text("".join(f"speaker-{n // 9:07d}-{n:09d} {value}\n" for n in range(rows)))
    options.shape_files = [str(folder / "shape")]
    row_batches(args, options, "valid", lambda *given, **named: None)  # what is kept from the first call on
    tracemalloc.start()
    try:
        factory = row_batches(args, options, "train", lambda *given, **named: None)
        batches = factory.build_iter(epoch=1).batch_sampler.batches
        taken = tracemalloc.get_traced_memory()[1] / rows
    finally:
        tracemalloc.stop()
    assert sum(map(len, batches)) == rows and factory.dataset.ids.key(rows - 1).endswith("-000004999")
    assert taken < 150  # an id alone is a string of 70 bytes, and ESPnet keeps it in each table
