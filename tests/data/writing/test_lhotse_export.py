"""Data directories as manifests of lhotse."""

import sys
import types
from math import inf

import pytest
from references.converted_audio import encoded

from espnet_diverse.audio.segments import Segment
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.data.writing.lhotse_export import export, manifest_paths, manifests
from espnet_diverse.errors import ConfigError, DataError


def test_a_set_gives_exactly_this(data, tmp_path):
    recordings, supervisions = map(list, manifests(data, nj=1))
    source = {"type": "file", "channels": [0], "source": f"{tmp_path}/audio/a1.wav"}
    length = {"sampling_rate": 16_000, "num_samples": 8000, "duration": 0.5}
    assert [item["id"] for item in recordings] == [item["id"] for item in supervisions] == ["a1", "a2", "b1"]
    assert recordings[0] == {"id": "a1", "sources": [source], **length}
    place = {"recording_id": "a1", "start": 0.0, "duration": 0.5, "channel": 0}
    assert supervisions[0] == {"id": "a1", **place, "text": "一 二", "speaker": "a"}


def test_segments_translations_and_channels(tmp_path, write_wav):
    path = str(write_wav(tmp_path / "long.wav", seconds=2.0, channels=2))
    data = DataDir({"long": path}, {"u": "Yes."}, {"u": "anna"}, {"u": Segment("long", 0.5, 2.25)}, {"u": "ja"})
    data.conditions = {"utt2lang": {"u": "de"}, "utt2tgtlang": {"u": "en"}, "utt2domain": {"u": "home"}}
    ((recording,), (supervision,)) = map(list, manifests(data))
    assert recording["sources"][0]["channels"] == supervision["channel"] == [0, 1]
    assert (supervision["start"], supervision["duration"]) == (0.5, 1.5)  # cut at the end of the recording
    assert (supervision["text"], supervision["language"]) == ("ja", "de")
    data.segments["u"] = Segment("long", 0.5, inf, 1)
    assert supervision["custom"] == {"domain": "home", "translation": "Yes.", "target_language": "en"}


def test_a_segment_to_the_end_of_one_channel(tmp_path, write_wav):
    path = str(write_wav(tmp_path / "long.wav", seconds=2.0, channels=2))
    data = DataDir({"long": path}, {"u": "Yes."}, {"u": "anna"}, {"u": Segment("long", 0.5, inf, 1)})
    _, (supervision,) = map(list, manifests(data))
    assert (supervision["start"], supervision["duration"], supervision["channel"]) == (0.5, 1.5, 1)


def test_a_segment_past_the_end_of_its_recording_is_refused(tmp_path, write_wav):
    path = str(write_wav(tmp_path / "a.wav", seconds=1.0))
    data = DataDir({"a": path}, {"u": "b"}, {"u": "u"}, {"u": Segment("a", 3.0, 4.0)})
    recordings, supervisions = manifests(data)
    assert len(list(recordings)) == 1
    with pytest.raises(DataError, match="^u: segment from 3.0 to 4.0 s lies past the end of the audio at 1.000 s$"):
        list(supervisions)


def test_names_match_the_sets(tmp_path):
    names = [path.name for path in manifest_paths(tmp_path / "train", tmp_path)]
    assert names == ["recordings_train.jsonl.gz", "supervisions_train.jsonl.gz"]


def test_errors(data, tmp_path):
    with pytest.raises(DataError, match="^the data directory is text alone; lhotse's manifests are of recordings$"):
        manifests(DataDir(text={"a": "b"}))
    joined = tmp_path / "audio" / "two.mp3"
    joined.write_bytes(encoded() + encoded())
    with pytest.raises(DataError, match="two.mp3: is .*; write the data with espnet-diverse prepare first$"):
        list(manifests(DataDir({"a": str(joined)}, {"a": "b"}, {"a": "b"}))[0])


def test_without_the_library_the_extra_is_named(data_dir, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "lhotse", None)
    with pytest.raises(ConfigError, match=r"lhotse.*espnet_diverse\[lhotse\]"):
        export(data_dir, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_faulty_data_directory_is_refused(data_dir, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "lhotse", types.SimpleNamespace())  # refused before the library is used
    (data_dir / "text").write_text("".join((data_dir / "text").read_text().splitlines(keepends=True)[1:]))
    with pytest.raises(DataError, match="text"):
        export(data_dir, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_lhotse_reads_the_exported_manifests(data_dir, tmp_path):
    lhotse = pytest.importorskip("lhotse")
    recordings, supervisions = map(lhotse.load_manifest, export(data_dir, tmp_path / "out"))
    assert (
        [recording.id for recording in recordings] == [one.recording_id for one in supervisions] == ["a1", "a2", "b1"]
    )
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "recordings_set.jsonl.gz",
        "supervisions_set.jsonl.gz",
    ]
