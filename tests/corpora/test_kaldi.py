"""Kaldi directories: exactly the expected sets; commands become files; each error by its text."""

import shutil
import sys
from pathlib import Path

import kaldiio
import numpy as np
import pytest
import soundfile
from references.data_fixtures import digests
from references.prepared import write_prepared
from references.traced import traced

from espnet_diverse.audio.reading import read_audio
from espnet_diverse.audio.segments import Segment
from espnet_diverse.bin.main import main
from espnet_diverse.corpora import Selection, kaldi
from espnet_diverse.data.kaldi import DataDir, keep_utterances, read_data_dir
from espnet_diverse.data.writing.format_audio import AudioFormat, Kept, Outcome, prefix
from espnet_diverse.data.writing.format_options import FormatOptions
from espnet_diverse.data.writing.formatting import format_data
from espnet_diverse.errors import ConfigError, DataError


@pytest.fixture
def folder(tmp_path, monkeypatch, write_wav):
    """The current folder, with the directories data/tr, data/dev and data/test of two recordings each."""
    monkeypatch.chdir(tmp_path)
    for name in ("tr", "dev", "test"):
        place = Path("data", name)
        place.mkdir(parents=True)
        wavs = [write_wav(place / "audio" / f"{part}.wav", seconds=1.0) for part in "ab"]
        (place / "wav.scp").write_text("".join(f"{name}-{wav.stem} {wav}\n" for wav in reversed(wavs)))
        (place / "text").write_text(f"{name}-b GOOD, MORNING\n{name}-a  ONE\n")
    return tmp_path


NAMED = Selection(set_names=(("train", "tr"),))


def replace_text(path: Path, old: str, new: str) -> None:
    """Replace text in a file that has it."""
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def test_directories_give_exactly_this(folder, caplog):
    place = folder / "data" / "tr"
    (place / "segments").write_text("tr-2 tr-a 0.5 1.0\ntr-1 tr-b 0 0.25\n")
    (place / "text").write_text("tr-2 TWO\ntr-1 ONE\n")
    (place / "utt2spk").write_text("tr-1 anna\ntr-2 ben\n")
    (place / "spk2utt").write_text("of another time\n")
    (place / "spk2gender").write_text("ben m\nanna f\nclara f\n")
    (place / "utt2dur").write_text("tr-1 0.25\ntr-2 0.5\n")
    (place / "README").write_text("read me\n")
    (place / "utt2lang").write_text("tr-1 xx\ntr-2 xx\n")
    sets = kaldi.prepare(Path("data"), NAMED)
    assert tuple(sets) == kaldi.SETS
    assert keep_utterances(sets["train"], {"tr-1", "tr-2"}) == DataDir(
        wav_scp={f"tr-{part}": f"{place}/audio/{part}.wav" for part in "ab"},
        text={"tr-1": "ONE", "tr-2": "TWO"},
        utt2spk={"tr-1": "anna", "tr-2": "ben"},
        segments={"tr-1": Segment("tr-b", 0.0, 0.25), "tr-2": Segment("tr-a", 0.5, 1.0)},
        conditions={"utt2lang": {"tr-1": "xx", "tr-2": "xx"}},
        extra={"spk2gender": {"anna": "f", "ben": "m", "clara": "f"}},
    )
    assert sets["test"].text == {"test-a": "ONE", "test-b": "GOOD, MORNING"} and sets["test"].utt2spk == {}
    said = "notice: data/tr: left out, as they are not tables of utterances: README"
    assert said in [record.getMessage() for record in caplog.records]


def test_one_directory_is_the_set_that_is_named_or_sets_are_drawn(folder):
    (data,) = kaldi.prepare(Path("data/tr"), Selection(sets=("dev",))).values()
    assert list(data.text) == ["tr-a", "tr-b"]
    with pytest.raises(ConfigError, match=r"^data/test: is one data directory; name its set with --sets test$"):
        kaldi.prepare(Path("data/test"))
    with pytest.raises(ConfigError, match="name its set with --sets train$"):
        kaldi.prepare(Path("data/tr"), NAMED)
    place = Path("data/all")
    shutil.copytree("data/tr", place)
    (place / "wav.scp").write_text("".join(f"r{n} data/tr/audio/a.wav\n" for n in range(6)))
    (place / "segments").write_text("".join(f"u{n} r{n // 2} {n % 2} {n % 2 + 1}\n" for n in range(12)))
    (place / "text").write_text("".join(f"u{n} word\n" for n in range(12)))
    sets = kaldi.prepare(place)
    recordings = [{segment.recording for segment in data.segments.values()} for data in sets.values()]
    assert sorted(map(len, recordings)) == [1, 1, 4] and len(set.union(*recordings)) == 6
    assert [set(data.wav_scp) for data in sets.values()] == recordings
    (place / "utt2spk").write_text("".join(f"u{n} s{n // 6}\n" for n in range(12)))
    with pytest.raises(DataError, match="divided into .*; give a folder with a data directory for each set, add"):
        kaldi.prepare(place)
    assert len(kaldi.prepare(place, Selection(split_by="audio"))["train"].wav_scp) == 4


def test_faults_are_found_before_sets_are_drawn_or_utterances_left_out(folder, capsys):
    """A line without audio would be in no set, and be lost."""
    place = Path("data/tr")
    (place / "wav.scp").write_text("".join(f"u{n} data/tr/audio/a.wav\n" for n in range(6)))
    (place / "text").write_text("".join(f"u{n} word\n" for n in range(7)))
    with pytest.raises(DataError, match="text: u6: transcript without audio"):
        kaldi.prepare(place)
    some = ["--sets", "train", "--train_utterances", "3", "--output_dir", "out"]
    assert main(["prepare", "kaldi", "data/tr", *some]) == 1
    assert "u6: transcript without audio" in capsys.readouterr().err
    sets = kaldi.prepare(place, Selection(on_bad="drop", sets=("dev", "test")))
    assert [data.dropped for data in sets.values()] == [{"u6": "has no audio in wav.scp or segments"}, {}]


def test_faults_of_lines_leave_out_their_utterances_alone(folder):
    """A fault of a recording leaves out its segments."""
    place = Path("data/test")
    (place / "text").open("a").write("test-c <unk>\ntest-d d\ntest-a again\n")
    (place / "wav.scp").open("a").write("test-c data/test/audio/a.wav\ntest-d sox a.wav |\n")
    with pytest.raises(DataError, match="^3 faults: "):
        kaldi.prepare(place, Selection(sets=("test",)))
    (data,) = kaldi.prepare(place, Selection(sets=("test",), on_bad="drop")).values()
    assert data.utterances() == ["test-a", "test-b"] and data.text["test-a"] != "again"
    assert {*data.dropped} == {"test-a-line5", "test-c", "test-d"} == {*data.bad}
    assert "text:3: transcript contains the reserved symbol <unk>" in data.dropped["test-c"]


def test_utterances_that_lack_something_are_dropped_on_request(folder):
    place = Path("data/test")
    (place / "wav.scp").open("a").write(f"test-c {'g' * 300}\ntest-d gone.ark:3\ntest-e data/test/audio/a.wav\n")
    (place / "text").open("a").write("test-c c\ntest-d d\ntest-f f\ntest-e \n")
    (place / "utt2note").write_text("test-a loud\ntest-c soft\n")
    selection = Selection(sets=("test",), on_bad="drop")
    assert kaldi.prepare(place, selection)["test"].dropped == {
        "test-c": f"{folder}/{'g' * 300} does not exist",  # no file can be called so
        "test-d": f"{folder}/gone.ark:3 does not exist",
        "test-e": "text:6: empty transcript; add the text or remove the utterance",
        "test-f": "has no audio in wav.scp or segments",
    }
    (data,) = kaldi.prepare(place, selection).values()
    assert data.utterances() == ["test-a", "test-b"] == list(data.wav_scp) == list(data.text)
    assert dict(data.extra["utt2note"]) == {"test-a": "loud"}
    format_data({"test": data}, Path("out"))
    assert Path("out/test/utt2note").read_text() == "test-a loud\n"
    with pytest.raises(DataError, match="text:6: empty transcript; add the text or remove the utterance"):
        kaldi.prepare(place, Selection(sets=("test",)))


def test_commands_are_written_as_files_where_that_is_allowed(folder, caplog, capsys):
    replace_text(Path("data/tr/wav.scp"), f"{Path('data/tr/audio/b.wav')}", "cat data/tr/audio/b.wav | cat |")
    before = Path("data/tr/wav.scp").read_text()
    given = ["prepare", "kaldi", "data", "--set_names", "train=tr", "--output_dir", "out"]
    assert main(given) == 1
    assert "contains a pipe; commands are not run: give the path of a file, or let espnet" in capsys.readouterr().err
    assert main([*given, "--allow_pipes", "--download_dir", "downloads"]) == 0
    assert "notice: commands of wav.scp are run without a shell: cat (2)" in caplog.messages
    prepared = read_data_dir(Path("out/train"))
    assert prepared.wav_scp["tr-b"] in map(str, folder.glob("downloads/kaldi_data_*/tr/wav/0000000.wav"))
    assert prepared.wav_scp["tr-a"] == f"{folder}/data/tr/audio/a.wav"
    samples = [read_audio(Path(path))[0] for path in (prepared.wav_scp["tr-b"], "data/tr/audio/b.wav")]
    np.testing.assert_array_equal(*samples)
    assert Path("data/tr/wav.scp").read_text() == before and read_data_dir(Path("out/test")).text["test-a"] == "ONE"
    single = Selection(sets=("train",), allow_pipes=True)
    copy = kaldi.convert(Path("data/tr"), Path("downloads"), single)
    assert kaldi.prepare(copy, single)["train"].wav_scp["tr-b"].endswith("/0000000.wav")
    # The files of sets that are not wanted now stay, and without commands nothing is copied.
    replace_text(Path("data/dev/wav.scp"), "data/dev/audio/b.wav", "cat data/dev/audio/b.wav |")
    assert main([*given, "--allow_pipes", "--download_dir", "downloads", "--sets", "dev"]) == 0
    assert Path(prepared.wav_scp["tr-b"]).is_file()
    replace_text(Path("data/dev/wav.scp"), "cat data/dev/audio/b.wav |", "data/dev/audio/b.wav")
    assert kaldi.convert(Path("data/dev"), Path("downloads"), single) == Path("data/dev")


def test_no_command_is_run_if_one_is_refused(folder):
    replace_text(Path("data/tr/wav.scp"), "data/tr/audio/b.wav", "cat data/tr/audio/b.wav |")
    replace_text(Path("data/dev/wav.scp"), "data/dev/audio/b.wav", "touch ran |")
    replace_text(Path("data/dev/wav.scp"), "data/dev/audio/a.wav", "cat gone |")
    with pytest.raises(
        DataError,
        match=r"^2 faults: data/dev/wav.scp: dev-a: 'cat gone \|': .*; data/dev/wav.scp: dev-b: 'touch ran \|': touch",
    ):
        kaldi.convert(Path("data"), Path("downloads"), Selection(set_names=NAMED.set_names, allow_pipes=True))
    assert not Path("ran").exists() and not Path("downloads").exists()


def test_faults_of_a_table_with_commands_are_found_before_one_is_run(folder):
    table = Path("data/tr/wav.scp")
    table.write_text("tr-a cat data/tr/audio/a.wav |\ntr-a data/tr/audio/b.wav\n")
    with pytest.raises(
        DataError, match="^data/tr/wav.scp:2: duplicate id 'tr-a', first on line 1; ids must be unique$"
    ):
        kaldi.convert(Path("data/tr"), Path("downloads"), Selection(sets=("train",), allow_pipes=True))
    assert not Path("downloads").exists()


def test_commands_that_fail_are_named(folder):
    replace_text(Path("data/tr/wav.scp"), "data/tr/audio/b.wav", "gunzip -c data/tr/audio/b.wav |")
    with pytest.raises(DataError, match=r"data/tr/wav.scp: tr-b: 'gunzip .*': gunzip failed with exit code 1 \("):
        kaldi.convert(Path("data/tr"), Path("downloads"), Selection(sets=("train",), allow_pipes=True))
    assert not Path("downloads").exists()


def test_arks_are_read(folder):
    place = Path("data/test")
    kaldiio.save_ark("x.ark", {"test-a": (8000, np.arange(8000, dtype=np.int16))}, scp="x.scp")
    (place / "wav.scp").write_text(Path("x.scp").read_text() + "test-b data/test/audio/b.wav\n")
    assert main(["prepare", "kaldi", str(place), "--sets", "test", "--output_dir", "out"]) == 0
    paths = read_data_dir(Path("out/test")).wav_scp
    assert paths == {"test-a": f"{folder}/out/test/wav/test-a/test-a.wav", "test-b": f"{folder}/data/test/audio/b.wav"}
    assert len(read_audio(Path(paths["test-a"]))[0]) == 16_000


def test_directories_that_are_missing_or_of_features(folder):
    with pytest.raises(DataError, match="^nowhere: there is no such data directory; give one, or a folder of several$"):
        kaldi.prepare(Path("nowhere"))
    said = (
        r"^data: has no data directory train, but dev test tr; name it with --set_names train=NAME, or leave it out wi"
    )
    with pytest.raises(DataError, match=said):
        kaldi.prepare(Path("data"))
    Path("data/dev/wav.scp").rename("data/dev/feats.scp")
    said = (
        r"^data/dev: has features and no audio; stats, train and decode read feats.scp as it is, for models with input"
    )
    with pytest.raises(DataError, match=said):
        kaldi.prepare(Path("data"), NAMED)


TRAIN = Selection(sets=("train",))


def write_rows(path: Path, rows: dict[str, object]) -> None:
    """Write a table in the order of `rows`."""
    path.write_text("".join(f"{key} {value}\n" for key, value in rows.items()))


def write_set(place: Path, write_wav, utterance: str) -> None:
    """Ten recordings in no order, of two rates, too short, silent or not; three segments of each, if they are named.

    `utterance` is a pattern for the names of segments: those of a recording follow each other, or do not.
    """
    place.mkdir()
    random = np.random.default_rng(0)
    recordings = {f"r{n}": place / f"{n}.wav" for n in random.permutation(10)}
    for n, path in enumerate(recordings.values()):
        seconds = 3.0 if utterance else 0.105 if n == 4 else 0.5
        write_wav(path, seconds, rate=(16000, 8000)[n % 2], hertz=300 + 30 * n)
    soundfile.write(place / "3.wav", np.zeros(48000, np.int16), 16000)
    names = {utterance.format(r=r, part=part): (r, part) for r in recordings for part in range(3)} if utterance else {}
    write_rows(place / "wav.scp", recordings)
    if utterance:
        write_rows(place / "segments", {u: f"{r} {part}.25 {part + 0.9}" for u, (r, part) in names.items()})
    spoken = [*(names or recordings)]
    speakers = {name: f"s{random.integers(3)}" for name in spoken}
    write_rows(place / "text", {name: f"words of {name}" for name in spoken})
    write_rows(place / "utt2lang", dict.fromkeys(spoken[::-1], "de"))
    write_rows(place / "spk2gender", {"s2": "f", "s0": "m", "other": "f"})
    write_rows(place / "utt2note", {spoken[5]: "loud", spoken[1]: "soft now", "s1": "a speaker", "zz": "-"})
    if utterance != "{r}-{part}":  # otherwise an utterance is its speaker
        write_rows(place / "utt2spk", speakers)


@pytest.mark.parametrize("utterance", ["", "{r}-{part}", "{part}-{r}"])
@pytest.mark.parametrize(
    "options",
    [
        FormatOptions((0.9, 1.0, 1.1), max_seconds=0.85),
        FormatOptions((1.0, 0.9), audio_format="ark", shards=3),
        FormatOptions(audio_format="ark", shards=99),
    ],
)
def test_the_files_match_the_same_tables_in_dicts(tmp_path, write_wav, utterance, options):
    write_set(tmp_path / "set", write_wav, utterance)
    (data,) = kaldi.prepare(tmp_path / "set", TRAIN).values()
    summary = format_data({"train": data}, tmp_path / "out", options)["train"]
    write_prepared(keep_utterances(data, {*data.text}), options, tmp_path / "expected", tmp_path / "out" / "train")
    expected = digests(tmp_path / "expected")
    assert digests(tmp_path / "out" / "train") == expected
    assert {"spk2gender", "utt2note", "utt2lang", "dropped.tsv"} - {*expected} <= {"spk2gender"}
    written = read_data_dir(tmp_path / "out" / "train")
    assert summary.speakers == len(set(written.utt2spk.values())) and summary.utterances == len(written.text)


ROWS = 4000


def test_rows_of_text_are_not_kept_in_memory(tmp_path):
    def taken(rows):
        place, target = tmp_path / f"set{rows}", tmp_path / f"out{rows}"
        place.mkdir()
        for name in ("text", "src_text", "utt2note"):
            write_rows(place / name, {f"u{n:07d}": f"sentence {n} of some words" for n in range(rows)})
        _, most = traced(lambda: format_data(kaldi.prepare(place, TRAIN), target))
        written = digests(target / "train")
        assert written.pop(".prepared.json") and written == digests(place)
        return most

    taken(1)  # modules that are imported now
    few, many = taken(ROWS), taken(3 * ROWS)  # buffers have the same size in both
    assert many - few < 100 * 2 * ROWS  # three tables; the strings of one take 130


@pytest.mark.parametrize(("parts", "speeds"), [(0, (0.9, 1.0)), (2, (1.0,))])
def test_rows_of_speech_are_not_kept_in_memory(tmp_path, monkeypatch, parts, speeds):
    """Audio is not read here: what is measured is the tables."""

    def kept(self, job):
        ((path, utterances),) = job.recordings
        return [
            Outcome(one.name, [Kept(prefix(x) + one.name, prefix(x) + one.speaker, path, 1.0) for x in self.speeds])
            for one in utterances
        ]

    monkeypatch.setattr(AudioFormat, "__call__", kept)
    monkeypatch.setattr(sys, "intern", str)  # what pathlib puts into a table that the interpreter has for all names
    place = tmp_path / "set"
    place.mkdir()
    recordings = [f"s{n // 10:05d}-{n:07d}" for n in range(ROWS // 2)]
    write_rows(place / "wav.scp", {name: f"/corpus/some/path/{name}.wav" for name in recordings})
    spoken = {f"{name}-{part}": f"{name} {part} {part + 1}" for name in recordings for part in range(parts)}
    if parts:
        write_rows(place / "segments", spoken)
    spoken = spoken or dict.fromkeys(recordings)
    write_rows(place / "text", {name: f"some words of {name}" for name in spoken})
    write_rows(place / "utt2spk", {name: name[:6] for name in spoken})
    target = tmp_path / "out"
    _, taken = traced(lambda: format_data(kaldi.prepare(place, TRAIN), target, FormatOptions(speeds), nj=1))
    written = (tmp_path / "out" / "train" / "text").read_text()
    assert written.startswith((place / "text").read_text()) and written.count("\n") == ROWS
    assert taken < 250 * ROWS
