"""The batches of an epoch: from any place, and again after an update that was interrupted."""

import pytest
import torch

from espnet_diverse.training.epoch_steps import Steps, named
from espnet_diverse.training.run_state import Position, generator_states


def batches(number=5, size=4):
    return [([f"u{i}{j}" for j in range(size)], {"x": torch.full((size, 2), i), "x_lengths": torch.arange(size)})
            for i in range(number)]  # fmt: skip


def steps_of(iterator, position=None, go_on=lambda position: None):
    return Steps(iterator, "train epoch 1 of 1", lambda: None, position, go_on=go_on)


def place(steps):
    return Position(1, steps.done, steps.names.value, True, {}, [generator_states()])


def test_steps_are_counted_when_they_are_done(capfd):
    seen = []
    steps = Steps(batches(), "train", lambda: seen.append((steps.done, steps.last[0])))
    assert [utterances[0] for utterances, _ in steps] == ["u00", "u10", "u20", "u30", "u40"]
    assert seen == [(1, "u00"), (2, "u10"), (3, "u20"), (4, "u30"), (5, "u40")]
    assert steps.total == len(steps) == 5 and "train: 5/5 steps" in capfd.readouterr().err


def test_the_batches_of_an_interrupted_update_come_again_and_are_counted_once():
    """ESPnet's loop counts its batches from 1 whenever it begins, and makes an update by that number."""
    seen = []
    steps = Steps(batches(), "train", lambda: seen.append((steps.done, steps.since)), accum_grad=2)
    loop = iter(steps)
    for _ in range(4):  # of which three are done
        next(loop)
    assert (steps.begun, steps.last[0]) == (2, "u30")
    loop = iter(steps)
    assert next(loop)[0][0] == "u20" and steps.begun == 1  # is interrupted, too
    assert [utterances[0] for utterances, _ in steps] == ["u20", "u30", "u40"]
    assert seen == [(1, 1), (2, 2), (3, 3), (4, 2), (5, 3)]
    straight = steps_of(batches())
    list(straight)
    assert steps.done == 5 and steps.names.value == straight.names.value


def test_an_epoch_goes_on_after_what_is_done():
    first = steps_of(batches())
    for _, _ in zip(range(3), first, strict=False):
        pass
    position = place(first)
    assert position.batches == 2  # the third step is not done
    restored = []
    again = steps_of(batches(), position, restored.append)
    loop = iter(again)
    assert next(loop)[0][0] == "u20" and restored == [position]  # before the first step
    assert [utterances[0] for utterances, _ in loop] == ["u30", "u40"] and again.position is position
    assert restored == [position]


def test_other_batches_begin_anew(caplog):
    first = steps_of(batches())
    for _, _ in zip(range(3), first, strict=False):
        pass
    restored = []
    again = steps_of(batches(size=3), place(first), restored.append)
    assert len(list(again)) == 5 and (again.done, again.position, restored) == (5, None, [])
    assert "its batches are not those of before; all of the epoch is trained again" in caplog.text


def test_a_batch_is_halved_once_and_not_if_it_is_one_utterance():
    steps = steps_of(batches(1))
    next(iter(steps))
    assert not steps.is_halved and steps.why_not_halved() == ""
    assert steps.described("full") == "full with utterances u00 u01 u02 u03, of lengths x 0 1 2 3"
    steps.halve()
    next(iter(steps))
    assert steps.is_halved and steps.why_not_halved().startswith(" although the batch was halved; lower batch_bins")
    steps = steps_of(batches(1, 1))
    next(iter(steps))
    assert steps.why_not_halved().startswith("; lower batch_bins or batch_size, or leave out long utt")


def test_errors_of_the_data_stay_what_they_are():
    def broken():
        yield from batches(1)
        raise RuntimeError("the data are broken")

    with pytest.raises(RuntimeError, match="the data are broken"):
        list(steps_of(broken()))


def test_long_lists_of_utterances_are_abridged():
    assert named(["a", "b"]) == "utterances a b" and named(list("abcde")) == "utterances a b c d e"
    assert named(list("abcdefg")) == "utterances a b c d e and 2 more"
