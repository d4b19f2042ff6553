"""The benchmark of hotwords: what is taken out of training, what is counted, and a table at a tiny size."""

import shutil
from pathlib import Path

import pytest

from espnet_diverse.data.kaldi import read_data_dir


@pytest.fixture
def hotwords(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    import hotwords

    return hotwords


TEXTS = {"train": ["abc", "bca", "cd", "ad"], "dev": ["abd", "cd"], "test": ["cab", "da", "bd"]}


@pytest.fixture
def prepared(tmp_path):
    for name, texts in TEXTS.items():
        folder = tmp_path / "data" / name
        folder.mkdir(parents=True)
        rows = [f"{name}-{number}" for number in range(len(texts))]
        tables = {"text": texts, "wav.scp": [f"{row}.wav" for row in rows], "utt2spk": [f"{name}-s"] * len(rows)}
        for table, values in tables.items():
            (folder / table).write_text("".join(f"{row} {value}\n" for row, value in zip(rows, values, strict=True)))
    return tmp_path / "data"


def test_words_are_taken_out_of_training(hotwords, prepared, tmp_path, capsys):
    hotwords.main(["split", str(prepared), str(tmp_path / "made"), "--words", "ab"])
    made = {name: read_data_dir(tmp_path / "made" / name) for name in ("train", "dev", "rare", "common")}
    texts = {name: sorted(data.text.values()) for name, data in made.items()}
    assert texts == {"train": ["ad", "bca", "cd"], "dev": ["cd"], "rare": ["abc", "cab"], "common": ["bd", "da"]}
    assert set(made["rare"].wav_scp) == set(made["rare"].utt2spk) == {"train-0", "test-0"}
    assert "rare: 2 utterances" in capsys.readouterr().out
    with pytest.raises(ValueError, match="without 'cd' 'b' the training text has no|without 'b' .* has no b; leave"):
        hotwords.main(["split", str(prepared), str(tmp_path / "other"), "--words", "b"])


def test_occurrences_are_counted_by_utterance(hotwords):
    references = {"1": "abab c", "2": "c", "3": "ab"}
    assert hotwords.count(["ab"], references, {"1": "ab ab ab", "2": "ab", "3": ""}) == (3, 2, 2)
    assert hotwords.count(["ab", "c"], references, {"1": "c"}) == (5, 1, 0)


def test_errors_beside_the_words_are_counted_alone(hotwords):
    references = {"1": "abcde", "2": "xabx"}
    found = {"1": "aXcYe", "2": "aZbxx"}
    assert hotwords.error_rate(references, found) == 100 * 5 / 9
    assert hotwords.error_rate(references, found, ["ab"]) == pytest.approx(100 * 3 / 5)
    assert hotwords.error_rate(references, references, ["ab", "bc"]) == 0


def test_distractors_are_in_no_reference_and_the_same_each_time(hotwords):
    made = hotwords.distractors(20, list("abcd"), ["abcdabcd", "ddd"])
    assert made == hotwords.distractors(20, list("abcd"), ["abcdabcd", "ddd"]) and len(set(made)) == 20
    assert {len(phrase) for phrase in made} == {2, 3} and not any(each in "abcdabcd\nddd" for each in made)


def test_the_table_has_a_row_for_each_weight(hotwords, tiny_run, tmp_path, capsys):
    for name in ("train", "rare", "common"):
        shutil.copytree(tiny_run.test_dir, tmp_path / name)
    word = (tiny_run.test_dir / "text").read_text().split()[1][:2]
    arguments = ["measure", str(tiny_run.model_dir), str(tmp_path), "--words", word, "--weights", "0", "50"]
    hotwords.main([*arguments, "--distractors", "3", "--set", "minlenratio=-3", "maxlenratio=-6"])
    first, _, _, *rows = capsys.readouterr().out.splitlines()
    said = sum(line.split(" ", 1)[1].count(word) for line in (tiny_run.test_dir / "text").read_text().splitlines())
    assert first == "4 phrases; 3 rare utterances, 3 common utterances"
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [cell[0] for cell in cells] == ["0", "50"] and all(cell[1].endswith(f" of {said})") for cell in cells)
    without, strong = cells
    assert int(strong[5]) > int(without[5]) and all(float(cell) >= 0 for cell in without[2:5])
