"""Options of head selection: what each changes, and that a wrong value is named."""

import pytest
import torch

from espnet_diverse.attention import PARTS, build_attention
from espnet_diverse.attention.pruning import prune_heads
from espnet_diverse.attention.selection import learned_selection
from espnet_diverse.functional.selection import bernoulli_kl, official_kl, soft_sample
from espnet_diverse.option_checks import OptionError
from espnet_diverse.scope import scope

SIZE, HEADS = 16, 4
LANGUAGES = ["ar", "de", "el"]
DOMAINS = ["news", "talk"]


def build(**options):
    torch.manual_seed(3)
    selection = {"strategy": "group", "pool": 8, "conditions": {"lang": LANGUAGES}} | options
    return build_attention("softmax", SIZE, HEADS, selection=selection).eval()


def inputs(batch):
    torch.manual_seed(5)
    return torch.randn(batch, 7, SIZE)


def languages(*ids):
    return scope({"lang": torch.tensor(ids)})


# Losses and schedules


@pytest.mark.parametrize("form", ["bernoulli", "official"])
def test_kl_is_the_mean_over_samples_and_warms_up(form, monkeypatch):
    monkeypatch.setattr(learned_selection, "logistic_noise", torch.zeros_like)
    module, x = build(kl_weight=0.3, kl_warmup_steps=8, kl_form=form).train(), inputs(3)
    module.selection.updates.count.fill_(2.0)
    phi = module.selection.logits_lang.detach()
    each = (
        bernoulli_kl(phi, 0.5).sum(1) if form == "bernoulli" else official_kl(soft_sample(phi, 0.0, 5.0), 0.5).mean(1)
    )
    with languages(2, 0, 2) as shared:
        module(x, x, x, None)
    torch.testing.assert_close(shared.losses()["head_kl"].detach(), 0.3 * 2 / 8 * (2 * each[2] + each[0]) / 3)
    assert float(shared.stats()["heads_by_noise"]) == 0.0


@pytest.mark.parametrize(
    ("schedule", "expected"), [("constant", [5.0, 5.0, 5.0]), ("linear", [5.0, 3.0, 1.0]), ("exp", [5.0, 5**0.5, 1.0])]
)
def test_tau_follows_its_schedule(schedule, expected):
    module = build(tau_schedule=schedule, tau_final=1.0, tau_steps=10)
    taus = [float(module.selection.tau(torch.tensor(float(updates)))) for updates in (0, 5, 20)]
    assert taus == pytest.approx(expected)


def test_updates_are_counted():
    module, x = build().train(), inputs(1)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for _ in range(3):
        with languages(0):
            module(x, x, x, None).sum().backward()
        optimizer.step()
    assert float(module.selection.updates.count) == 2.0


# Errors


@pytest.mark.parametrize(
    ("conditions", "text"),
    [
        ({}, "head selection: the lang of a sample was not given; known, from 0 on: ar de el"),
        (
            {"lang": torch.tensor([0, 3])},
            "head selection: the lang of a sample 3 is unknown; known, from 0 on: ar de el",
        ),
        ({"lang": torch.tensor([-1])}, "the lang of a sample -1 is unknown"),
        ({"lang": torch.tensor([0, 1, 2])}, "the lang of 3 samples was given for a batch of 2"),
    ],
)
def test_a_task_that_is_missing_or_unknown_is_refused(conditions, text):
    module, x = build(), inputs(2)
    with scope(conditions), pytest.raises(ValueError, match=text):
        module(x, x, x, None)


def test_a_default_task_stands_in():
    module, x = build(default_condition={"lang": "de"}), inputs(2)
    with languages(1):
        expected = module(x, x, x, None)
    assert torch.equal(module(x, x, x, None), expected)
    with languages(1, -1):
        assert torch.equal(module(x, x, x, None), expected)


def test_pruning_wants_one_task():
    with languages(0, 1), pytest.raises(ValueError, match="the lang of 2 samples was given for a batch of 1"):
        prune_heads(build())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"strategy": "groups"}, "strategy must be one of none static group subset, but is 'groups'"),
        ({"temperature": 1}, "unknown option 'temperature' of head selection"),
        ({"strategy": "group", "pool": 6}, "a pool of 6 does not make 4 groups; give a multiple of 4"),
        ({"strategy": "subset", "pool": 4}, "a pool of 4 leaves 4 heads nothing to select; give more, or choose"),
        ({"strategy": "group", "conditions": {}}, "conditions has no names for lang; training fills them in"),
        ({"strategy": "group", "conditions": ["de"]}, r"conditions must be a mapping, such as .* but is \['de'\]"),
        ({"strategy": "group", "conditions": {"lang": "en"}}, "lang must be a list of different names .*, but is 'en'"),
        ({"strategy": "group", "conditions": {"lang": ["en", "en"]}}, "conditions of lang must be a list of different"),
        ({"strategy": "static", "conditions": {"lang": [False, "sv"]}}, r"'off' in quotes\), but is \[F"),
        ({"strategy": "group", "by": 3}, "by must be one or a list of lang tgtlang domain, but is 3"),
        ({"default_condition": {"lang": False}}, "'no', .* in quotes\\), but is {'lang': False}"),
        ({"strategy": "static", "families": 3}, r"families must be lists of names .* but is 3"),
        ({"strategy": "static", "families": [[False], ["de"]]}, r"families must be lists of .* \[\[False\]"),
        ({"strategy": "static", "families": [["ar", "el"], "de"]}, r"families must be lists of names .* 'de'\]"),
        ({"strategy": "group", "by": "speaker"}, "by must be one or a list of lang tgtlang domain, but is 'speaker'"),
        ({"strategy": "group", "by": []}, r"by must be one or a list of lang tgtlang domain, but is \[\]"),
        (
            {"strategy": "group", "default_condition": {"lang": "fr"}},
            "default_condition must be one of ar de el, but is 'fr'",
        ),
        (
            {"default_condition": "de"},
            "default_condition must be a value by condition, of .* such as {lang: en} .*, but is 'de'",
        ),
        ({"default_condition": {"language": "de"}}, "default_condition must be .* but is {'language': 'de'}"),
        ({"tau": 0.0}, "tau must be above 0, but is 0"),
        ({"tau_steps": 0}, "tau_steps must be above 0, but is 0"),
        ({"logits_learning_rate_scale": 0.0}, "logits_learning_rate_scale must be above 0, but is 0"),
        ({"noise_steps": 0}, "noise_steps must be above 0, but is 0"),
        ({"noise_steps": "all"}, "noise_steps must be a number, but is 'all'"),
        ({"noise_schedule": "linear"}, "noise_schedule linear needs noise_steps, such as 0.8 of the run"),
        ({"noise_schedule": "exp", "noise_steps": 10}, "noise_schedule must be one of constant linear, but is 'exp'"),
        ({"kl_weight": -1.0}, "kl_weight must be at least 0, but is -1.0"),
        ({"strategy": "static", "families": [["ar"], ["de"]]}, "'el' is in 0 families; put every name into one"),
        ({"strategy": "static", "families": [LANGUAGES, ["de"]]}, "'de' is in 2 families"),
        (
            {"strategy": "static", "by": ["lang", "domain"], "conditions": {"lang": LANGUAGES, "domain": DOMAINS}},
            r"by \['lang', 'domain'\] cannot be combined with strategy static",
        ),
    ],
)
def test_options_that_are_not_allowed_are_named(options, text):
    with pytest.raises(ValueError, match=text):
        build_attention("softmax", SIZE, HEADS, selection={"conditions": {"lang": LANGUAGES}} | options)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("tau", {"tau": 0.0}),
        ("noise_steps", {"noise_steps": -1}),
        ("noise_schedule", {"noise_schedule": "linear"}),
        ("by", {"by": "speaker"}),
        ("by", {"by": [["lang"]]}),
        ("by", {"strategy": "static", "by": ["lang", "domain"]}),
        ("conditions", {"conditions": {}}),
        ("default_condition", {"default_condition": {"lang": "fr"}}),
        ("families", {"strategy": "static", "families": [["ar"], ["de"]]}),
    ],
)
def test_an_error_has_the_name_of_the_option_so_that_its_line_is_found(name, options):
    given = {"strategy": "group", "conditions": {"lang": LANGUAGES, "domain": DOMAINS}} | options
    with pytest.raises(OptionError) as caught:
        PARTS["selection"](given)
    assert caught.value.name == name


def test_a_name_in_place_of_options_is_refused():
    with pytest.raises(
        ValueError, match="head selection must be a mapping of options, such as {strategy: ...}, but is 'group'"
    ):
        build_attention("softmax", SIZE, HEADS, selection="group")
