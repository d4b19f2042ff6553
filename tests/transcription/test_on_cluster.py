"""Windows on a cluster are those of one process; for real workers see tests/bin/options/test_cluster_option.py."""

import pytest

from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.errors import ClusterError, DataError
from espnet_diverse.inference import Recognizer, SegmentationOptions
from espnet_diverse.transcription.on_cluster import ClusterRecognizer, windows
from espnet_diverse.transcription.transcript import Request


class Pool:
    """Workers in this process; the recording named `deadly` kills them."""

    def __init__(self, recognizer):
        self.recognizer, self.pieces = recognizer, []

    def ask(self, function):
        return function(self.recognizer)

    def map_pieces(self, function, pieces, urgent=False):
        for piece in pieces:
            self.pieces += [] if urgent else [len(piece)]
            deadly = any(request.audio == "deadly" for request in piece)
            yield [ClusterError("killed")] if deadly else function(self.recognizer, piece)


@pytest.fixture(scope="module")
def recognizer(tiny_run):
    options = SearchOptions(beam_size=2, batch_size=2, minlenratio=0.5)
    return Recognizer(tiny_run.model_dir, options=options, segmentation=SegmentationOptions(vad="none"))


@pytest.mark.parametrize(
    ("counts", "pieces"),
    [
        ([], []),
        ([1, 1, 1, 1, 1], [[0, 1, 2], [3, 4]]),
        ([2, 0, 2, 1], [[1], [0, 2], [3]]),
        ([0, 0], [[0], [1]]),
        ([1, DataError("x"), 5], [[1], [0, 2]]),
        ([7, 3, 2, 1], [[0], [1], [2, 3]]),
    ],
)
def test_a_piece_ends_where_a_window_of_three_segments_does(counts, pieces):
    assert list(windows(counts, 3)) == pieces


@pytest.mark.usefixtures("any_sums")
def test_results_match_one_process_in_order(recognizer, tiny_run, tmp_path):
    (tmp_path / "text.wav").write_text("not audio")
    paths = [str(path) for path in sorted(tiny_run.train_dir.glob("*.wav"))] + [str(tmp_path / "text.wav"), "gone"]
    paths.insert(3, paths.pop())
    requests = [Request(path) for path in paths]
    pool = Pool(recognizer)
    found = list(ClusterRecognizer(pool).transcribe_all(requests))
    expected = list(recognizer.transcribe_all(requests))
    assert pool.pieces == [1, 8, 1, 4]
    for one, other in zip(found, expected, strict=True):
        if isinstance(other, Exception):
            assert type(one) is DataError and str(one) == str(other)
        else:
            assert one == other
    assert sum(isinstance(one, Exception) for one in found) == 2


def test_progress_is_reported_with_the_result_and_a_killer_is_an_error(recognizer, tiny_run):
    path, reports = str(tiny_run.test_dir / "test-00.wav"), []
    requests = [Request("deadly"), Request(path, on_progress=lambda *seconds: reports.append(seconds))]
    error, transcript = ClusterRecognizer(Pool(recognizer)).transcribe_all(requests)
    assert str(error) == "killed" and reports == [(transcript.duration, transcript.duration)]


def test_the_description_matches_the_search(recognizer):
    described = ClusterRecognizer(Pool(recognizer)).search
    assert described.task == "asr" and described.conditions == recognizer.search.conditions
