"""The batches of an epoch: in groups, from any position, and the same for any number of workers and processes."""

import numpy as np
import pytest
import torch

from espnet_diverse.training.checkpoints.position import Position
from espnet_diverse.training.data.row_dataset import RowBatches, RowIterFactory
from espnet_diverse.training.loop.epoch_batches import Batch, EpochBatches, named


def batches(number=5, size=4):
    return [([f"u{i}{j}" for j in range(size)], {"x": torch.full((size, 2), i), "x_lengths": torch.arange(size)})
            for i in range(number)]  # fmt: skip


class Rows(torch.utils.data.Dataset):
    """Rows of a table with noise, and the batches of which they were read."""

    def __init__(self):
        self.read = []

    def __getitem__(self, row):
        self.read.append(row)
        return f"u{row}", {"x": np.random.rand(), "y": float(torch.rand(()))}

    def __getitems__(self, batch):
        return [batch.seeded(position, self) for position in range(len(batch.rows))]


def collate(items):
    return [name for name, _ in items], {key: torch.tensor([each[key] for _, each in items]) for key in "xy"}


def loader(epoch=1, workers=0, shard=(0, 1), size=3, dataset=None):
    """The loader of an epoch of 7 batches."""
    rows = np.random.RandomState(0).permutation(7 * size).reshape(7, size)
    factory = RowIterFactory(
        dataset=dataset or Rows(),
        batches=RowBatches([batch[shard[0] :: shard[1]] for batch in rows], "rows"),
        shuffle=True,
        num_workers=workers,
        collate_fn=collate,
        shard=shard,
    )
    return factory.build_iter(epoch)


def read(loader, position=None, size=1):
    with EpochBatches(loader, "train epoch 1 of 1", position=position) as epoch:
        return [batch for group in epoch.groups(size) for batch in group]


def test_groups_are_of_one_update_each(capfd):
    with EpochBatches(batches(), "train") as epoch:
        groups = [(epoch.done, [batch.utterances[0] for batch in group]) for group in epoch.groups(2)]
    assert groups == [(0, ["u00", "u10"]), (2, ["u20", "u30"]), (4, ["u40"])] and epoch.done == epoch.total == 5
    assert "train: 5/5 steps" in capfd.readouterr().err


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_an_epoch_continues_after_skipped_batches(workers):
    whole, dataset = read(loader()), Rows()
    digest = EpochBatches(loader(), "").digest
    rest = read(loader(workers=workers, dataset=dataset), Position(1, 4, digest, 1, {}))
    assert [batch.utterances for batch in rest] == [batch.utterances for batch in whole[4:]]
    assert [batch.number for batch in rest] == [4, 5, 6]
    for one, other in zip(rest, whole[4:], strict=True):
        assert all(torch.equal(one.tensors[key], other.tensors[key]) for key in "xy")
    assert workers or len(dataset.read) == 9


def test_rows_have_the_same_noise_however_many_processes_share_them():
    whole = {name: x for batch in read(loader()) for name, x in zip(batch.utterances, batch.tensors["x"], strict=True)}
    for rank in (0, 1):
        for batch in read(loader(shard=(rank, 2))):
            for name, x in zip(batch.utterances, batch.tensors["x"], strict=True):
                assert x == whole[name]
    values = torch.stack(list(whole.values()))
    assert len(values.unique()) == len(values)
    assert not set(values.tolist()) & {float(x) for batch in read(loader(epoch=2)) for x in batch.tensors["x"]}


def test_the_digest_matches_the_batches_and_their_order():
    def digest(**options):
        return EpochBatches(loader(**options), "").digest

    assert digest() == digest(workers=1) == digest(shard=(0, 2)) + digest(shard=(1, 2)) > 2**32
    assert len({digest(), digest(epoch=2), digest(size=2)}) == 3


def test_other_batches_begin_again(caplog):
    with EpochBatches(loader(), "train epoch 1 of 1", position=Position(1, 4, 12345, 1, {})) as epoch:
        assert sum(map(len, epoch.groups(1))) == 7 and epoch.position is None
    assert "its batches have changed; all of the epoch is trained again" in caplog.text


def test_batches_of_any_loader_are_read_and_left_out():
    assert [batch.utterances[0] for batch in read(batches(), Position(1, 3, 0, 1, {}))] == ["u30", "u40"]


def test_a_batch_is_described_by_its_utterances_and_lengths():
    assert read(batches())[0].described() == "utterances u00 u01 u02 u03, of lengths x 0 1 2 3"
    assert Batch(["a"], {}, 0, 0.0).described() == "utterances a, of lengths "


def test_data_errors_are_reraised_unchanged():
    def broken():
        yield from batches(1)
        raise RuntimeError("the data are broken")

    with pytest.raises(RuntimeError, match="the data are broken"):
        read(broken())


def test_long_lists_of_utterances_are_abridged():
    assert named(["a", "b"]) == "utterances a b" and named(list("abcde")) == "utterances a b c d e"
    assert named(list("abcdefg")) == "utterances a b c d e and 2 more"
