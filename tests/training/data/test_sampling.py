import hashlib
import json
from collections import Counter

import numpy as np
import pytest
from references.categories import CATEGORIES, IDS, OPTIONS, SHAPES, SIZES, listed, names, sampler

from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.runs.config import merge
from espnet_diverse.training.data.batch_types import Shapes
from espnet_diverse.training.data.sampling import Sampling, probabilities, read_sampling

KINDS = ("unsorted", "sorted", "numel", "length", "folded")
EPOCHS = 60
DIGEST = "ba95e5678451204d"  # of the batches that a seed gives


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
