"""The scope: what one forward pass shares."""

import threading

import pytest
import torch

from espnet_diverse.scope import current, scope


def test_default_scope_collects_nothing():
    current().add_loss("a", torch.tensor(1.0))
    assert current().total_loss() == 0.0
    assert current().conditions == {} and not current().collect


def test_losses_are_means_over_modules_and_summed_over_names():
    with scope() as shared:
        for value in (1.0, 3.0):
            current().add_loss("kl", torch.tensor(value))
        current().add_loss("mi", torch.tensor(10.0))
        current().add_stat("gamma", 0.5)
    assert {k: float(v) for k, v in shared.losses().items()} == {"kl": 2.0, "mi": 10.0}
    assert float(shared.total_loss()) == 12.0
    assert float(shared.stats()["gamma"]) == 0.5


def test_scopes_nest_and_close_after_an_error():
    with scope({"lang": torch.tensor([1])}) as outer:
        try:
            with scope({"lang": torch.tensor([2])}):
                raise RuntimeError
        except RuntimeError:
            pass
        assert current() is outer
    assert current().conditions == {}


def test_threads_do_not_see_each_other():
    seen = []
    with scope({"lang": torch.tensor([1])}):
        thread = threading.Thread(target=lambda: seen.append(current().conditions))
        thread.start()
        thread.join()
    assert seen == [{}]


def test_one_value_serves_a_batch_and_others_must_match_it():
    with scope({"lang": torch.tensor([2]), "domain": torch.tensor([0, 1])}) as shared:
        assert shared.condition("lang", 3).tolist() == [2, 2, 2]
        assert shared.condition("domain", 2).tolist() == [0, 1]
        with pytest.raises(ValueError, match="the domain of 2 samples was given for a batch of 3"):
            shared.condition("domain", 3)
        with pytest.raises(ValueError, match=r"the tgtlang of each sample is needed .* \(given: lang domain\)"):
            shared.condition("tgtlang", 3)
