"""Interrupts of a stream, sent to this process."""

import signal

import pytest

from espnet_diverse.audio.interrupts import Interrupts


@pytest.fixture(autouse=True)
def usual_handler():
    """Python's own, also where the tests were started with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt():
    signal.raise_signal(signal.SIGINT)


def test_an_interrupt_waits_for_the_next_block():
    interrupts, done, begun = Interrupts(), [], []
    with pytest.raises(KeyboardInterrupt), interrupts.handled():
        for block in interrupts.between(begun.append(number) or number for number in range(9)):
            if block == 3:
                interrupt()
            done.append(block)
    assert done == begun == [0, 1, 2, 3]


def test_an_interrupt_ends_the_reading_of_a_block():
    interrupts, done = Interrupts(), []

    def blocks():
        yield 0
        interrupt()
        yield 1

    with pytest.raises(KeyboardInterrupt), interrupts.handled():
        for block in interrupts.between(blocks()):
            done.append(block)
    assert done == [0]


def test_a_second_interrupt_ends_at_once():
    interrupts = Interrupts()
    with interrupts.handled():
        interrupt()
        with pytest.raises(KeyboardInterrupt):
            interrupt()


def test_the_end_of_the_blocks_is_the_end():
    assert list(Interrupts().between("ab")) == ["a", "b"]


def test_the_handler_is_put_back_and_another_is_left_alone():
    with Interrupts().handled():
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Interrupts().handled():
        interrupt()
