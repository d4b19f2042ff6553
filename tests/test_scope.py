"""The scope: values that one forward pass shares."""

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


def test_losses_of_modules_that_are_alike_are_computed_in_one_call():
    calls = []

    def losses(x):
        calls.append(tuple(x.shape))
        return {"kl": x.mean()}

    with scope() as shared:
        for value in (1.0, 3.0, 5.0):
            current().add_losses("same", losses, torch.full((2,), value))
        current().add_losses("same", losses, torch.full((4,), 11.0))
        current().add_losses("other", losses, torch.full((2,), 20.0))
        current().add_loss("kl", torch.tensor(8.0))
        current().add_loss("mi", torch.tensor(10.0))
    assert calls == []
    for _ in range(2):  # the second time nothing is computed
        assert {k: float(v) for k, v in shared.losses().items()} == {"kl": pytest.approx(8.0), "mi": 10.0}
    assert calls == [(3, 2), (1, 4), (1, 2)]


def test_once_caches_by_argument_in_a_collecting_scope():
    calls = []

    def negate(x):
        calls.append(1)
        return -x

    one, other = torch.ones(2), torch.ones(2)
    assert current().once(negate, one) is not current().once(negate, one)
    with scope() as shared:
        assert shared.once(negate, one) is shared.once(negate, one)
        assert shared.once(negate, other) is not shared.once(negate, one)
    assert len(calls) == 4


def test_statistics_can_be_left_out():
    with scope(statistics=False) as shared:
        current().add_stat("gamma", 0.5)
        current().add_loss("kl", torch.tensor(1.0))
    assert shared.stats() == {} and float(shared.total_loss()) == 1.0
    with scope(collect=False) as shared:
        assert not shared.statistics


def test_losses_of_many_modules_are_left_out_or_computed_where_the_compiler_joins_them(monkeypatch):
    called = []

    def losses(inputs):
        called.append(inputs)
        return {"kl": inputs.mean()}

    with scope(collect=False):
        current().add_losses("key", losses, torch.tensor([2.0]))
    assert called == []
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    with scope() as shared:
        current().add_losses("key", losses, torch.tensor([2.0]))
        assert len(called) == 1
    assert float(shared.losses()["kl"]) == 2.0


def test_conditions_are_listed_from_the_host_where_it_knows_them(monkeypatch):
    conditions = {"lang": torch.tensor([1, 0]), "domain": torch.tensor([2])}
    with scope(conditions, host={"lang": [1, 0]}) as shared:
        read = []
        tolist = torch.Tensor.tolist
        monkeypatch.setattr(torch.Tensor, "tolist", lambda x: read.append(x) or tolist(x))
        assert shared.listed("lang", 2) == [1, 0] and not read
        assert shared.listed("domain", 2) == [2, 2] and shared.lists() == {"lang": [1, 0], "domain": [2]}
        assert len(read) == 1


def test_a_list_of_another_batch_is_not_used():
    with scope({"lang": torch.tensor([1])}, host={"lang": [0, 0]}) as shared:
        assert shared.listed("lang", 3) == [1, 1, 1]


def test_modules_share_copies_of_indices_where_there_are_conditions():
    with scope({"lang": torch.tensor([1])}) as shared:
        first = shared.copied([0, 2], torch.device("cpu"))
        assert first.tolist() == [0, 2] and shared.copied((0, 2), torch.device("cpu")) is first
        assert shared.copied([0, 1], torch.device("cpu")) is not first
    with scope() as shared:
        assert shared.copied([1], torch.device("cpu")) is not shared.copied([1], torch.device("cpu"))
