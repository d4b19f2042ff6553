"""Decoding in pieces matches one process; real workers do it in tests/bin/options/test_cluster_option.py."""

import json

import pytest
from references.numbered import Numbered

from espnet_diverse.decoding.directory.decode_dir import decode
from espnet_diverse.decoding.directory.on_cluster import described
from espnet_diverse.decoding.prediction import Text
from espnet_diverse.errors import ClusterError


class Search(Numbered):
    """Its score depends on the batch, as in a real search."""

    def batch(self, sources, conditions):
        super().batch(sources, conditions)
        return [[Text(f"{len(source)}", ["t"], -0.01 * sum(map(len, sources)))] for source in sources]


class Pool:
    """Workers in this process, as a cluster has them; an utterance of 13 frames kills them while it is decoded."""

    def __init__(self, search):
        self.search = search

    def ask(self, function):
        return function(self.search)

    def map_pieces(self, function, pieces, urgent=False):
        for piece in pieces:
            if not urgent and any(job.source == "13" for job in piece):
                yield [ClusterError("its worker was killed 6 times")] * len(piece)
            else:
                yield function(self.search, piece)


@pytest.fixture
def data_dir(tmp_path):
    lengths = [1 + 37 * number % 90 for number in range(200)]
    lines = [f"u{number:03d} {'gone' if number % 7 == 3 else length}\n" for number, length in enumerate(lengths)]
    (tmp_path / "wav.scp").write_text("".join(line for line in lines if not line.endswith(" 13\n")))
    return tmp_path


def test_batches_and_files_match_one_process(data_dir, capsys):
    alone, workers = Search(), Search()
    decode(alone, data_dir, data_dir / "alone")
    decode(described(Pool(workers)), data_dir, data_dir / "pool", pool=Pool(workers))
    assert workers.asked == alone.asked and len(alone.asked) > 50
    for name in ("text", "score", "failures.json"):
        assert (data_dir / "pool" / name).read_bytes() == (data_dir / "alone" / name).read_bytes()
    assert len(json.loads((data_dir / "pool" / "failures.json").read_text())) == 29
    assert json.loads((data_dir / "pool" / "decode.json").read_text())["device"] == "cpu"
    assert "decode: " in capsys.readouterr().err


@pytest.mark.parametrize("lost", range(0, 70, 13))
def test_decoding_resumes_after_the_scheduler_is_lost(data_dir, lost):
    class Lost(Pool):
        """Workers of which nothing is heard after some batches."""

        def map_pieces(self, function, pieces, urgent=False):
            for number, results in enumerate(super().map_pieces(function, pieces, urgent)):
                if not urgent and number == lost:
                    raise ClusterError("the scheduler of the cluster is lost")
                yield results

    alone, workers, others = Search(), Search(), Search()
    decode(alone, data_dir, data_dir / "alone")
    with pytest.raises(ClusterError, match="lost"):
        decode(described(Pool(workers)), data_dir, data_dir / "pool", pool=Lost(workers), made_by="a")
    decode(described(Pool(others)), data_dir, data_dir / "pool", pool=Pool(others), made_by="a")
    assert others.asked == alone.asked[lost:]
    for name in ("text", "score", "failures.json"):
        assert (data_dir / "pool" / name).read_bytes() == (data_dir / "alone" / name).read_bytes()


def test_an_utterance_that_kills_its_workers_is_listed(data_dir):
    (data_dir / "wav.scp").write_text("a 10\nb 13\nc 90\n")
    search = Search()
    results = decode(described(Pool(search)), data_dir, data_dir / "out", pool=Pool(search))
    assert [(one.utterance, one.text, one.failure) for one in results] == [
        ("a", "", "its worker was killed 6 times"),  # of the same batch: a real pool does its utterances one by one
        ("b", "", "its worker was killed 6 times"),
        ("c", "90", None),
    ]


def test_a_file_that_vanishes_between_the_two_readings_is_listed(data_dir):
    (data_dir / "wav.scp").write_text("a 10\nb 11\n")
    search, readings = Search(), []
    read = search.read

    def vanishing(value, segment=None):
        readings.append(value)
        return read("gone" if readings.count("11") == 2 and value == "11" else value, segment)

    search.read = vanishing
    results = decode(described(Pool(search)), data_dir, data_dir / "out", pool=Pool(search))
    assert [(one.text, one.failure) for one in results] == [("10", None), ("", "gone: no such file")]
    assert readings == ["10", "11", "11", "10"]
