"""The synthetic table: recordings in a folder, the same bytes every time, and sets that can be drawn."""

import csv

import pytest
import soundfile
from references.data_fixtures import digests

from espnet_diverse.corpora import load_corpus
from espnet_diverse.corpora.synthetic import utterances
from espnet_diverse.corpora.synthetic.table import COUNTS, SPEAKERS, make


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return make(tmp_path_factory.mktemp("table") / "corpus", size="tiny", nj=1)


def test_the_table_lists_the_recordings(tiny):
    with tiny.open(encoding="utf-8", newline="") as table:
        rows = list(csv.DictReader(table))
    assert [row["audio"] for row in rows] == sorted(path.name for path in tiny.parent.glob("*.wav"))
    assert len(rows) == COUNTS["tiny"] == 20 and {row["speaker"] for row in rows} == set(SPEAKERS)
    assert len({row["text"] for row in rows}) == 20
    assert all(1 < soundfile.info(tiny.parent / row["audio"]).duration < 5 for row in rows)


def test_it_is_read_and_three_sets_are_drawn(tiny):
    sets = load_corpus("table").prepare(tiny)
    assert {name: len(set(data.utt2spk.values())) for name, data in sets.items()} == {"train": 6, "dev": 1, "test": 1}


def test_it_is_made_once_and_does_not_depend_on_the_number_of_jobs(tiny, tmp_path, monkeypatch):
    assert digests(make(tmp_path / "again", size="tiny", nj=2).parent) == digests(tiny.parent)
    monkeypatch.setattr("espnet_diverse.corpora.synthetic.table.synthesize", None)
    assert make(tiny.parent, size="tiny") == tiny


def test_demo_is_learnable():
    texts = [said.sentence.texts[0] for said in utterances(["en"], "train", COUNTS["demo"], 5000, SPEAKERS)]
    assert len(set(texts)) == len(texts) == 640
