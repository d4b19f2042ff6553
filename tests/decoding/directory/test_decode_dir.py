import json
import math
import shutil

import kaldiio
import numpy as np
import pytest
import soundfile
from references.numbered import Numbered, numbered, read
from references.traced import traced

from espnet_diverse.audio.resampling import resample
from espnet_diverse.decoding.condition_ids import KnownConditions
from espnet_diverse.decoding.directory import decode_dir
from espnet_diverse.decoding.directory.decode_dir import decode
from espnet_diverse.decoding.directory.rescoring import read_nbest
from espnet_diverse.decoding.directory.utterances import Description, Job
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.prediction import Text
from espnet_diverse.decoding.predictor import load_predictor
from espnet_diverse.errors import DataError


@pytest.fixture(scope="module")
def search(tiny_run):
    return load_predictor(tiny_run.model_dir, options=SearchOptions(beam_size=3, ctc_weight=0.4, batch_size=2))


@pytest.fixture
def flawed(tiny_run, tmp_path):
    """The test data with four more utterances that cannot be decoded."""
    data_dir = tmp_path / "flawed"
    shutil.copytree(tiny_run.test_dir, data_dir)
    samples, rate = soundfile.read(data_dir / "test-00.wav", dtype="float32")
    soundfile.write(data_dir / "short.wav", samples[:600], rate)
    samples[7] = np.nan
    soundfile.write(data_dir / "nan.wav", samples, rate, subtype="FLOAT")
    (data_dir / "text.wav").write_text("not audio")
    bad = {"bad-gone": "gone", "bad-nan": "nan", "test-01-text": "text", "bad-short": "short"}
    with (data_dir / "wav.scp").open("a") as table:
        table.writelines(f"{name} {data_dir}/{stem}.wav\n" for name, stem in bad.items())
    return data_dir


@pytest.mark.usefixtures("any_sums")
def test_a_bad_utterance_costs_no_other_and_workers_give_the_same(tiny_run, search, flawed, tmp_path, capsys):
    """The batches are the same, so that even unrounded scores are."""
    decode(search, tiny_run.test_dir, tmp_path / "clean")
    results = decode(search, flawed, tmp_path / "one")
    workers = decode(search, flawed, tmp_path / "two", nj=2)
    assert [one.score for one in results] == [one.score for one in workers]
    for name in ("text", "score"):
        contents = [(tmp_path / folder / name).read_bytes() for folder in ("clean", "one", "two")]
        assert contents[0] == contents[1] == contents[2]
    assert [result.utterance for result in results] == sorted(result.utterance for result in results)
    failures = json.loads((tmp_path / "two" / "failures.json").read_text())
    assert failures == json.loads((tmp_path / "one" / "failures.json").read_text())
    assert set(failures) == {"bad-gone", "bad-nan", "bad-short", "test-01-text"}
    assert "no such audio file" in failures["bad-gone"] and "NaN or infinite samples" in failures["bad-nan"]
    assert "too short" in failures["bad-short"] and "not readable as audio" in failures["test-01-text"]
    assert "decoded 3 of 7 utterances (4 failed, 0 empty)" in capsys.readouterr().out
    assert [result.utterance for result in results if result.failure] == sorted(failures)


def test_results_do_not_depend_on_the_batch(tiny_run, search, tmp_path, monkeypatch, other_sums):
    """In batches, alone, and alone after their batch failed, utterances get the same texts and scores to rounding."""
    find, results = search.find, {}

    def picky(sources, *rest):
        if len(sources) > 1:
            raise MemoryError("no room")
        return find(sources, *rest)

    results["batches"] = decode(search, tiny_run.test_dir, tmp_path / "batches")
    monkeypatch.setattr(search, "find", picky)
    results["failed"] = decode(search, tiny_run.test_dir, tmp_path / "failed")
    monkeypatch.undo()
    monkeypatch.setattr(search, "batch_size", 1)
    results["alone"] = decode(search, tiny_run.test_dir, tmp_path / "alone")
    assert len({(tmp_path / folder / "text").read_bytes() for folder in results}) == 1
    written = [list(map(float, read(tmp_path / folder / "score").values())) for folder in ("batches", "alone")]
    assert written[0] == pytest.approx(written[1], rel=0, abs=1.01e-4)  # 0 or 1 in the last place
    scores = {folder: [one.score for one in outcomes] for folder, outcomes in results.items()}
    assert scores["alone"] == scores["failed"] != scores["batches"]
    assert scores["alone"] == pytest.approx(scores["batches"], rel=0, abs=1e-5)


def test_a_bad_line_of_a_table_costs_its_utterance_alone(tiny_run, search, tmp_path, caplog):
    expected = [(r.utterance, r.text, r.score) for r in decode(search, tiny_run.test_dir, tmp_path / "clean")]
    (tmp_path / "data").mkdir()
    lines = (tiny_run.test_dir / "wav.scp").read_text()
    bad = f"aa touch {tmp_path}/ran |\nab\nac/../x a.wav\n{lines.splitlines()[0]}\n"
    (tmp_path / "data" / "wav.scp").write_bytes(bad.encode() + lines.encode() + b"zz \xff\xfe.wav\n")
    results = decode(search, tmp_path / "data", tmp_path / "out")
    assert [(r.utterance, r.text, r.score) for r in results if r.failure is None] == expected
    failures = json.loads((tmp_path / "out" / "failures.json").read_text())
    assert failures.keys() == {"aa", "ab", "ac/../x", "zz"} and not (tmp_path / "ran").exists()
    assert "contains a pipe" in failures["aa"] and "missing columns" in failures["ab"]
    assert any("wav.scp:5: duplicate id 'test-00'" in message for message in caplog.messages)
    assert sum("contains a pipe" in message for message in caplog.messages) == 1


def test_failures_that_are_alike_are_told_once(tiny_run, search, tmp_path, caplog):
    (tmp_path / "wav.scp").write_text(
        (tiny_run.test_dir / "wav.scp").read_text() + "".join(f"u{n:02} flac -c u{n:02}.flac |\n" for n in range(30))
    )
    decode(search, tmp_path, tmp_path / "out")
    told = [message for message in caplog.messages if "notice" not in message]
    assert [message.partition(" ")[0] for message in told] == ["u00", "u01", "u02", "and"]
    assert told[3] == "and 27 more like the last; failures.json lists all"


def test_other_rates_and_channels_are_converted(tiny_run, search, tmp_path):
    samples, rate = soundfile.read(tiny_run.test_dir / "test-00.wav", dtype="float32")
    (tmp_path / "data").mkdir()
    soundfile.write(tmp_path / "data" / "stereo.wav", np.stack([samples, samples], axis=1), rate, subtype="PCM_16")
    soundfile.write(tmp_path / "data" / "fast.wav", resample(samples, rate, target_rate=48_000), 48_000)
    names = [tiny_run.test_dir / "test-00.wav", tmp_path / "data" / "stereo.wav", tmp_path / "data" / "fast.wav"]
    table = "".join(f"{name} {path}\n" for name, path in zip("abc", names, strict=True))
    (tmp_path / "data" / "wav.scp").write_text(table)
    first, second, fast = decode(search, tmp_path / "data", tmp_path / "out")
    assert fast.text == first.text and fast.seconds == first.seconds
    assert fast.score == pytest.approx(first.score, abs=0.01)
    assert first.text == second.text and first.tokens == second.tokens and first.seconds == second.seconds
    assert first.score == pytest.approx(second.score, abs=1e-5)


@pytest.mark.usefixtures("any_sums")
def test_segments_of_files_and_arks_equal_whole_utterances(tiny_run, search, tmp_path):
    names = [f"test-{number:02d}" for number in range(3)]
    samples = [soundfile.read(tiny_run.test_dir / f"{name}.wav", dtype="int16")[0] for name in names]
    joined, data_dir = np.concatenate(samples), tmp_path / "data"
    data_dir.mkdir()
    soundfile.write(data_dir / "long.wav", joined, 16_000)
    kaldiio.save_ark(str(data_dir / "x.ark"), {"ark": (16_000, joined)}, scp=str(data_dir / "wav.scp"))
    with (data_dir / "wav.scp").open("a") as table:
        table.write(f"wav {data_dir}/long.wav\n")
    parts = {name: f"{('wav', 'ark')[n % 2]} {0.75 * n} {0.75 * n + 0.75}" for n, name in enumerate(names)}
    (data_dir / "segments").write_text(
        "".join(f"{name} {part}\n" for name, part in sorted(parts.items(), reverse=True))
    )
    whole = list(decode(search, tiny_run.test_dir, tmp_path / "whole"))
    cut = list(decode(search, data_dir, tmp_path / "cut"))
    assert cut == whole and {one.seconds for one in cut} == {0.75}
    (data_dir / "segments").write_text("a gone 0 1\nb wav 0 1\nc lost 0 1\n")
    with pytest.raises(DataError, match=r"^2 faults: \S*/segments: a: its recording is not in wav.scp; also c"):
        decode(search, data_dir, tmp_path / "none")


class Broken(Numbered):
    """A search that has no room for long utterances, nor for any other beside them."""

    longest = 0

    def batch(self, sources, conditions):
        super().batch(sources, conditions)
        if max(map(len, sources)) > self.longest:
            raise MemoryError("no room")
        return [[Text("found", ["f"], -1.0)] for _ in sources]


class Several(Numbered):
    """A search that finds as many of two hypotheses as the utterance has frames."""

    nbest = 2

    def batch(self, sources, conditions):
        both = [Text("first", ["f"], -1.0), Text("second", ["s"], -2.0)]
        return [both[: len(source) - 1] for source in sources]


@pytest.mark.parametrize("counts", [[3, 2, 1], [2, 1, 1]], ids=["some have both", "none has both"])
def test_a_single_hypothesis_is_a_list_of_one(tmp_path, counts):
    decode(Several(), numbered(tmp_path / "data", counts), tmp_path / "out")
    nbest = read_nbest(tmp_path / "out" / "nbest.jsonl")
    assert [[text for text, _ in hypotheses] for hypotheses in nbest.values()] == [
        ["first", "second"][: count - 1] for count in counts
    ]
    decode(Numbered(), numbered(tmp_path / "one", [1]), tmp_path / "out")
    assert not (tmp_path / "out" / "nbest.jsonl").exists()


def test_an_utterance_without_a_hypothesis_has_an_empty_text(tmp_path, capsys):
    results = list(decode(Numbered(), numbered(tmp_path / "data", [1, 1, 1]), tmp_path))
    assert read(tmp_path / "text") == {"u000": "", "u001": "", "u002": ""}
    assert read(tmp_path / "score")["u000"] == "-inf" and results[0].score == -math.inf
    assert "(0 failed, 3 empty)" in capsys.readouterr().out and results[0].failure is None


def test_when_nothing_can_be_decoded_there_is_no_text_and_an_earlier_one_stays(tmp_path_factory, tmp_path, caplog):
    data_dir = numbered(tmp_path_factory.mktemp("numbers") / "data", [1, 1, 1])
    message = r"none of 3 utterances could be decoded; first u000: MemoryError: no room"
    for left in ("failures.json", "text"):
        (tmp_path / "text").write_text("of an earlier run")
        (tmp_path / "text" if left == "failures.json" else tmp_path / "failures.json").unlink()
        with pytest.raises(DataError, match=message):
            decode(Broken(), data_dir, tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == [left]
        assert "u002 was not decoded: MemoryError: no room" in caplog.text


def test_batches_hold_utterances_of_like_length_and_not_too_many_frames(tmp_path):
    search = Numbered()
    decode(search, numbered(tmp_path / "data", [9, 40, 8, 60, 7, 33, 101]), tmp_path / "out")
    assert search.asked == [[101], [60], [40, 33], [9, 8, 7]]


def test_a_window_bounds_the_utterances_read_ahead(tmp_path):
    search = Numbered()
    decode(search, numbered(tmp_path / "data", range(1, 50)), tmp_path / "out")
    assert search.asked[0] == [48, 47] and search.asked[-2:] == [[2, 1], [49]]


def test_an_utterance_that_breaks_its_batch_fails_alone(tmp_path, caplog):
    search = Broken()
    search.longest = 8
    results = decode(search, numbered(tmp_path / "data", [9, 8, 7]), tmp_path / "out")
    assert search.asked == [[9, 8, 7], [9], [8], [7]]
    assert [result.failure for result in results] == ["MemoryError: no room", None, None]
    assert read(tmp_path / "out" / "text") == {"u001": "found", "u002": "found"}
    assert "u000 was not decoded: MemoryError: no room" in caplog.text


def test_the_utterances_of_a_large_table_are_listed_without_objects_for_all(tmp_path):
    rows, ids = 5_000, [f"speaker-{number // 9:07d}-{number:09d}" for number in range(5_000)]
    (tmp_path / "src_text").write_text("".join(f"{name} words of {name}\n" for name in ids))
    (tmp_path / "utt2lang").write_text("".join(f"{name} {'de' if n % 2 else 'fr'}\n" for n, name in enumerate(ids)))
    known = Description("cpu", KnownConditions({"lang": ["de", "fr"]}), "src_text", 1, 1000)
    jobs, taken = traced(decode_dir.list_jobs, known, tmp_path, {})
    assert taken < 150 * rows  # a job with its id and text takes 500 bytes
    assert len(jobs) == rows and [job.utterance for job in jobs] == ids
    assert jobs[7] == Job(ids[7], f"words of {ids[7]}", None, {"lang": 0})
    assert jobs[6:8] == [jobs[6], jobs[7]] and jobs[-1].conditions == {"lang": 0} != jobs[-2].conditions


class Words(Numbered):
    """A search that finds two hypotheses of some words for each utterance."""

    batch_size, batch_frames, nbest, fused = 64, 10**6, 2, {}

    def batch(self, sources, conditions):
        return [
            [Text(f"{words} words of some length", ["a"] * 5, -1.5) for words in ("some", "other")] for _ in sources
        ]


def test_results_are_not_kept_in_memory(tmp_path):
    rows = 8000
    decode(Words(), numbered(tmp_path / "few", [1]), tmp_path / "out")  # memory that is allocated once
    data_dir = numbered(tmp_path / "data", [])
    (data_dir / "wav.scp").write_text("".join(f"u{number:05d} {1 + number * 37 % 50}\n" for number in range(rows)))
    results, taken = traced(decode, Words(), data_dir, tmp_path / "out")
    assert len(results) == rows and all(result.nbest[1][0].startswith("other") for result in results)
    assert taken < 400 * rows  # a window of utterances and, while they are sorted, ids; all results would take 1000


def test_where_no_process_can_be_forked_this_one_decodes(tiny_run, search, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(decode_dir, "can_fork", lambda: False)
    monkeypatch.delattr(decode_dir, "decode_in_processes")
    results = decode(search, tiny_run.test_dir, tmp_path / "out", nj=2)
    assert len(results) == 3 and all(result.failure is None for result in results)
    assert "--nj 2: a process cannot share its model on this system; this one decodes alone" in caplog.text
