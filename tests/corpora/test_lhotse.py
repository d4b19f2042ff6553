"""Manifests of lhotse: their supervisions become rows; with the library where it is installed, and with a stand-in."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from espnet_diverse.audio.segments import Segment
from espnet_diverse.bin.data import prepare
from espnet_diverse.bin.main import main
from espnet_diverse.corpora import Selection, lhotse
from espnet_diverse.corpora.shared.table_files import Table
from espnet_diverse.data.kaldi import DataDir, read_data_dir, write_data_dir
from espnet_diverse.errors import ConfigError, DataError


def recording(name, path, seconds=0.5, **changes):
    source = SimpleNamespace(type="file", channels=[0], source=str(path))
    return SimpleNamespace(**({"id": name, "sources": [source], "duration": seconds, "transforms": None} | changes))


def supervision(name, of, start=0.0, duration=0.5, **changes):
    missing = dict.fromkeys(("speaker", "language", "custom"))
    values = {"id": name, "recording_id": of, "start": start, "duration": duration, "channel": 0, "text": name}
    return SimpleNamespace(**(missing | values | changes))


@pytest.fixture
def manifests(tmp_path, write_wav, monkeypatch):
    """A folder of manifests of three sets, whose content the library's stand-in has."""
    content = {}
    for name in ("train", "dev", "test"):
        (tmp_path / f"own_recordings_{name}.jsonl.gz").touch()
        (tmp_path / f"own_supervisions_{name}.jsonl.gz").touch()
        content[f"own_recordings_{name}.jsonl.gz"] = [recording(name, write_wav(tmp_path / f"{name}.wav"))]
        content[f"own_supervisions_{name}.jsonl.gz"] = [supervision(f"{name}-1", name, speaker="anna", language="en")]
    library = SimpleNamespace(content=content, load_manifest=lambda path: content[Path(path).name])
    monkeypatch.setitem(sys.modules, "lhotse", library)
    return library


def test_hidden_files_of_macos_are_no_manifests():
    assert not lhotse._NAME.fullmatch("._supervisions_train.jsonl.gz")


def test_manifests_give_exactly_this(manifests, tmp_path):
    sets = lhotse.prepare(tmp_path)
    assert tuple(sets) == lhotse.SETS
    assert sets["dev"] == DataDir(
        wav_scp={"dev-1": f"{tmp_path}/dev.wav"},
        text={"dev-1": "dev 1".replace(" ", "-")},
        utt2spk={"dev-1": "anna"},
        conditions={"utt2lang": {"dev-1": "en"}},
    )
    (tmp_path / "own_cuts_dev.jsonl.gz").touch()  # of the same supervisions
    assert lhotse.prepare(tmp_path) == sets
    sets = lhotse.prepare(tmp_path / "own_supervisions_dev.jsonl.gz", Selection(sets=("test",)))
    assert list(sets["test"].text) == ["dev-1"]


def test_a_file_of_supervisions_is_prepared_again_where_the_recordings_beside_it_change(tmp_path):
    def read(source):
        return prepare.inputs(SimpleNamespace(name="lhotse", source=source))

    both = [tmp_path / f"own_{kind}_dev.jsonl.gz" for kind in ("supervisions", "recordings")]
    assert read(both[0]) == both
    for alone in (tmp_path, tmp_path / "own_cuts_dev.jsonl.gz"):  # a folder's digest is that of all its files
        assert read(alone) == [alone]


def test_parts_custom_fields_and_cuts(tmp_path):
    rows = Table(tmp_path)
    one = recording("r", "one.wav", 4.0)
    custom = {"domain": "home", "translation": "Ja.", "other": 1}
    lhotse.add_supervisions(rows, [supervision("a", "r", 0.5, 1.0, custom=custom)], {"r": one}, {"split": "dev"})
    cut = SimpleNamespace(id="c", recording=one, start=1.0, supervisions=[supervision("b", "r", -0.25, 1.0)])
    lhotse.add_cuts(rows, [cut], {})
    audio = str(Path("one.wav").absolute())
    expected = {"id": "a", "audio": audio, "text": "a", "start": 0.5, "end": 1.5, "domain": "home"}
    assert [row.values for row in rows.rows] == [
        expected | {"translation": "Ja.", "split": "dev"},
        {"id": "b", "audio": audio, "text": "b", "start": 0.75, "end": 1.75},
    ]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"recording_id": "x"}, "its recording 'x' is not in the manifest of recordings; add it"),
        ({"of": {"transforms": [1]}}, "its recording 'r' is augmented; only recordings as they are on disk are read"),
        ({"of": {"sources": [SimpleNamespace(type="command")]}}, "its recording 'r' has the sources command; only one"),
        (
            {"of": {"sources": [SimpleNamespace(type="file", channels=[0, 1], source="x")]}},
            "is of one channel of its recording 'r', which has several; save that channel as a file",
        ),
    ],
)
def test_supervisions_without_a_plain_audio_file_are_faults(changes, what):
    rows = Table(Path("manifests"))
    one = recording("r", "one.wav", **changes.pop("of", {}))
    lhotse.add_supervisions(rows, [supervision("a", "r", **changes)], {"r": one}, {})
    (fault,) = rows.faults
    assert rows.rows == [] and str(fault).startswith(f"manifests: a: {what}")


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"start": None}, "unsupported operand"),
        ({"start": "1.0"}, "unsupported operand"),
        ({"duration": 10**400}, "int too large"),
        ({"recording_id": ["r"]}, "unhashable type"),
        ({"custom": [1]}, "'list' object has no attribute"),
        ({"of": {"duration": "2"}}, "unsupported operand"),
        ({"of": {"duration": None}}, "unsupported operand"),
    ],
)
def test_a_value_of_a_wrong_kind_is_a_fault_of_its_supervision_alone(changes, what):
    rows = Table(Path("manifests"))
    recordings = {"r": recording("r", "one.wav", **changes.pop("of", {})), "s": recording("s", "two.wav")}
    lhotse.add_supervisions(rows, [supervision("a", "r", **changes), supervision("b", "s")], recordings, {})
    (fault,) = rows.faults
    assert str(fault).startswith(f"manifests: a: it or its recording has a value of a wrong kind ({what}")
    assert [row.where for row in rows.rows] == ["b"]


def test_two_recordings_of_one_id_and_ids_that_are_none_are_refused(manifests, tmp_path):
    content = manifests.content["own_recordings_dev.jsonl.gz"]
    content.append(recording("dev", content[0].sources[0].source))
    assert lhotse.prepare(tmp_path)["dev"].text
    content.append(recording("dev", "other.wav"))
    content.append(recording(["x"], "other.wav"))
    with pytest.raises(DataError) as caught:
        lhotse.prepare(tmp_path)
    for said in (r"dev: two recordings that differ have this id; write", r"\['x'\]: is no id of a recording; write"):
        assert re.search(f"own_recordings_dev.jsonl.gz: {said} the manifest again", str(caught.value))


def test_faults_and_missing_values_name_the_supervision(manifests, tmp_path):
    manifests.content["own_supervisions_dev.jsonl.gz"] += [supervision("dev-2", "nowhere"), supervision("dev-3", "dev")]
    with pytest.raises(DataError) as caught:
        lhotse.prepare(tmp_path)
    assert re.search(r"dev-2: its recording 'nowhere' .*dev-3: language None: is empty;", str(caught.value))
    manifests.content["own_supervisions_dev.jsonl.gz"] = [supervision("dev-2", "nowhere")]
    with pytest.raises(DataError, match="dev-2: its recording"):
        lhotse.prepare(tmp_path / "own_supervisions_dev.jsonl.gz")


def test_cuts_without_a_recording(tmp_path):
    rows = Table(Path("cuts.jsonl"))
    lhotse.add_cuts(rows, [SimpleNamespace(id="c")], {})
    what = "is a SimpleNamespace without a recording; only cuts of one recording are read"
    assert list(map(str, rows.faults)) == [f"cuts.jsonl: c: {what}"]


def test_errors(manifests, tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="empty: there are no manifests of lhotse; the names are such as supervisions_"):
        lhotse.prepare(tmp_path / "empty")
    (tmp_path / "own_recordings_dev.jsonl.gz").unlink()
    with pytest.raises(DataError, match="own_recordings_dev.jsonl.gz: there is no such manifest; supervisions need"):
        lhotse.prepare(tmp_path)
    del manifests.content["own_supervisions_dev.jsonl.gz"]
    with pytest.raises(
        DataError, match="lhotse cannot read it \\(KeyError: 'own_supervisions_dev.*\\); write it again"
    ):
        lhotse.prepare(tmp_path)
    monkeypatch.setitem(sys.modules, "lhotse", None)
    with pytest.raises(
        ConfigError, match="^prepare lhotse needs lhotse; run: pip install 'espnet_diverse\\[lhotse\\]'$"
    ):
        lhotse.prepare(tmp_path)


def test_the_library_itself_there_and_back(tmp_path, data, monkeypatch):
    """A data directory of three sets goes to manifests and comes back as it was, and so does one with segments."""
    pytest.importorskip("lhotse")
    monkeypatch.chdir(tmp_path)
    data.conditions["utt2domain"] = dict.fromkeys(data.text, "home")
    data.text = {"a1": "one two", "a2": "three", "b1": "four five"}
    for name in lhotse.SETS:
        renamed = DataDir(
            *({f"{name}-{u}": value for u, value in table.items()} for table in (data.wav_scp, data.text))
        )
        renamed.utt2spk = {f"{name}-{u}": f"{name}-{speaker}" for u, speaker in data.utt2spk.items()}
        renamed.conditions = {"utt2domain": dict.fromkeys(renamed.text, "home")}
        write_data_dir(renamed, tmp_path / "before" / name)
        assert main(["export", "lhotse", f"before/{name}", "--output", "manifests"]) == 0
    assert main(["prepare", "lhotse", "manifests", "--output_dir", "after"]) == 0
    for name in lhotse.SETS:
        assert read_data_dir(tmp_path / "after" / name) == read_data_dir(tmp_path / "before" / name)
    segments = {"p1": Segment("audio-a1", 0.0, 0.25), "p2": Segment("audio-a1", 0.25, 0.5)}
    wavs = {"audio-a1": data.wav_scp["a1"]}
    parts = DataDir(wavs, {"p1": "one", "p2": "two"}, {"p1": "anna", "p2": "ben"}, segments)
    write_data_dir(parts, tmp_path / "parts")
    assert main(["export", "lhotse", "parts", "--output", "cut"]) == 0
    assert lhotse.prepare(Path("cut/supervisions_parts.jsonl.gz"), Selection(sets=("test",))) == {"test": parts}


def test_cuts_alone_are_read_as_they_are(manifests, tmp_path, write_wav):
    for path in tmp_path.glob("*supervisions*"):
        path.unlink()
    for name in lhotse.SETS:
        (tmp_path / f"own_cuts_{name}.jsonl.gz").touch()
        one = recording(name, write_wav(tmp_path / f"{name}.wav"))
        cut = SimpleNamespace(id=name, recording=one, start=0.0, supervisions=[supervision(f"{name}-1", name)])
        manifests.content[f"own_cuts_{name}.jsonl.gz"] = [cut]
    assert {name: list(data.text) for name, data in lhotse.prepare(tmp_path).items()} == {
        name: [f"{name}-1"] for name in lhotse.SETS
    }
