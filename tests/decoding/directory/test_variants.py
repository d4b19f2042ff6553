"""Variants of computing: each is counted against one thread, and one that is not possible says why."""

import shutil

import pytest

from espnet_diverse.decoding.directory import variants
from espnet_diverse.decoding.directory.variants import BASE, VARIANTS, Variant, differences
from espnet_diverse.decoding.predictor import load_predictor
from espnet_diverse.errors import ConfigError, DataError


class Louder:
    """A search with another text for one utterance, and other scores for all."""

    def __init__(self, search, texts, more):
        self.search, self.texts, self.more = search, texts, more

    def __getattr__(self, name):
        return getattr(self.search, name)

    def batch(self, sources, conditions):
        found = self.search.batch(sources, conditions)
        if self.texts:
            found[0] = [found[0][0]._replace(text="other"), *found[0][1:]]
        return [[best._replace(score=best.score + self.more) for best in nbest] for nbest in found]


@pytest.fixture
def search(tiny_run):
    return load_predictor(tiny_run.model_dir)


def test_texts_and_scores_are_compared(search, tiny_run, monkeypatch):
    ways = {"float32": search, "int8": Louder(search, True, 0.5), "bfloat16": Louder(search, False, -0.25)}
    monkeypatch.setattr(variants, "VARIANTS", (Variant("a", "int8"), Variant("b", "bfloat16"), Variant("c", threads=2)))
    count, found = differences(lambda precision, _: ways[precision], tiny_run.test_dir, 100, {})
    rows = [(each.variant.name, each.texts, pytest.approx(each.score, abs=1e-5)) for each in found]
    assert count == 3 and rows == [("a", 1, 0.5), ("b", 0, 0.25), ("c", 0, 0.0)]


def test_what_is_not_possible_says_why(search, tiny_run):
    def load(precision, compiled):
        if compiled:
            raise ConfigError("no compiler")
        return search

    _, found = differences(load, tiny_run.test_dir, 1, {})
    assert [each.refused for each in found] == ["no compiler" if each.compiled else "" for each in VARIANTS]


def test_each_variant_computes_as_it_is_named(search, tiny_run):
    import os

    import torch

    asked, before = [], torch.get_num_threads()

    def load(precision, compiled):
        kernels = os.environ.get("ESPNET_DIVERSE_KERNELS")
        asked.append((precision, compiled, torch.get_num_threads(), kernels))
        return search

    list(differences(load, tiny_run.test_dir, 1, {})[1])
    own = os.environ.get("ESPNET_DIVERSE_KERNELS")
    assert asked == [(v.precision, v.compiled, v.threads, v.kernels or own) for v in (BASE, *VARIANTS)]
    assert torch.get_num_threads() == before


def test_a_directory_without_any_readable_utterance_is_refused(search, tiny_run, tmp_path):
    shutil.copytree(tiny_run.test_dir, folder := tmp_path / "test")
    (folder / "wav.scp").write_text("a nowhere.wav\n")
    with pytest.raises(DataError, match="a: nowhere.wav"):
        differences(lambda *_: search, folder, 100, {})
