from math import inf
from pathlib import Path

import numpy as np
import pytest
import soundfile
from references.converted_audio import KINDS

from espnet_diverse.audio.ark import CODED
from espnet_diverse.audio.reading import read_audio
from espnet_diverse.audio.segments import Segment
from espnet_diverse.audio.sources import open_audio
from espnet_diverse.data.checks.plausibility import CANCELLED
from espnet_diverse.data.checks.validate import find_faults, validate
from espnet_diverse.data.kaldi import DataDir, read_data_dir, write_data_dir
from espnet_diverse.data.writing import formatting
from espnet_diverse.data.writing.format_options import FormatOptions
from espnet_diverse.data.writing.formatting import format_data
from espnet_diverse.errors import ConfigError, DataError


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_ready_audio_is_named_where_it_lies(tmp_path, data):
    out = tmp_path / "data"
    summary = format_data({"train": data}, out)["train"]
    assert sorted(tree(out / "train")) == [".prepared.json", "spk2utt", "text", "utt2spk", "wav.scp"]
    assert read_data_dir(out / "train").tables() == data.tables()
    assert (summary.utterances, summary.speakers, summary.dropped) == (3, 2, 0)
    assert summary.seconds == pytest.approx(1.5)


def test_relative_paths_become_absolute(tmp_path, data, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data.wav_scp = {name: f"audio/{name}.wav" for name in data.wav_scp}
    format_data({"train": data}, Path("data"), FormatOptions((0.9, 1.0)))
    written = read_data_dir(Path("data/train")).wav_scp
    assert written["a1"] == str(tmp_path / "audio/a1.wav")
    assert written["sp0.9-a1"] == str(tmp_path / "data/train/wav/sp0.9-a/sp0.9-a1.wav")


@pytest.mark.parametrize("audio_format", ["wav", "flac"])
def test_other_audio_is_brought_to_sixteen_kilohertz_mono(tmp_path, data, write_wav, audio_format):
    write_wav(Path(data.wav_scp["a1"]), rate=8000, channels=2)
    write_wav(Path(data.wav_scp["a2"]), rate=44100)
    summary = format_data({"test": data}, tmp_path / "data", FormatOptions(audio_format=audio_format))["test"]
    out = read_data_dir(tmp_path / "data" / "test")
    assert out.wav_scp["b1"] == data.wav_scp["b1"]
    for name in ("a1", "a2"):
        assert out.wav_scp[name].endswith(f"test/wav/a/{name}.{audio_format}")
        info = soundfile.info(out.wav_scp[name])
        assert (info.samplerate, info.channels, info.subtype, info.frames) == (16000, 1, "PCM_16", 8000)
    assert dict(summary.converted) == {"8000 Hz, 2 channels": 1, "44100 Hz": 1}
    validate(tmp_path / "data" / "test")


def test_another_rate(tmp_path, data, write_wav):
    for name, rate in {"a1": 8000, "a2": 44_100, "b1": 16_000}.items():
        write_wav(Path(data.wav_scp[name]), rate=rate)
    options = FormatOptions((0.9, 1.0), rate=8000)
    summary = format_data({"train": data}, tmp_path / "data", options)["train"]
    out = read_data_dir(tmp_path / "data" / "train")
    assert out.wav_scp["a1"] == data.wav_scp["a1"]  # which is ready
    for name, path in out.wav_scp.items():
        seconds = 0.5 / 0.9 if name.startswith("sp0.9-") else 0.5
        info = soundfile.info(path)
        assert info.samplerate == 8000 and info.duration == pytest.approx(seconds, abs=1e-3)
        samples, _ = soundfile.read(path)
        pitch = np.argmax(np.abs(np.fft.rfft(samples))) / info.duration
        assert pitch == pytest.approx(440 * 0.5 / seconds, abs=2)
    assert dict(summary.converted) == {"44100 Hz": 1, "16000 Hz": 1}
    assert summary.seconds == pytest.approx(3 * (0.5 + 0.5 / 0.9), abs=0.01)
    validate(tmp_path / "data" / "train", rate=8000)


def test_segments_at_another_rate(tmp_path, tone):
    soundfile.write(tmp_path / "r.wav", tone(2.0, 8000), 8000)
    data = DataDir({"r": str(tmp_path / "r.wav")}, {"a": "x"}, {"a": "s"}, {"a": Segment("r", 0.25, 0.75)})
    format_data({"dev": data}, tmp_path / "data", FormatOptions(rate=8000))
    samples, rate = soundfile.read(read_data_dir(tmp_path / "data" / "dev").wav_scp["a"], dtype="float32")
    assert rate == 8000
    np.testing.assert_array_equal(samples, tone(2.0, 8000)[2000:6000])


@pytest.mark.usefixtures("ffmpeg")
def test_audio_that_libsndfile_cuts_short_is_converted(tmp_path):
    """Each of these files was refused or lost audio when only libsndfile read it."""
    folders = {name.replace(" ", "-"): tmp_path / name for name in KINDS}
    data = DataDir()
    for (name, folder), (make, _) in zip(folders.items(), KINDS.values(), strict=True):
        folder.mkdir()
        data.wav_scp[name], data.text[name], data.utt2spk[name] = str(make(folder)), "x", name
    with pytest.raises(DataError, match="^6 faults: .*/x.mp3: training does not read concatenated mp3; conv"):
        validate(data, rate=16000)
    summary = format_data({"test": data}, tmp_path / "data")["test"]
    assert dict(summary.converted) == {title: 1 for _, title in KINDS.values() if title}
    out = read_data_dir(tmp_path / "data" / "test")
    for name, path in data.wav_scp.items():
        with open_audio(path) as audio:
            transcribed = np.concatenate(list(audio.blocks()))
        samples, rate = soundfile.read(out.wav_scp[name], dtype="float32")
        assert rate == 16000 and len(samples) / rate == pytest.approx(2.0, abs=0.15)
        np.testing.assert_allclose(samples, transcribed, atol=0.5 / 32768)
    validate(out, rate=16000)


def test_segments_are_cut(tmp_path, tone):
    soundfile.write(tmp_path / "r.wav", tone(2.0), 16000)
    segments = {"a": Segment("r", 0.25, 0.75), "b": Segment("r", 1.0, 2.0)}
    data = DataDir({"r": str(tmp_path / "r.wav")}, {"a": "x", "b": "y"}, {"a": "s", "b": "s"}, segments)
    format_data({"dev": data}, tmp_path / "data")
    out = read_data_dir(tmp_path / "data" / "dev")
    assert not out.segments
    for name, (_, start, end, _) in segments.items():
        samples, _ = soundfile.read(out.wav_scp[name], dtype="float32")
        np.testing.assert_array_equal(samples, tone(2.0)[round(start * 16000) : round(end * 16000)])


def test_a_segment_to_the_end_of_one_channel(tmp_path, tone):
    soundfile.write(tmp_path / "r.wav", np.stack([0 * tone(1.5), tone(1.5)], axis=1), 16000)
    data = DataDir({"r": str(tmp_path / "r.wav")}, {"a": "x"}, {"a": "s"}, {"a": Segment("r", 0.25, inf, 1)})
    write_data_dir(data, tmp_path / "kaldi" / "dev")
    assert (tmp_path / "kaldi" / "dev" / "segments").read_text() == "a r 0.25 -1 1\n"
    validate(tmp_path / "kaldi" / "dev")
    summary = format_data({"dev": read_data_dir(tmp_path / "kaldi" / "dev")}, tmp_path / "data")["dev"]
    assert summary.seconds == 1.25
    samples, _ = soundfile.read(read_data_dir(tmp_path / "data" / "dev").wav_scp["a"], dtype="float32")
    np.testing.assert_array_equal(samples, tone(1.5)[4000:])


def test_channels_that_cancel_are_no_silence(tmp_path, tone, write_wav):
    """Of a recording with one microphone in opposite phase, each channel can be heard, and their mean cannot."""
    noise = 0.001 * np.random.default_rng(0).standard_normal(16000)
    soundfile.write(tmp_path / "r.wav", np.stack([tone(1.0), noise - tone(1.0)], axis=1), 16000)
    good = str(write_wav(tmp_path / "good.wav", channels=2))
    data = DataDir({"r": str(tmp_path / "r.wav"), "good": good}, {"r": "x", "good": "y"}, {"r": "s", "good": "s"})
    (fault,) = [fault for fault in find_faults(data) if fault.kind == "silent"]
    assert str(fault) == f"wav.scp: r: {tmp_path}/r.wav: {CANCELLED}"
    format_data({"dev": data}, tmp_path / "data")
    assert (tmp_path / "data" / "dev" / "dropped.tsv").read_text() == f"utterance\treason\nr\t{CANCELLED}\n"
    data.segments.update(r=Segment("r", 0.0, 0.5, 0), good=Segment("good", 0.0, 0.4))
    assert not [fault for fault in find_faults(data) if fault.kind == "silent"]


def test_speed_perturbation_is_for_the_training_set(tmp_path, data):
    data.conditions["utt2domain"] = {"a1": "news", "a2": "news", "b1": "music"}
    summaries = format_data({"train": data, "dev": data}, tmp_path / "data", FormatOptions((0.9, 1.0, 1.1)))
    train, dev = read_data_dir(tmp_path / "data" / "train"), read_data_dir(tmp_path / "data" / "dev")
    assert list(dev.text) == ["a1", "a2", "b1"]
    assert list(train.text) == [prefix + name for prefix in ("", "sp0.9-", "sp1.1-") for name in ("a1", "a2", "b1")]
    assert train.text["sp0.9-b1"] == "four five"
    assert train.utt2spk["sp0.9-b1"] == "sp0.9-b"
    assert train.conditions["utt2domain"]["sp1.1-b1"] == "music"
    assert soundfile.info(train.wav_scp["sp1.1-b1"]).duration == pytest.approx(0.5 / 1.1, abs=1e-3)
    assert (summaries["train"].utterances, summaries["train"].speakers) == (9, 6)
    validate(tmp_path / "data" / "train")


def test_too_short_and_too_long_are_dropped_with_a_list(tmp_path, data, write_wav):
    write_wav(Path(data.wav_scp["a1"]), seconds=0.05)
    write_wav(Path(data.wav_scp["b1"]), seconds=2.1)
    data.dropped = {"c1": "audio without transcript"}
    form = FormatOptions((0.9, 1.0), max_seconds=2.2)
    summary = format_data({"train": data}, tmp_path / "data", form)["train"]
    assert (tmp_path / "data" / "train" / "dropped.tsv").read_text().splitlines() == [
        "utterance\treason",
        "a1\t0.050 s, shorter than 0.1 s",
        "c1\taudio without transcript",
        "sp0.9-a1\t0.056 s, shorter than 0.1 s",
        "sp0.9-b1\t2.333 s, longer than 2.2 s",
    ]
    assert list(read_data_dir(tmp_path / "data" / "train").text) == ["a2", "b1", "sp0.9-a2"]
    # Accounting: 2 speeds of 3 utterances and one that came in dropped.
    assert (summary.utterances, summary.dropped) == (3, 4)


def test_nothing_left_is_an_error(tmp_path, data):
    with pytest.raises(DataError, match="^dev: no utterance is left; all 3 are dropped, the first is a1: 0.500 s, sho"):
        format_data({"dev": data}, tmp_path / "data", FormatOptions(min_seconds=1.0))
    assert not (tmp_path / "data").exists()


def test_second_run_gives_the_same(tmp_path, data):
    form = FormatOptions((0.9, 1.0))
    format_data({"train": data}, tmp_path / "data", form)
    first = tree(tmp_path / "data")
    format_data({"train": data}, tmp_path / "data", form, nj=1)
    assert tree(tmp_path / "data") == first


def spoil(data: DataDir, tmp_path: Path) -> None:
    soundfile.write(data.wav_scp["a1"], np.array([0.0, np.nan] * 4000, np.float32), 16000, subtype="FLOAT")
    Path(data.wav_scp["b1"]).write_text("not audio")


def test_unusable_audio_stops_everything_and_leaves_nothing(tmp_path, data, write_wav):
    other = DataDir({"c1": str(write_wav(tmp_path / "c1.wav"))}, {"c1": "x"}, {"c1": "c"})
    spoil(data, tmp_path)
    with pytest.raises(DataError, match="2 faults: dev: a1: .*a1.wav: holds NaN.*; dev: b1: .*not readable"):
        format_data({"train": other, "dev": data}, tmp_path / "data", FormatOptions((0.9, 1.0)))
    assert not (tmp_path / "data").exists()


def test_faults_of_utterances_leave_them_out_up_to_a_share(tmp_path, data, monkeypatch):
    """Faults of tables and of audio count together, also of the reader."""
    drop, target = FormatOptions(on_bad="drop"), tmp_path / "out"
    data.text["a1"], data.dropped["x"] = "<unk>", "odd"
    data.bad.add("x")
    Path(data.wav_scp["a2"]).write_bytes(b"")
    summary = format_data({"test": data}, target, drop)["test"]
    assert (summary.utterances, summary.dropped, summary.bad, summary.share()) == (1, 3, 3, "75.00%, 3 with faults")
    listed = (target / "test" / "dropped.tsv").read_text()
    assert "a1\ttranscript contains the reserved symbol <unk>" in listed and "a2\t" in listed and "x\todd" in listed
    monkeypatch.setattr(formatting, "FEW", 1)
    with pytest.raises(DataError, match="^test: at least 2 of 4 utterances .50.00%. have faults, such as a1: tr"):
        format_data({"test": data}, target, drop)
    with pytest.raises(DataError, match="^test: at least 3 of 4 utterances .75.00%. have faults, such as a1: .*60.00%"):
        format_data({"test": data}, target, FormatOptions(on_bad="drop", max_bad=0.6))
    data.text["b1"] = "\7"
    with pytest.raises(DataError, match="^test: no utterance is left; all "):
        format_data({"test": data}, target, FormatOptions(on_bad="drop", max_bad=1))


def test_failure_keeps_the_earlier_result(tmp_path, data):
    format_data({"train": data}, tmp_path / "data", FormatOptions((0.9,)))
    before = tree(tmp_path / "data")
    spoil(data, tmp_path)
    with pytest.raises(DataError):
        format_data({"train": data}, tmp_path / "data", FormatOptions((0.9,)))
    assert tree(tmp_path / "data") == before


def test_faulty_tables_name_their_set(tmp_path, data):
    del data.text["b1"]
    with pytest.raises(DataError, match="^dev/wav.scp: b1: audio without transcript in text"):
        format_data({"dev": data}, tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_id_that_perturbation_makes_twice(tmp_path, data):
    for table in (data.wav_scp, data.text, data.utt2spk):
        table["sp0.9-a1"] = table["a1"]
    with pytest.raises(DataError, match="^train: sp0.9-a1: another utterance has this id"):
        format_data({"train": data}, tmp_path / "data", FormatOptions((0.9, 1.0)))


def test_foreign_directories_and_the_audio_itself_are_not_replaced(tmp_path, data):
    before = tree(tmp_path)
    with pytest.raises(DataError, match="audio: exists and is no data directory; move it away"):
        format_data({"audio": data}, tmp_path)
    assert tree(tmp_path) == before
    format_data({"train": data}, tmp_path / "data", FormatOptions((0.9,)))
    prepared, before = read_data_dir(tmp_path / "data" / "train"), tree(tmp_path)
    with pytest.raises(DataError, match="train: would be replaced, but contains the audio of sp0.9-a1"):
        format_data({"train": prepared}, tmp_path / "data")
    assert tree(tmp_path) == before
    with pytest.raises(DataError, match="output directory: .*contains a pipe"):
        format_data({"train": data}, tmp_path / "a|b")
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"file: cannot be written \(.*Not a directory"):
        format_data({"train": data}, tmp_path / "file")


def test_text_alone_is_written_as_it_is(tmp_path):
    data = DataDir(text={"a": "one"}, src_text={"a": "eins"}, dropped={"b": "empty line in train.de"})
    summary = format_data({"train": data}, tmp_path)["train"]
    assert (str(summary), summary.dropped) == ("1 sentences", 1)
    assert sorted(tree(tmp_path)) == ["train/.prepared.json", "train/dropped.tsv", "train/src_text", "train/text"]
    format_data({"train": data}, tmp_path)  # a directory of text alone may be replaced
    with pytest.raises(ConfigError, match="^speed factors are for audio, and these sets are text alone; omit --speed"):
        format_data({"train": data}, tmp_path, FormatOptions((0.9, 1.0)))


def test_arks_equal_separate_files(tmp_path, data, write_wav):
    write_wav(Path(data.wav_scp["a2"]), seconds=1.0, rate=8000, channels=2)
    files = format_data({"train": data}, tmp_path / "files", FormatOptions((0.9, 1.0)))["train"]
    arks = format_data({"train": data}, tmp_path / "arks", FormatOptions((0.9, 1.0), audio_format="ark", shards=2))[
        "train"
    ]
    assert (arks.utterances, arks.seconds, arks.converted) == (files.utterances, files.seconds, files.converted)
    there = sorted(path.name for path in (tmp_path / "arks" / "train").iterdir())
    assert there == [".prepared.json", "spk2utt", "text", "utt2spk", "wav.1.ark", "wav.2.ark", "wav.scp"]
    one, two = (read_data_dir(tmp_path / folder / "train") for folder in ("files", "arks"))
    assert one.wav_scp.keys() == two.wav_scp.keys() and one.utt2spk == two.utt2spk
    for name, path in one.wav_scp.items():
        np.testing.assert_array_equal(read_audio(Path(two.wav_scp[name]))[0], read_audio(Path(path))[0])
    assert {name[-2:]: Path(entry).name[:9] for name, entry in two.wav_scp.items()} == {
        "a1": "wav.1.ark",
        "a2": "wav.2.ark",
        "b1": "wav.2.ark",
    }
    assert find_faults(two) == []
    # Entries of arks are no files of the set, and are written again.
    again = format_data({"dev": two}, tmp_path / "again", FormatOptions(audio_format="flac"))["dev"]
    assert again.converted == {CODED: 6} and read_data_dir(tmp_path / "again" / "dev").wav_scp["a1"].endswith("a1.flac")


def test_no_more_arks_than_recordings(tmp_path, data):
    format_data({"test": data}, tmp_path, FormatOptions(audio_format="ark", shards=9))
    assert len(list((tmp_path / "test").glob("*.ark"))) == 3


def test_speakers_are_optional_and_other_tables_go_with_them(tmp_path, data):
    data.extra = {"spk2gender": {"a": "f", "b": "m", "c": "m"}, "utt2note": {"a1": "loud now", "x": "-"}}
    format_data({"train": data}, tmp_path, FormatOptions((0.9, 1.0)))
    assert (tmp_path / "train" / "spk2gender").read_text() == "a f\nb m\nsp0.9-a f\nsp0.9-b m\n"
    assert (tmp_path / "train" / "utt2note").read_text() == "a1 loud now\nsp0.9-a1 loud now\n"
    data.utt2spk = {}
    summary = format_data({"test": data}, tmp_path)["test"]
    assert summary.speakers == 3 and read_data_dir(tmp_path / "test").utt2spk == {name: name for name in data.text}


def test_silent_and_implausible_utterances_are_dropped_with_a_reason(tmp_path, data, write_wav):
    soundfile.write(data.wav_scp["a1"], np.zeros(8000, np.int16), 16000)
    data.text["a2"] = "..."
    for name in ("c1", "d1"):
        data.wav_scp[name] = str(write_wav(tmp_path / "audio" / f"{name}.wav", hertz=700))
        data.text[name], data.utt2spk[name] = "x" * 3000 if name == "c1" else "fine", name
    summary = format_data({"train": data}, tmp_path / "data", FormatOptions((0.9, 1.0)))["train"]
    assert (summary.utterances, summary.dropped) == (4, 6)
    listed = (tmp_path / "data" / "train" / "dropped.tsv").read_text()
    assert "a1\tis silent" in listed and "sp0.9-a2\tthe transcript has no letter or digit" in listed
    assert "c1\tthe transcript has 3000 characters for 0.50 s of audio; at most 40 a second are expected" in listed
