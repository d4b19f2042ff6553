import fcntl
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import soundfile

from espnet_diverse.bin.main import main
from espnet_diverse.decoding.condition_ids import KnownConditions
from espnet_diverse.errors import DataError
from espnet_diverse.transcription import vad
from espnet_diverse.transcription.result import Segment
from espnet_diverse.transcription.transcript import Transcript

# The recordings of the tiny model are tones, which voice activity detection by energy takes for speech.
HOW = ("--beam_size", "3", "--vad", "energy")


def call(model, *arguments):
    return main(["transcribe", str(model), *map(str, arguments)])


def start(*arguments, **how):
    command = [sys.executable, "-m", "espnet_diverse", "transcribe", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=False, **how)


@pytest.fixture(scope="module")
def decoded(tiny_run, tmp_path_factory):
    """Text and score of the test data by utterance, as `decode` gives them."""
    out = tmp_path_factory.mktemp("decoded")
    arguments = [str(tiny_run.model_dir), "--data_dir", str(tiny_run.test_dir)]
    assert main(["decode", *arguments, "--output_dir", str(out), "--set", "beam_size=3"]) == 0
    tables = [dict(line.partition(" ")[::2] for line in (out / name).read_text().splitlines()) for name in OUTPUTS]
    assert any(tables[0].values())
    return tables


OUTPUTS = ("text", "score")


def test_a_transcription_imports_no_package_that_it_does_not_use(tiny_run):
    """Each of them takes from a tenth of a second to several."""
    heavy = ("transformers", "numba", "scipy.stats", "scipy.signal._signaltools", "librosa.filters", "h5py._hl")
    heavy += ("sklearn", "sympy", "pandas", "matplotlib.pyplot", "dask", "torch._dynamo", "onnxruntime")
    heavy += ("espnet2.bin.asr_inference", "espnet2.bin.asr_inference_streaming", "espnet_diverse.training.stages")
    words = ["transcribe", str(tiny_run.model_dir), str(tiny_run.test_dir / "test-00.wav"), *HOW]
    code = f"import sys\nfrom espnet_diverse.bin.main import main\nassert main({words}) == 0\n"
    code += f"print(*(name for name in {heavy} if name in sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.strip(), done.stderr
    assert done.stderr.splitlines()[-1] == ""


def test_one_file_prints_its_text(tiny_run, decoded, capsys):
    assert call(tiny_run.model_dir, *HOW, tiny_run.test_dir / "test-01.wav") == 0
    printed, said = capsys.readouterr()
    assert printed == f"{decoded[0]['test-01']}\n"
    (line,) = said.splitlines()
    assert re.fullmatch(r"transcribe: 1/1 files, 0:00:01/0:00:01 of audio, [\d.]+x real time, \d+ s", line)


def test_standard_input_and_bad_files_beside_it(tiny_run, decoded, tmp_path):
    (tmp_path / "bad.wav").write_text("no audio")
    audio = (tiny_run.test_dir / "test-02.wav").read_bytes()
    done = start(tiny_run.model_dir, "bad.wav", "-", "gone.wav", *HOW, input=audio, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout.decode() == f"-\t{decoded[0]['test-02']}\n"
    said = done.stderr.decode()
    assert "espnet-diverse transcribe: skipped bad.wav: not readable as audio (Format not recognised)" in said
    assert "espnet-diverse transcribe: skipped gone.wav: no such audio file; correct the path" in said
    assert "Traceback" not in said


@pytest.fixture(scope="module")
def beeps(tmp_path_factory):
    """Six beeps of half a second with a second of silence before and after each: a stretch each, at 9.5 s the last."""
    path = tmp_path_factory.mktemp("beeps") / "beeps.wav"
    beep = 0.3 * np.sin(2 * np.pi * 600 * np.arange(8000) / 16_000)
    soundfile.write(path, np.concatenate([np.zeros(16_000), beep] * 6 + [np.zeros(16_000)]), 16_000)
    return path


def test_one_long_recording_shows_how_far_it_is_on_a_terminal(tiny_run, beeps):
    terminal, stderr = pty.openpty()
    fcntl.ioctl(stderr, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    arguments = [str(tiny_run.model_dir), "--vad", "energy", "--batch_size", "1", str(beeps)]
    command = [sys.executable, "-m", "espnet_diverse", "transcribe", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True) as process:
        os.close(stderr)
        said = b""
        with suppress(OSError):  # which is the end of a terminal
            while block := os.read(terminal, 4096):
                said += block
        os.close(terminal)
    assert process.returncode == 0
    shown = said.decode().split("\r")
    assert any(
        re.fullmatch(r"transcribe: 0/1 files, .*/0:00:10 of audio, .*x real time \|.*\| \d+% \[.*\]", s) for s in shown
    )
    assert shown[-2].strip() == shown[-1].strip() == ""


def test_files_of_a_folder_match_decode(tiny_run, decoded, tmp_path, capsys):
    text, score = decoded
    assert call(tiny_run.model_dir, tiny_run.test_dir, *HOW, "--output_dir", tmp_path, "--output_format", "json") == 0
    assert not (tmp_path / "failures.json").exists()
    for utterance in text:
        content = json.loads((tmp_path / f"{utterance}.json").read_text())
        (segment,) = content["segments"]
        assert content["text"] == segment["text"] == text[utterance] and content["duration"] == 0.75
        assert (segment["start"], segment["end"]) == (0.0, 0.75)
        assert segment["score"] == float(score[utterance])
    assert capsys.readouterr().out == ""


def test_all_formats_of_several_files(tiny_run, tmp_path):
    source = tiny_run.test_dir / "test-00.wav"
    for name in ("a.wav", "x/a.wav", "failures.wav"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, tmp_path / "in" / name)
    out = tmp_path / "out"
    out.mkdir()
    (out / "a.wav.txt").write_text("of an earlier run")
    arguments = (tmp_path / "in", *HOW, "--output_dir", out, "--output_format", "all", "--word_timestamps")
    assert call(tiny_run.model_dir, *arguments) == 0
    stems, formats = ("a.wav", "x-a.wav", "failures.wav"), ("txt", "json", "srt", "vtt", "tsv", "trn")
    expected = {f"{stem}.{format}" for stem in stems for format in formats}
    assert {path.name for path in out.iterdir()} == expected
    text = (out / "x-a.wav.txt").read_text()
    assert text and (out / "a.wav.txt").read_text() == text
    assert (out / "failures.wav.trn").read_text() == f"{text.strip()} (failures.wav)\n"
    words = json.loads((out / "a.wav.json").read_text())["segments"][0]["words"]
    assert words and words[0]["start"] >= 0 and words[-1]["end"] <= 0.75


def test_a_list_names_files_and_trn_is_printed(tiny_run, decoded, capsys):
    assert call(tiny_run.model_dir, "--list", tiny_run.test_dir / "wav.scp", *HOW, "--output_format", "trn") == 0
    assert capsys.readouterr().out == "".join(f"{text} ({name})\n" for name, text in decoded[0].items())


def test_channels_are_transcribed_together_with_a_notice_or_apart(tiny_run, decoded, tmp_path, capsys, caplog):
    samples, rate = soundfile.read(tiny_run.test_dir / "test-01.wav")
    path = tmp_path / "call.wav"
    soundfile.write(path, np.stack([samples, np.zeros_like(samples)], 1), rate)
    assert call(tiny_run.model_dir, *HOW, path) == 0
    assert "call.wav: has channels that differ" in caplog.text and "--channels each" in caplog.text
    caplog.clear()
    capsys.readouterr()
    assert call(tiny_run.model_dir, *HOW, path, "--channels", "each") == 0
    printed = capsys.readouterr().out
    assert printed.splitlines() == [f"{path} channel 0\t{decoded[0]['test-01']}", f"{path} channel 1\t"]
    assert "differ" not in caplog.text


def test_a_call_with_a_speaker_in_each_channel_is_one_transcript(tiny_run, decoded, tmp_path, capsys, monkeypatch):
    samples, rate = soundfile.read(tiny_run.test_dir / "test-01.wav")
    path, quiet, speakers = tmp_path / "call.wav", np.zeros_like(samples), ("--channels", "speakers")
    turns = [np.concatenate(side) for side in ((quiet, quiet, samples), (samples, quiet, quiet))]
    soundfile.write(path, np.stack(turns, 1), rate)
    mono = tiny_run.test_dir / "test-01.wav"
    to_files = ("--output_format", "all", "--output_dir", tmp_path)
    assert call(tiny_run.model_dir, *HOW, path, "--channels", "each", *to_files) == 0
    assert call(tiny_run.model_dir, *HOW, path, mono, *speakers, *to_files) == 0
    names = ("call", "call-channel0", "call-channel1", "test-01")
    found, *apart, alone = (json.loads((tmp_path / f"{name}.json").read_text()) for name in names)
    labelled = [segment.pop("speaker") for segment in found["segments"]]
    assert labelled == ["channel 1", "channel 0"] and "speaker" not in alone["segments"][0]
    assert [one["text"] for one in found["segments"]] == [apart[1]["text"], apart[0]["text"]]
    assert [one["start"] for one in found["segments"]] == [apart[side]["segments"][0]["start"] for side in (1, 0)]
    assert found["duration"] == apart[0]["duration"] and alone["text"] == decoded[0]["test-01"]
    assert f"[channel 0] {apart[0]['text']}" in (tmp_path / "call.srt").read_text()
    monkeypatch.setattr(vad, "silero_is_installed", lambda: False)
    usual = [word for word in HOW if word not in ("--vad", "energy")]  # short recordings are split all the same
    assert call(tiny_run.model_dir, *usual, path, *speakers, *to_files) == 0
    assert len(json.loads((tmp_path / "call.json").read_text())["segments"]) == 2
    for more, said in (((), "give one of json srt vtt all"), (("--output_format", "json", "--turns", path), "--turns")):
        assert call(tiny_run.model_dir, *HOW, path, *speakers, *more) == 1
        assert said in capsys.readouterr().err
    assert call(tiny_run.model_dir, *HOW, "-", *speakers, "--output_format", "json") == 1
    assert "the channels of standard input" in capsys.readouterr().err


def test_silence_gives_nothing(tiny_run, tmp_path, capsys):
    noise = 0.1 * np.random.default_rng(0).standard_normal(48_000)
    cancel, silence = "its channels cancel in their mean; give one of them", "--vad none decodes all of it"
    for samples, said in [(np.stack([noise, -noise], 1), cancel), (np.zeros(48_000), silence)]:
        soundfile.write(tmp_path / "silence.wav", samples, 16_000)
        assert call(tiny_run.model_dir, tmp_path / "silence.wav") == 0
        printed = capsys.readouterr()
        assert printed.out == "" and f"{tmp_path}/silence.wav: no speech found; {said}" in printed.err.splitlines()
    assert call(tiny_run.model_dir, tmp_path / "silence.wav", *HOW[:2], "--vad", "none") == 0
    assert "no speech found" not in capsys.readouterr().err


@pytest.mark.parametrize("how", [("--vad", "none"), ("--no_segmentation",)])
@pytest.mark.parametrize(("samples", "rate"), [(100, 16_000), (1, 48_000)], ids=["short", "lost in resampling"])
def test_audio_that_is_too_short_for_the_model_is_named(tiny_run, tmp_path, capsys, how, samples, rate):
    soundfile.write(tmp_path / "click.wav", np.full(samples, 0.5), rate)
    assert call(tiny_run.model_dir, tmp_path / "click.wav", *how) == 0
    printed, said = capsys.readouterr()
    assert printed == "" and f"{tmp_path}/click.wav: too short for the model, no text" in said.splitlines()


def test_lines_of_subtitles_have_a_width(tiny_run, multilingual, monkeypatch, capsys):
    words = Transcript((Segment(0.0, 1.0, "a b c d e", -1.0),), 1.0, {})  # the tiny model writes no spaces
    monkeypatch.setattr(multilingual, "transcribe_all", lambda *_, **__: [words])
    source = tiny_run.test_dir / "test-00.wav"
    assert call(tiny_run.model_dir, source, *HOW, "--output_format", "srt", "--max_line_width", "3") == 0
    assert capsys.readouterr().out.splitlines()[2:] == ["a b", "c d", "e"]
    for options in (["srt", "--max_line_width", "0"], ["txt", "--max_line_width", "9"]):
        assert call(tiny_run.model_dir, source, "--output_format", *options) == 1
        assert "is for --output_format srt vtt all, and 1 or more; correct it" in capsys.readouterr().err


def test_turns_of_speakers(tiny_run, tmp_path, capsys, caplog):
    sources = [tiny_run.test_dir / f"test-0{index}.wav" for index in range(2)]
    lines = [f"SPEAKER test-0{index} 1 0 9 <NA> <NA> {name} <NA> <NA>" for index, name in enumerate(("anna", "ben"))]
    (tmp_path / "a.rttm").write_text("\n".join(lines) + "\n")
    arguments = [*HOW, "--turns", tmp_path / "a.rttm", "--output_format", "json", "--output_dir", tmp_path]
    assert call(tiny_run.model_dir, *sources, *arguments) == 0
    found = [json.loads((tmp_path / f"test-0{index}.json").read_text())["segments"] for index in range(2)]
    assert [{row["speaker"] for row in rows} for rows in found] == [{"anna"}, {"ben"}]
    (tmp_path / "a.rttm").write_text("\n".join(lines[:1]) + "\n")
    assert call(tiny_run.model_dir, sources[1], *arguments) == 0  # with one recording each, names may differ
    rows = json.loads((tmp_path / "test-01.json").read_text())["segments"]
    assert {row["speaker"] for row in rows} == {"anna"}
    assert call(tiny_run.model_dir, *sources, *arguments) == 0  # one without speech has none
    assert "a.rttm: has no turns of test-01; it has turns of test-00; their texts have no speakers" in caplog.text
    assert "speaker" not in json.loads((tmp_path / "test-01.json").read_text())["segments"][0]
    (tmp_path / "a.rttm").write_text(lines[0].replace("test-00", "other") + "\n" + lines[1].replace("01", "02") + "\n")
    assert call(tiny_run.model_dir, *sources, *arguments) == 1
    assert "name recordings alike" in capsys.readouterr().err
    assert call(tiny_run.model_dir, *sources, *HOW, "--turns", tmp_path / "a.rttm") == 1
    assert "--turns changes nothing in --output_format txt" in capsys.readouterr().err


def test_a_text_that_may_be_invented_is_named(tiny_run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("espnet_diverse.decoding.ctc_alignment._SUPPORTED", 0.99)  # this model is sure of nothing
    soundfile.write(tmp_path / "noise.wav", 0.01 * np.random.default_rng(0).normal(size=16_000), 16_000)
    how = ["--vad", "none", "--minlenratio", "0.3", "--output_format", "json"]
    assert call(tiny_run.model_dir, tmp_path / "noise.wav", *how) == 0
    printed, said = capsys.readouterr()
    assert json.loads(printed)["segments"][0]["ctc_support"] == 0.0
    assert "noise.wav: 1 of 1 segments may be invented, 0.0 to 1.0 s: CTC supports less than a quarter" in said


def test_silence_beside_speech_is_no_failure(tiny_run, decoded, tmp_path, capsys):
    soundfile.write(tmp_path / "silence.wav", np.zeros(48_000), 16_000)
    arguments = (tmp_path / "silence.wav", tiny_run.test_dir / "test-00.wav", *HOW, "--output_dir", tmp_path)
    assert call(tiny_run.model_dir, *arguments) == 0
    assert capsys.readouterr().err.count(": no speech found; --vad none decodes all of it\n") == 1
    assert (tmp_path / "silence.txt").read_text().strip() == ""
    assert not (tmp_path / "failures.json").exists()


def test_an_existing_transcript_of_a_failed_file_is_kept(tiny_run, tmp_path, capsys):
    (tmp_path / "gone.txt").write_text("by hand")
    arguments = ("gone.wav", tiny_run.test_dir / "test-00.wav", *HOW, "--output_dir", tmp_path)
    assert call(tiny_run.model_dir, *arguments) == 2
    assert (tmp_path / "gone.txt").read_text() == "by hand"
    assert f"espnet-diverse transcribe: {tmp_path}/gone.txt existed before, and stays" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"test-00.txt", "gone.txt", "failures.json"}
    reason = "gone.wav: no such audio file; correct the path or get the file"
    assert json.loads((tmp_path / "failures.json").read_text()) == {"gone.wav": reason}


def test_ids_of_one_file_that_failed_are_all_listed(tiny_run, tmp_path):
    (tmp_path / "wav.scp").write_text("u1 gone.wav\nu2 gone.wav\nu3 other.wav\n")
    arguments = (tiny_run.test_dir / "test-00.wav", "--list", tmp_path / "wav.scp", *HOW, "--output_dir", tmp_path)
    assert call(tiny_run.model_dir, *arguments) == 2
    assert set(json.loads((tmp_path / "failures.json").read_text())) == {"u1", "u2", "other.wav"}


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ([""], "a source is empty; give a file, a folder or -"),
        ([], "no recording is named; give files, folders, - for standard input, or --list"),
        (["gone.wav"], "gone.wav: no such audio file; correct the path or get the file"),
        (["a.wav", "b.wav"], "none of 2 recordings could be transcribed; first a.wav: no such audio file"),
        (["a.wav", "--word_timestamps"], "--word_timestamps changes nothing in --output_format txt; give one of tsv "),
        (["a.wav", "--output_format", "all"], "--output_format all needs --output_dir, the directory to write to"),
        (["a.wav", "b.wav", "--output_format", "srt"], "--output_format srt of 2 recordings needs --output_dir"),
        (
            ["a.wav", "--output_dir", __file__],
            f"--output_dir {__file__}: cannot be written to (File exists); give another",
        ),
        (["a.wav", "--output_dir", "/dev/null/x"], "--output_dir /dev/null/x: cannot be written to (Not a directory)"),
        (["a.wav", "--task", "st"], "is a model of task asr; give another model or task"),
        (["a.wav", "--beam_size", "0"], "beam_size must be at least 1"),
        (["a.wav", "--hotword_weight", "5"], "--hotword_weight 5 needs hotwords; give --hotwords, or leave it out"),
    ],
)
def test_faults_are_one_line(tiny_run, capsys, arguments, what):
    assert call(tiny_run.model_dir, *arguments) == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "error: " in line]
    assert line.startswith("espnet-diverse transcribe: error: ") and what in line


class Multilingual:
    """A recognizer that identifies languages and records the conditions of each request."""

    class search:  # noqa: N801
        task = "asr"
        conditions = KnownConditions({"lang": ["de", "es"]})

    def __init__(self, *_, **__):
        self.asked = []

    def transcribe_all(self, requests, word_timestamps):
        for request in requests:
            self.asked.append(request.conditions)
            probabilities = None if "lang" in request.conditions else {"es": 0.9, "de": 0.1}
            yield Transcript((Segment(0.0, 1.0, "hola", -1.0),), 1.0, {"lang": "es"}, probabilities)


@pytest.fixture
def multilingual(monkeypatch):
    recognizer = Multilingual()
    monkeypatch.setattr("espnet_diverse.inference.Recognizer", lambda *_, **__: recognizer)
    monkeypatch.setattr("espnet_diverse.bin.main.check_paths", lambda actions, args: None)  # there is no folder "model"
    return recognizer


def test_the_language_that_was_found_is_reported(multilingual, capsys):
    assert call("model", "a.wav") == 0
    assert multilingual.asked == [{}]
    said = capsys.readouterr()
    assert said.out == "hola\n" and "a.wav: identified language es (90%)\n" in said.err


def test_languages_of_a_list_override_the_command_line(multilingual, tmp_path, capsys):
    (tmp_path / "list.tsv").write_text("a.wav\tde\tnews\n")
    assert call("model", "b.wav", "--list", tmp_path / "list.tsv", "--language", "es") == 0
    assert multilingual.asked == [{"lang": "es"}, {"lang": "de", "domain": "news"}]
    assert "identified" not in capsys.readouterr().err


def test_unknown_languages_are_named_before_anything_is_read(multilingual, capsys):
    assert call("model", "a.wav", "--language", "fr") == 1
    assert "error: --language fr: unknown language; this model knows: de es" in capsys.readouterr().err
    assert multilingual.asked == []


def test_errors_of_the_program_name_the_recording_and_have_a_traceback(multilingual, monkeypatch, tmp_path, caplog):
    def broken(requests, word_timestamps):
        yield from [MemoryError("no\nroom"), DataError("no audio"), Transcript((), 1.0, {})]

    monkeypatch.setattr(multilingual, "transcribe_all", broken)
    assert call("model", "a.wav", "b.wav", "c.wav", "--output_dir", tmp_path) == 2
    said = {"a.wav": "a.wav: MemoryError: no room", "b.wav": "b.wav: no audio"}
    assert json.loads((tmp_path / "failures.json").read_text()) == said
    assert Path(tmp_path / "c.txt").read_text() == ""
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [MemoryError]
