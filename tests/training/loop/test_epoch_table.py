"""The table of epochs on the console, and its warnings."""

import logging
import math

import pytest

from espnet_diverse.attention.cores.sdma import SDMA
from espnet_diverse.training.loop.epoch_table import EpochTable

STATS = {"loss": 60.0, "loss_task": 50.0, "acc": 0.25, "aux_kl_z": 1.0, "collapsed_z": 0.1, "optim0_lr0": 0.001}


def run_epoch(table, epoch, phases=("train", "valid"), **stats):
    table.set_epoch(epoch)
    for phase in phases:
        with table.observe(phase) as figures:
            for _ in range(2):
                figures.register(STATS | stats, weight=1)
                figures.next()


def test_each_epoch_warns_once_after_its_validation(caplog):
    table = EpochTable([SDMA])
    with caplog.at_level(logging.WARNING):
        for epoch, share in ((1, 0.75), (2, 0.0)):
            run_epoch(table, epoch, collapsed_z=share)
    warned = [record.message for record in caplog.records if "heads" in record.message]
    assert len(warned) == 1 and warned[0].startswith("epoch 1: in 75% of the heads all tokens")


def test_one_row_an_epoch_under_one_header(capsys):
    table = EpochTable([SDMA])
    for epoch in (1, 2):
        run_epoch(table, epoch, loss=10.0 * epoch)
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["epoch", "loss", "acc", "valid_loss", "valid_acc", "kl_z", "lr", "elapsed", "left"]
    cells = [row.split() for row in rows]
    assert [row[:7] for row in cells] == [
        [str(epoch), f"{10 * epoch}", "0.25", f"{10 * epoch}", "0.25", "1", "0.001"] for epoch in (1, 2)
    ]


def test_a_row_shows_the_number_of_epochs_and_the_time_left(capsys):
    table = EpochTable([SDMA], epochs=3)
    table._start -= 7200  # as if training had begun two hours ago
    for epoch in (2, 3):  # a run that is continued
        run_epoch(table, epoch)
    header, second, third = capsys.readouterr().out.splitlines()
    assert second.split()[0] == "2/3" and third.split()[0] == "3/3"
    assert second.endswith("2 h 00 min  2 h 00 min") and third.endswith("2 h 00 min         0 s")
    assert len(header) == len(second) == len(third)


@pytest.mark.parametrize(("width", "most"), [(80, 80), (100, 100), (400, 162)])
def test_a_row_fits_into_the_terminal(capsys, monkeypatch, width, most):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", str(width))
    run_epoch(EpochTable([SDMA]), 1, **{f"aux_loss_number_{n}": 1.0 for n in range(5)})
    *note, header, row = capsys.readouterr().out.splitlines()
    assert len(header) == len(row) <= most and "loss" in header.split() and "left" in header.split()
    assert ("loss_number_0" in header, bool(note)) == (width == 400, width < 400)
    assert not note or note[0].endswith("statistics do not fit into a line; train.log has all")


def test_the_memory_of_a_gpu_is_a_column(capsys):
    table = EpochTable([SDMA])
    table.set_epoch(1)
    for phase in ("train", "valid"):
        table.stats.setdefault(1, {})[phase] = STATS | {"gpu_max_cached_mem_GB": 3.5}
    table._print_row()
    header, row = (line.split() for line in capsys.readouterr().out.splitlines())
    assert row[header.index("gpu_GB")] == "3.5"


def test_nothing_is_printed_before_the_validation(capsys):
    run_epoch(EpochTable([SDMA]), 1, phases=["train"])
    assert capsys.readouterr().out == ""


def test_the_number_of_the_epoch_ranks_it():
    table = EpochTable([SDMA])
    for epoch in (1, 2, 3):
        run_epoch(table, epoch)
    assert table.sort_epochs("valid", "epoch", "max") == [3, 2, 1]
    assert table.get_value("valid", "epoch", 2) == 2


def test_a_statistic_that_a_later_epoch_lacks_is_not_a_number(capsys):
    table = EpochTable([SDMA])
    run_epoch(table, 1, aux_mi=4.0)
    run_epoch(table, 2)
    header, first, second = (line.split() for line in capsys.readouterr().out.splitlines())
    place = header.index("mi")
    assert (float(first[place]), second[place]) == (pytest.approx(4.0), "nan")


def test_gradient_norms_are_below_the_row(capsys):
    run_epoch(EpochTable([SDMA]), 1, gradient_kl_z=0.0123, gradient_head_mi=2.0)
    *_, last = capsys.readouterr().out.splitlines()
    assert last.strip() == "gradient norms relative to the task's: kl_z 0.012, head_mi 2"


def test_statistics_without_a_measurement_are_not_logged():
    """With `log_interval` 2: statistics that every fourth step has, and one that is no number."""

    class Writer(dict):
        def add_scalar(self, name, value, step):
            self[name, step] = value

    table, lines, writer = EpochTable([SDMA]), [], Writer()
    table.set_epoch(1)
    with table.observe("train") as figures:
        for step in range(1, 7):
            rare = {"collapsed_z": 0.5} if step % 4 == 1 else {}
            figures.register({"loss": math.nan if step == 4 else 3.0, "acc": None} | rare, weight=2)
            figures.next()
            if step % 2 == 0:
                lines.append(figures.log_message(-2))
                figures.tensorboard_add_scalar(writer, -2)
    assert [["collapsed_z=0.500" in line, "collapsed_z" in line] for line in lines] == [
        [True] * 2,
        [False] * 2,
        [True] * 2,
    ]
    assert all(" loss=3.000, acc=nan" in line for line in lines)
    assert [step for name, step in writer if name == "collapsed_z"] == [2, 6] and ("loss", 4) in writer
    assert table.stats[1]["train"]["collapsed_z"] == 0.5  # the mean of the epoch
