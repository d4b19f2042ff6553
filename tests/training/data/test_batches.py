import tracemalloc
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from espnet2.iterators.sequence_iter_factory import SequenceIterFactory
from espnet2.samplers.build_batch_sampler import build_batch_sampler
from references.categories import CATEGORIES, IDS, OPTIONS, SHAPES, listed, sampler

from espnet_diverse.errors import ConfigError
from espnet_diverse.training.data.batches import row_batches


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
