"""Datasets of Hugging Face: their rows become a table; with the library where it is installed, and with a stand-in."""

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from espnet_diverse.bin.main import main
from espnet_diverse.corpora import Selection, hf
from espnet_diverse.data.kaldi import read_data_dir
from espnet_diverse.errors import ConfigError, DataError


class Split(list):
    """The rows of a split and their features, as of datasets.Dataset."""

    def __init__(self, rows, **features):
        super().__init__(rows)
        self.features = dict.fromkeys(rows[0]) | features

    def cast_column(self, name, feature):
        return Split([row | {name: feature.undecoded(row[name])} for row in self], **(self.features | {name: feature}))


class Audio:
    """A feature whose values are decoded, unless it is cast."""

    def __init__(self, decode=True):
        self.decode = decode

    def undecoded(self, value):
        assert not self.decode
        return value["encoded"]


class Library(SimpleNamespace):
    """The part of the library that is called; `loaded` are the arguments."""

    def __init__(self, content, error=None):
        super().__init__(Audio=Audio, content=content, loaded=[], error=error)
        self.exceptions = SimpleNamespace(DatasetsError=KeyError)

    def load_from_disk(self, path):
        return self._load("disk", path)

    def load_dataset(self, *arguments):
        return self._load(*arguments)

    def _load(self, *arguments):
        self.loaded.append(arguments)
        if self.error:
            raise self.error
        return self.content


@pytest.fixture
def wav(tmp_path, write_wav):
    return write_wav(tmp_path / "speech.wav").read_bytes()


@pytest.fixture
def library(monkeypatch, wav):
    """A dataset of three splits, each of one recording in memory."""
    names = SimpleNamespace(int2str=lambda number: ("de", "en")[number])

    def split(name):
        row = {
            "audio": {"encoded": {"path": "x.flac", "bytes": wav}},
            "sentence": name,
            "id": 7,
            "lang": 1,
            "tags": [1],
        }
        return Split([row], audio=Audio(), lang=names)

    stand_in = Library({name: split(name) for name in ("train", "validation", "test.clean")})
    monkeypatch.setitem(sys.modules, "datasets", stand_in)
    return stand_in


def rows(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_dataset_becomes_a_table(library, tmp_path, wav):
    path = hf.convert(tmp_path / "google/fleurs:de_de", tmp_path / "downloads")
    assert path.parent.parent == tmp_path / "downloads"
    first, _, third = rows(path)
    assert first == {"id": "train-0000000", "audio": "train/0000000.flac", "sentence": "train", "lang": "en"} | {
        "split": "train"
    }
    assert (path.parent / "test.clean" / "0000000.flac").read_bytes() == wav
    assert (third["id"], third["split"]) == ("test.clean-0000000", "test.clean")
    sets = hf.prepare(path, Selection(set_names=(("test", "test.clean"),)))
    assert {name: list(data.text.values()) for name, data in sets.items()} == {
        "train": ["train"],
        "dev": ["validation"],
        "test": ["test clean"],
    }


def test_names_configurations_and_folders_reach_the_library(library, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("google/fleurs:de_de", "voices"):
        hf.convert(type(tmp_path)(name), tmp_path / "out")
    (tmp_path / "parquet").mkdir()
    hf.convert(tmp_path / "parquet", tmp_path / "out")
    (tmp_path / "parquet" / "dataset_dict.json").touch()
    hf.convert(tmp_path / "parquet", tmp_path / "out")
    folder = str(tmp_path / "parquet")
    assert library.loaded == [("google/fleurs", "de_de"), ("voices", None), (folder,), ("disk", folder)]
    assert sorted(path.name.rpartition("_")[0] for path in (tmp_path / "out").iterdir()) == [
        *("hf_google_fleurs_de_de", "hf_parquet", "hf_voices"),
    ]


def test_folders_of_one_name_do_not_share_their_audio(library, tmp_path):
    for owner in "ab":
        (tmp_path / owner / "voices").mkdir(parents=True)
    first, second = (hf.convert(tmp_path / owner / "voices", tmp_path / "out") for owner in "ab")
    assert first.is_file() and second.is_file() and first.parent != second.parent


def test_sets_that_are_not_wanted_are_not_written(library, tmp_path):
    path = hf.convert(tmp_path / "x", tmp_path, Selection(sets=("dev",)))
    assert [row["split"] for row in rows(path)] == ["validation"]
    assert sorted(each.name for each in path.parent.iterdir()) == [hf.TABLE, "validation"]


def test_a_dataset_without_the_wanted_splits_is_refused_and_its_table_stays(library, tmp_path):
    path = hf.convert(tmp_path / "x", tmp_path)
    before = path.read_text()
    what = "x: none of its splits, train validation test.clean, is test; name a split with --set_names test=NAME"
    with pytest.raises(DataError, match=re.escape(what)):
        hf.convert(tmp_path / "x", tmp_path, Selection(sets=("test",)))
    assert path.read_text() == before


def test_the_audio_of_sets_prepared_before_stays(library, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    library.content["test"] = library.content.pop("test.clean")
    assert main(["prepare", "hf", "voices", "--output_dir", "data"]) == 0
    before = {name: read_data_dir(Path("data", name)).wav_scp for name in ("train", "dev", "test")}
    assert main(["prepare", "hf", "voices", "--sets", "test", "--output_dir", "data"]) == 0
    for wav_scp in before.values():
        assert all(Path(path).is_file() for path in wav_scp.values())
    library.content["train"][0]["audio"]["encoded"]["bytes"] = "no bytes"  # fails, and leaves what is there
    with pytest.raises(TypeError):
        hf.convert(Path("voices"), Path("downloads"), Selection(sets=("train",)))
    (table,) = Path("downloads").glob("hf_voices_*/table.jsonl")
    assert [row["split"] for row in rows(table)] == ["test"] and Path(before["train"]["train-0000000"]).is_file()


def test_two_columns_of_audio_are_two_files(tmp_path):
    row = {name: {"path": "x.wav", "bytes": name.encode()} for name in ("audio", "clean audio")}
    (found,) = hf.table_rows(Split([row]), "train", tmp_path)
    for name in row:
        assert (tmp_path / Path(found[name]).relative_to("train")).read_bytes() == name.encode()


def test_one_split_is_drawn_from_and_files_stay_where_they_are(library, tmp_path, write_wav):
    files = [str(write_wav(tmp_path / f"{number}.wav")) for number in range(3)]
    dataset = Split([{"audio": {"path": file, "bytes": None}, "id": file[-5], "text": None} for file in files])
    found = list(hf.table_rows(dataset, "train", tmp_path / "out", Selection(columns=(("id", "id"),))))
    assert found == [{"audio": file, "id": file[-5]} for file in files]
    library.content = dataset
    assert [row.keys() for row in rows(hf.convert(tmp_path / "x", tmp_path / "out"))] == [{"id", "audio"}] * 3
    dataset = Split([{"audio": {"path": None, "bytes": None}}])
    assert list(hf.table_rows(dataset, "a b", tmp_path)) == [{"id": "a_b-0000000", "audio": ""}]


def test_errors(library, tmp_path, monkeypatch):
    library.error = KeyError("generation")
    library.error.__cause__ = ImportError("please install\n'torchcodec'.")
    with pytest.raises(
        DataError, match="x: the library datasets cannot load it \\(please install 'torchcodec'.\\); give"
    ):
        hf.convert(tmp_path / "x", tmp_path)
    library.error = FileNotFoundError("no such dataset")
    with pytest.raises(
        DataError, match="\\(no such dataset\\); give a folder, or NAME or NAME:CONFIGURATION of the Hub"
    ):
        hf.convert(tmp_path / "x", tmp_path)
    for error, what in ((IndexError("list index"), "IndexError('list index')"), (TypeError("no list"), "no list")):
        library.error = error  # of a damaged state.json
        library.exceptions = SimpleNamespace(DatasetsError=OSError)
        with pytest.raises(DataError, match=re.escape(f"the library datasets cannot load it ({what}); give a folder")):
            hf.convert(tmp_path / "x", tmp_path)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ConfigError, match="^prepare hf needs datasets; run: pip install 'espnet_diverse\\[hf\\]'$"):
        hf.convert(tmp_path / "x", tmp_path)


def test_the_library_itself(tmp_path, write_wav, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.chdir(tmp_path)
    encoded = [{"bytes": write_wav(tmp_path / "one.wav").read_bytes(), "path": "one.wav"}] * 6
    columns = {"audio": encoded, "sentence": ["Hello."] * 6, "lang": [0, 1] * 3, "id": [1] * 6}
    dataset = datasets.Dataset.from_dict(columns).cast_column("audio", datasets.Audio(16_000))
    dataset = dataset.cast_column("lang", datasets.ClassLabel(names=["de", "en"]))
    dataset.save_to_disk("saved")
    assert main(["prepare", "hf", "saved", "--output_dir", "data"]) == 0
    (tmp_path / "parquet").mkdir()
    dataset.to_parquet("parquet/train-00000-of-00001.parquet")
    assert main(["prepare", "hf", "parquet", "--output_dir", "again"]) == 0
    for folder in ("data", "again"):
        sets = [read_data_dir(tmp_path / folder / name) for name in ("train", "dev", "test")]
        assert [len(data.text) for data in sets] == [4, 1, 1]
        assert {value for data in sets for value in data.conditions["utt2lang"].values()} == {"de", "en"}


def test_a_class_that_is_not_there_is_no_label(library, tmp_path):
    library.content["train"][0]["lang"] = -1
    first, second, _ = rows(hf.convert(tmp_path / "google/fleurs:de_de", tmp_path / "downloads"))
    assert "lang" not in first and second["lang"] == "en"
