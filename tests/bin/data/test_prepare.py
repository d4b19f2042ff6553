"""`espnet-diverse prepare`, as a user calls it."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile
from references.data_fixtures import tone

from espnet_diverse.bin.main import main
from espnet_diverse.corpora import Selection, aishell, mtedx, tatoeba
from espnet_diverse.data.kaldi import read_data_dir
from espnet_diverse.errors import DataError

UTTERANCES = {"train": "BAC009S0002W0122", "dev": "BAC009S0724W0121", "test": "BAC009S0764W0121"}
TRANSCRIPT = "data_aishell/transcript/aishell_transcript_v0.8.txt"


def make_tree(corpus_dir: Path) -> Path:
    """An AISHELL-1 tree of one utterance a set, each of half a second."""
    root = corpus_dir / "data_aishell"
    for name, utterance in UTTERANCES.items():
        folder = root / "wav" / name / utterance[6:11]
        folder.mkdir(parents=True)
        soundfile.write(folder / f"{utterance}.wav", tone(0.5), 16000)
    (root / "transcript").mkdir()
    lines = "".join(f"{utterance} 一 二 三\n" for utterance in UTTERANCES.values())
    (corpus_dir / TRANSCRIPT).write_text(lines, encoding="utf-8")
    return corpus_dir


@pytest.fixture
def corpus_dir(tmp_path) -> Path:
    return make_tree(tmp_path / "corpus")


@pytest.fixture
def prepare(tmp_path, corpus_dir):
    """prepare(*options) -> exit code of the command on the tree, into tmp_path/data."""

    def run(*options: str) -> int:
        return main(["prepare", "aishell", str(corpus_dir), "--output_dir", str(tmp_path / "data"), *options])

    return run


def test_twice(tmp_path, prepare, capsys):
    for _ in range(2):
        assert prepare("--speed_perturb", "0.9", "1.0", "--nj", "2") == 0
        assert capsys.readouterr().out.splitlines() == [
            "train: 2 utterances, 0.00 hours, 2 speakers, 0 dropped",
            "dev: 1 utterances, 0.00 hours, 1 speakers, 0 dropped",
            "test: 1 utterances, 0.00 hours, 1 speakers, 0 dropped",
        ]
    assert sorted(entry.name for entry in (tmp_path / "data").iterdir()) == ["dev", "test", "train"]
    assert read_data_dir(tmp_path / "data" / "test").text == {"BAC009S0764W0121": "一二三"}


def test_drops_and_conversions_are_printed(tmp_path, corpus_dir, prepare, capsys):
    folder = corpus_dir / "data_aishell/wav/train/S0002"
    soundfile.write(folder / "BAC009S0002W0999.wav", tone(0.5), 16000)
    soundfile.write(folder / "BAC009S0002W0122.wav", np.stack([tone(0.5, 8000)] * 2, 1), 8000)
    assert prepare("--on_missing", "drop", "--audio_format", "flac") == 0
    assert capsys.readouterr().out.splitlines()[:2] == [
        f"train: 1 utterances, 0.00 hours, 1 speakers, 1 dropped (listed in {tmp_path}/data/train/dropped.tsv)"
        ": 50.00%, 1 with faults",
        "train: 1 utterances of 8000 Hz, 2 channels converted to 16 kHz mono",
    ]
    assert (
        (tmp_path / "data/train/dropped.tsv")
        .read_text()
        .endswith("aishell_transcript_v0.8.txt; add it or remove the file\n")
    )
    assert read_data_dir(tmp_path / "data" / "train").wav_scp["BAC009S0002W0122"].endswith(".flac")


def test_another_rate(tmp_path, prepare, capsys):
    assert prepare("--rate", "8000") == 0
    assert "test: 1 utterances of 16000 Hz converted to 8 kHz mono" in capsys.readouterr().out.splitlines()
    for name in UTTERANCES:
        (path,) = read_data_dir(tmp_path / "data" / name).wav_scp.values()
        assert soundfile.info(path).samplerate == 8000 and soundfile.info(path).frames == 4000


def wav(corpus_dir: Path, name: str) -> Path:
    return corpus_dir / "data_aishell" / "wav" / name / UTTERANCES[name][6:11] / f"{UTTERANCES[name]}.wav"


def spoil_transcript(corpus_dir):
    (corpus_dir / TRANSCRIPT).open("a", encoding="utf-8").write("BAC009S0900W0001 二\n")


def spoil_nan(corpus_dir):
    soundfile.write(wav(corpus_dir, "dev"), np.full(8000, np.nan, np.float32), 16000, subtype="FLOAT")


SPOILED = {
    "missing corpus folder": (shutil.rmtree, "no AISHELL-1 corpus in {corpus}: there is no {corpus}/data_aishell"),
    "transcript without audio": (spoil_transcript, "{corpus}/" + TRANSCRIPT + ": BAC009S0900W0001: transcript without"),
    "unreadable wav": (
        lambda corpus: wav(corpus, "test").write_text("not audio"),
        "test: BAC009S0764W0121: {corpus}/data_aishell/wav/test/S0764/BAC009S0764W0121.wav: not readable as audio",
    ),
    "nan samples": (
        spoil_nan,
        "dev: BAC009S0724W0121: {corpus}/data_aishell/wav/dev/S0724/BAC009S0724W0121.wav: holds NaN or infinite",
    ),
}


@pytest.mark.parametrize("kind", SPOILED)
def test_bad_input_gets_one_error_and_leaves_nothing(tmp_path, corpus_dir, prepare, capsys, kind):
    spoil, what = SPOILED[kind]
    spoil(corpus_dir)
    assert prepare("--speed_perturb", "0.9", "1.0") == 1
    (line,) = [text for text in capsys.readouterr().err.splitlines() if "error" in text]
    assert what.format(corpus=corpus_dir) in line and "Traceback" not in line
    assert not (tmp_path / "data").exists()


def test_all_faults_are_listed_on_request(tmp_path, corpus_dir, prepare, capsys):
    (corpus_dir / TRANSCRIPT).write_text("".join(f"BAC009S0900W{number:04} 二\n" for number in range(5)), "utf-8")
    report = tmp_path / "faults"
    assert prepare("--report", str(report)) == 1
    assert f"8 faults: {corpus_dir}" in (message := capsys.readouterr().err)
    assert f"; and 5 more (all are listed in {report})" in message
    assert len(report.read_text().splitlines()) == 8
    assert prepare() == 1 and capsys.readouterr().err.endswith(
        "; and 5 more (--report FILE lists all); --on_bad drop leaves out utterances with faults\n"
    )


def test_a_report_replaces_no_recording(tmp_path, capsys):
    audio, table = tmp_path / "one.wav", tmp_path / "t.csv"
    soundfile.write(audio, np.zeros(16000), 16000)
    before = audio.read_bytes()
    table.write_text("audio,text\none.wav,a\nlacking.wav,b\n")
    words = ["prepare", "table", str(table), "--output_dir", str(tmp_path / "data"), "--report"]
    assert main([*words, str(audio)]) == 1
    assert "has not written it" in capsys.readouterr().err and audio.read_bytes() == before
    for _ in range(2):  # a former report is replaced
        assert main([*words, str(tmp_path / "faults")]) == 1 and (tmp_path / "faults").is_file()


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--nj", "0"], "--nj must be at least 1, but is 0"),
        (["--train_utterances", "0"], "--train_utterances must be at least 1, but is 0"),
        (["--download"], "give exactly one of SOURCE, --corpus synthetic and --download"),
        (["--on_missing", "skip"], "on_bad must be one of error drop, but is 'skip'"),
        (["--max_seconds", "0.01"], "min_seconds must be below max_seconds 0.01, but is 0.1"),
        (["--corpus", "synthetic"], "give exactly one of SOURCE"),
        (["--languages", "zh"], "corpus aishell has no option --languages; it has --on_bad"),
        (["--task", "st"], "corpus aishell has no option --task; it has"),
        (["--sets", "eval"], "corpus aishell has no set 'eval'; it has train dev test"),
        (["--set_names", "train"], "--set_names train: must be NAME=VALUE, each name once"),
        (
            ["--set_names", "dev=a", "valid=b"],
            "set names dev=a dev=b: a set has one name; dev and valid are the same set",
        ),
        (["--sets", "test", "--train_utterances", "1"], "--train_utterances is for the set train, and --sets has only"),
        (
            ["--columns", "text=a"],
            "corpus aishell has no option --columns; it has --on_bad --sets --set_names",
        ),
    ],
)
def test_bad_options(prepare, capsys, options, what):
    assert prepare(*options) == 1
    assert what in capsys.readouterr().err


def test_a_part_of_the_training_set(corpus_dir, prepare, capsys):
    soundfile.write(wav(corpus_dir, "train").with_name("BAC009S0002W0123.wav"), tone(0.5), 16000)
    (corpus_dir / TRANSCRIPT).open("a", encoding="utf-8").write("BAC009S0002W0123 四\n")
    assert prepare("--train_utterances", "1") == 0
    assert capsys.readouterr().out.splitlines()[:2] == [
        "train: 1 utterances, 0.00 hours, 1 speakers, 0 dropped",
        "dev: 1 utterances, 0.00 hours, 1 speakers, 0 dropped",
    ]


def test_no_source_and_unknown_corpus(tmp_path, capsys):
    assert main(["prepare", "aishell", "--output_dir", str(tmp_path / "data")]) == 1
    assert "no unique corpus is given; give exactly one of" in capsys.readouterr().err
    assert main(["prepare", "aishel", "--output_dir", str(tmp_path / "data")]) == 1
    assert "unknown corpus 'aishel'; did you mean 'aishell'?" in capsys.readouterr().err


def test_synthetic_corpus_and_download_go_to_downloads(tmp_path, monkeypatch):
    """Both are stood in for, the first by the contract of `synthetic.aishell.make`."""
    made = {}

    def make(target_dir: Path, seed: int = 0, size: str = "demo", nj: int = 2) -> Path:
        made["size"], made["nj"] = size, nj
        return make_tree(target_dir)

    monkeypatch.setattr("espnet_diverse.corpora.synthetic.aishell.make", make)
    output = ["--output_dir", str(tmp_path / "data")]
    assert main(["prepare", "aishell", "--corpus", "synthetic", "--size", "tiny", "--nj", "1", *output]) == 0
    assert made == {"size": "tiny", "nj": 1}
    assert str(tmp_path / "downloads" / "synthetic_aishell_tiny") in (tmp_path / "data" / "dev" / "wav.scp").read_text()
    monkeypatch.setattr(aishell, "download", lambda target_dir, selection: make_tree(target_dir / "aishell"))
    assert main(["prepare", "aishell", "--download", "--download_dir", str(tmp_path / "there"), *output]) == 0
    assert str(tmp_path / "there" / "aishell") in (tmp_path / "data" / "dev" / "wav.scp").read_text()


def test_selection_reaches_the_corpus(tmp_path, monkeypatch):
    chosen = []

    def prepare(corpus_dir: Path, selection: Selection) -> dict:
        chosen.append(selection)
        raise DataError("that is enough")

    monkeypatch.setattr(mtedx, "prepare", prepare)
    options = ["--task", "st", "--pairs", "es-en", "fr-en", "--zero_shot", "pt-es", "--transcripts", "written"]
    base = ["prepare", "mtedx", str(tmp_path), "--output_dir", str(tmp_path / "data")]
    assert main([*base, *options, "--on_missing", "drop"]) == 1
    assert main([*base, "--languages", "ar", "de"]) == 1
    assert chosen == [
        Selection("st", (), ("es-en", "fr-en"), ("pt-es",), "written", on_bad="drop"),
        Selection("asr", ("ar", "de")),
    ]
    monkeypatch.setattr(tatoeba, "prepare", prepare)
    base[1] = "tatoeba"
    assert main([*base, "--case", "lower", "--segmentation", "jieba"]) == 1
    assert chosen[2:] == [Selection(case="lower", segmentation="jieba")]


def test_a_corpus_is_generated_in_the_lengths_and_numbers_that_are_asked_for(tmp_path, capsys):
    out, options = tmp_path / "data", ["--lengths", "10", "40", "--counts", "9", "3", "2", "--split_seed", "4"]
    assert main(["prepare", "listops", "--corpus", "synthetic", "--output_dir", str(out), *options]) == 0
    for name, count in {"train": 9, "dev": 3, "test": 2}.items():
        data = read_data_dir(out / name)
        assert len(data.text) == len(data.conditions["utt2domain"]) == count
        assert all(10 <= len(text) <= 40 for text in data.text.values())
    capsys.readouterr()
    for words, said in {
        ("listops", "--download"): "ListOps is generated: give --corpus synthetic, or the folder of its tables",
        ("listops", "--corpus", "synthetic", "--size", "huge"): "unknown size 'huge' of a synthetic corpus",
        ("listops", "--download", "--size", "tiny"): "--size tiny is of a synthetic corpus; give --corpus synthetic",
        ("tatoeba", "--corpus", "synthetic", "--lengths", "1", "2"): "corpus tatoeba has no option --lengths; it has",
    }.items():
        assert main(["prepare", *words, "--output_dir", str(tmp_path / "other")]) == 1
        assert said in capsys.readouterr().err


def test_some_sets_under_other_names(tmp_path, corpus_dir, prepare, capsys):
    wavs = corpus_dir / "data_aishell" / "wav"
    (wavs / "dev").rename(wavs / "cv")
    assert prepare("--sets", "valid", "test", "--set_names", "valid=cv", "--report", str(tmp_path / "faults")) == 0
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == ["dev", "test"]
    assert sorted(entry.name for entry in (tmp_path / "data").iterdir()) == ["dev", "test"]


def test_the_corpus_may_be_named_without_an_option(tmp_path, corpus_dir, parse):
    arguments = ["prepare", "aishell", str(corpus_dir), "--sets", "test", "--output_dir", str(tmp_path / "data")]
    assert main(arguments) == 0
    module, args = parse("prepare", arguments[1:])
    assert module.inputs(args) == [corpus_dir]
    assert module.outputs(args) == [tmp_path / "data" / "test" / table for table in ("wav.scp", "text")]
    _, args = parse("prepare", ["aishell", "--corpus", "synthetic", "--output_dir", "data"])
    assert module.inputs(args) == []
    _, args = parse("prepare", ["multi30k", "--sets", "test_2017_mscoco", "--output_dir", "data"])
    assert module.outputs(args) == [Path("data/test_2017_mscoco") / table for table in ("src_text", "text")]


def test_a_hub_dataset_is_converted_into_downloads(tmp_path, monkeypatch):
    """Stood in for by a table that a dataset could have become."""
    made = []

    def convert(source, target_dir, selection):
        made.append((source, target_dir, selection.sets))
        soundfile.write(tmp_path / "a.wav", tone(0.5), 16000)
        (tmp_path / "table.csv").write_text("audio,text\na.wav,yes\n")
        return tmp_path / "table.csv"

    monkeypatch.setattr("espnet_diverse.corpora.hf.convert", convert)
    output = tmp_path / "prepared" / "data"
    assert main(["prepare", "hf", "voices:de", "--sets", "test", "--output_dir", str(output)]) == 0
    assert made == [(Path("voices:de"), tmp_path / "prepared" / "downloads", ("test",))]
    assert read_data_dir(output / "test").text == {"a": "yes"}
