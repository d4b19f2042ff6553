import pytest

from espnet_diverse.audio.segments import Segment
from espnet_diverse.data.kaldi import DataDir, evenly_spaced, read_data_dir, scan_tables, write_data_dir
from espnet_diverse.data.tables import write_table
from espnet_diverse.errors import DataError


def test_written_tables_are_read_back(tmp_path):
    data = DataDir(
        wav_scp={"r2": "/x/r2.wav", "r1": "/x/r 1.wav"},
        text={"b": "two", "a": "one", "c": "three"},
        utt2spk={"b": "s1", "a": "s2", "c": "s1"},
        segments={"b": Segment("r1", 0.5, 1.25), "a": Segment("r1", 0.0, 0.5), "c": Segment("r2", 1 / 3, 2.0)},
        conditions={"utt2lang": {"a": "en", "b": "de", "c": "en"}},
        dropped={"d": "too short"},
    )
    write_data_dir(data, tmp_path)
    assert (tmp_path / "spk2utt").read_text() == "s1 b c\ns2 a\n"
    assert (tmp_path / "segments").read_text().splitlines()[1] == "b r1 0.5 1.25"
    assert (tmp_path / "dropped.tsv").read_text() == "utterance\treason\nd\ttoo short\n"
    back = read_data_dir(tmp_path)
    assert back.tables() == data.tables()
    assert list(back.text) == back.utterances() == ["a", "b", "c"]


def test_optional_tables_of_an_earlier_write_go(tmp_path, data):
    segmented = DataDir({"r": "/r.wav"}, {"a": "x"}, {"a": "s"}, {"a": Segment("r", 0, 1)}, {"a": "t"}, {"b": "short"})
    write_data_dir(segmented, tmp_path / "out")
    write_data_dir(data, tmp_path / "out")
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["spk2utt", "text", "utt2spk", "wav.scp"]


def test_missing_directory_and_missing_table(tmp_path, data_dir):
    with pytest.raises(DataError, match="nowhere: there is no such directory; "):
        read_data_dir(tmp_path / "nowhere")
    (data_dir / "text").unlink()
    with pytest.raises(DataError, match="text: cannot be read"):
        read_data_dir(data_dir)


def test_without_utt2spk_each_utterance_has_a_speaker_of_its_own(data_dir):
    (data_dir / "utt2spk").unlink()
    data = read_data_dir(data_dir)
    assert data.utt2spk == {} and data.speaker("a2") == "a2" and data.required() == ("wav.scp", "text")
    write_data_dir(data, data_dir / "copy")
    assert not (data_dir / "copy" / "utt2spk").exists()


def test_features_are_read_in_place_of_audio(data_dir):
    write_table(data_dir / "feats.scp", {"a1": "raw.ark:3", "a2": "raw.ark:90", "b1": "raw.ark:200"})
    (data_dir / "segments").write_text("not even a table\n")
    (data_dir / "wav.scp").write_text("a1 sox |\n")
    data, faults = scan_tables(data_dir, "feats.scp")
    assert data.wav_scp["b1"] == "raw.ark:200" and not data.segments and faults == []


def test_a_directory_of_text_alone(tmp_path):
    """It has text and, in translation, src_text; no audio, speakers or empty tables."""
    languages = {"utt2lang": {"a": "de", "b": "de"}, "utt2tgtlang": {"a": "en", "b": "en"}}
    data = DataDir(text={"b": "two", "a": "one"}, src_text={"a": "eins", "b": "zwei"}, conditions=languages)
    assert data.is_text and data.utterances() == ["a", "b"]
    write_data_dir(data, tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["src_text", "text", "utt2lang", "utt2tgtlang"]
    back = read_data_dir(tmp_path)
    assert back.is_text and back.tables() == data.tables()


def test_a_directory_with_speakers_needs_its_audio(data_dir):
    (data_dir / "wav.scp").unlink()
    with pytest.raises(DataError, match="wav.scp: cannot be read"):
        read_data_dir(data_dir)


def test_text_takes_the_place_of_audio(tmp_path, data):
    write_data_dir(data, tmp_path / "out")
    write_data_dir(DataDir(text={"a": "one"}), tmp_path / "out")
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["text"]


def test_a_part_of_a_set_is_evenly_spaced_and_whole():
    names = [f"u{i}" for i in range(7)]
    data = DataDir(
        wav_scp={"r1": "/r1", "r2": "/r2"},
        text=dict.fromkeys(names, "x"),
        utt2spk=dict.fromkeys(names, "s"),
        segments={name: Segment("r2" if name == "u6" else "r1", 0, 1) for name in names},
        conditions={"utt2lang": dict.fromkeys(names, "de")},
        dropped={"v": "too short"},
    )
    part = evenly_spaced(data, 3)
    assert part.utterances() == list(part.text) == list(part.utt2spk) == ["u0", "u2", "u4"]
    assert (part.wav_scp, list(part.conditions["utt2lang"])) == ({"r1": "/r1"}, ["u0", "u2", "u4"])
    assert part.dropped == {"v": "too short"}
    assert evenly_spaced(data, 7) is data
    recordings = DataDir({"a": "/a", "b": "/b"}, {"a": "x", "b": "y"}, {"a": "s", "b": "s"})
    assert evenly_spaced(recordings, 1).tables()["wav.scp"] == {"a": "/a"}
