"""Parts that all synthetic corpora share: sentences, speakers, and the module of each."""

import numpy as np
import pytest
from references.data_fixtures import digests

from espnet_diverse.corpora import CORPORA
from espnet_diverse.corpora.synthetic import STAMP, VOICES, join, load_generator, mtedx, utterances
from espnet_diverse.corpora.synthetic.aishell import SPEAKERS
from espnet_diverse.corpora.synthetic.grammar import LANGUAGES
from espnet_diverse.errors import ConfigError, DataError


@pytest.mark.parametrize("names", [SPEAKERS, mtedx.SPEAKERS, VOICES], ids=["aishell", "mtedx", "voices"])
def test_speakers_and_voices_of_the_splits_are_disjoint(names):
    train, dev, test = (set(names[split]) for split in ("train", "dev", "test"))
    assert not train & dev
    assert not train & test
    assert not dev & test


def test_no_synthetic_corpus_for_this_corpus():
    assert load_generator("mtedx") is mtedx
    with pytest.raises(ConfigError, match="^there is no synthetic corpus for mls; give the folder of its release$"):
        load_generator("mls")


LONG_RANGE = {"listops", "byte_text", "byte_retrieval", "pixels", "pathfinder"}
GENERATED = sorted(CORPORA.keys() - LONG_RANGE - {"hf", "lhotse", "kaldi", "catalogues"})


@pytest.mark.parametrize("corpus", GENERATED)
def test_the_seed_decides_every_byte(tmp_path, monkeypatch, corpus):
    generator = load_generator(corpus)
    if hasattr(generator, "synthesize"):
        silence = np.zeros(1600, np.float32)
        monkeypatch.setattr(generator, "synthesize", lambda lines, nj: (silence for _ in lines))

    def made(folder, **options):
        generator.make(tmp_path / folder, size="tiny", **options)
        return {name: digest for name, digest in digests(tmp_path / folder).items() if name != STAMP}  # has the seed

    first = made("a")
    assert made("b", nj=1) == first != made("b", seed=1)


@pytest.mark.parametrize("corpus", GENERATED)
def test_unknown_size_is_refused(tmp_path, corpus):
    with pytest.raises(DataError, match="^unknown size 'huge' of a synthetic corpus; choose one of tiny demo$"):
        load_generator(corpus).make(tmp_path / "corpus", size="huge")
    assert list(tmp_path.iterdir()) == []


def test_languages_say_the_same_things():
    """Sentences of a split are one set in all languages, so that nothing of a test leaks through a translation."""
    spoken = [
        utterances([language, "en"], "test", 12, 0, [str(number) for number in range(4)]) for language in LANGUAGES
    ]
    assert {tuple(utterance.sentence.texts[1] for utterance in each) for each in spoken} == {
        tuple(utterance.sentence.texts[0] for utterance in spoken[LANGUAGES.index("en")])
    }
    assert len({utterance.line.text for each in spoken for utterance in each}) == 12 * len(LANGUAGES)


def test_recordings_are_joined_to_one():
    samples, times = join([np.full(8000, 0.1, np.float32), np.full(4000, 0.2, np.float32)])
    np.testing.assert_array_equal(samples, np.repeat(np.float32([0.1, 0.2]), [8000, 4000]))
    assert times == [(0.0, 0.5), (0.5, 0.75)]
