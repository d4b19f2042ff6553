import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
from contextlib import contextmanager, suppress

import numpy as np
import pytest
import soundfile
from references import streaming
from references.streaming import RATE, tones, write_run

from espnet_diverse.bin.main import main
from espnet_diverse.bin.use.transcribe_stream import Interrupts
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.inference import Recognizer, SegmentationOptions

HOW = ("--stream", "--vad", "energy", "--beam_size", "2")
PAUSE = np.zeros(12_000, np.float32)
SPOKEN = np.concatenate([PAUSE, tones(1.5, 1), PAUSE, tones(1.0, 2), PAUSE])
PCM = (SPOKEN * 2**15).astype("<i2").tobytes()
SUMMARY = (
    r"transcribe: 2 utterances; medians: first text [\d.]+ s after speech began, final text [\d.]+ s after it ended"
)


def command(*arguments):
    return [sys.executable, "-m", "espnet_diverse", "transcribe", *map(str, arguments)]


def call(*arguments):
    return main(["transcribe", *map(str, arguments)])


@pytest.fixture(autouse=True)
def usual_handler():
    """Python's own, also where the tests were started with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    path = tmp_path_factory.mktemp("recording") / "spoken.wav"
    soundfile.write(path, np.frombuffer(PCM, "<i2"), RATE)
    return path


@pytest.fixture(scope="module")
def expected(streaming_run, recording):
    """Texts of the segments, as `transcribe` gives them without --stream."""
    options, segmentation = SearchOptions(beam_size=2), SegmentationOptions("energy")
    found = Recognizer(streaming_run, options=options, segmentation=segmentation).transcribe(recording)
    texts = [segment.text for segment in found.segments]
    assert len(texts) == 2 and all(texts)
    return texts


def test_a_stream_on_standard_input(streaming_run, expected):
    done = subprocess.run(command(streaming_run, *HOW, "-"), input=PCM, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().splitlines() == expected
    assert re.fullmatch(SUMMARY, done.stderr.decode().strip())


def test_a_fifo_gives_results_while_it_is_written(streaming_run, expected, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    arguments = command(streaming_run, *HOW, "--output_format", "json", fifo)
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process, fifo.open("wb", 0) as speaker:
        middle = 2 * 48_000  # the end of the pause after the first utterance
        speaker.write(PCM[:middle])
        lines = [json.loads(process.stdout.readline())]
        while lines[-1]["type"] == "partial":
            lines.append(json.loads(process.stdout.readline()))
        speaker.write(PCM[middle:])
        speaker.close()
        lines += map(json.loads, process.stdout)
    assert process.returncode == 0
    assert [line["text"] for line in lines if line["type"] == "final"] == expected
    assert lines[0]["type"] == "partial" and lines[0]["heard"] < 2.5
    assert set(lines[0]) == {"type", "start", "end", "text", "score", "heard", "computing"}


def test_a_file_as_if_it_were_live(streaming_run, expected, recording, capsys):
    assert call(streaming_run, *HOW, recording) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines() == expected and re.fullmatch(SUMMARY, shown.err.strip())


def test_lines_of_json_tell_partial_and_final_texts_with_their_times(streaming_run, expected, recording, capsys):
    assert call(streaming_run, *HOW, "--output_format", "json", recording) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["text"] for line in lines if line["type"] == "final"] == expected
    assert {line["type"] for line in lines} == {"partial", "final"}
    assert all(line["start"] < line["end"] <= line["heard"] == round(line["heard"], 3) for line in lines)


@contextmanager
def terminal_of(columns):
    """A terminal to write to, and what was written when it is closed."""
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    said = []

    def read():
        with suppress(OSError):  # which is the end of a terminal
            while block := os.read(terminal, 4096):
                said.append(block)

    thread = threading.Thread(target=read)
    thread.start()
    with os.fdopen(end, "w") as stream:
        yield stream, said
    thread.join()
    os.close(terminal)


def test_the_line_of_a_terminal_follows_the_speaker(streaming_run, expected, recording, monkeypatch):
    with terminal_of(12) as (stream, said), monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        assert call(streaming_run, *HOW, recording) == 0
    shown = b"".join(said).decode().split("\r\x1b[K")
    assert shown[0] == "" and max(map(len, shown[:-1])) == 11  # the end of a text that is longer than the line
    assert shown[-2] == "" and len(set(shown)) > 4


def test_characters_of_two_columns_stay_on_the_line(recording, monkeypatch, tmp_path):
    letters = [chr(0x4E00 + index) for index in range(len(streaming.TOKENS) - 3)]
    monkeypatch.setattr(streaming, "TOKENS", ["<blank>", "<unk>", *letters, "<sos/eos>"])
    run = write_run(tmp_path / "model")
    with terminal_of(12) as (stream, said), monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        assert call(run, *HOW, recording) == 0
    shown = b"".join(said).decode().split("\r\x1b[K")[:-1]
    assert max(sum(2 if each in letters else 1 for each in text) for text in shown) in (10, 11)


def test_faults_of_the_source_are_one_line(streaming_run, expected, tmp_path, monkeypatch, capsys):
    with (tmp_path / "odd").open("wb+") as odd:
        odd.write(PCM[:-1])
        odd.seek(0)
        monkeypatch.setattr(sys, "stdin", odd)
        assert call(streaming_run, *HOW, "-") == 1
    shown = capsys.readouterr()
    assert shown.out.splitlines() == expected
    assert shown.err.splitlines() == [
        f"espnet-diverse transcribe: error: -: {len(PCM) - 1} bytes are an odd number; samples must have 16 bits, "
        "little-endian, mono"
    ]


def test_an_interrupt_is_the_end_of_a_stream(streaming_run, expected, monkeypatch, capsys):
    from espnet_diverse.audio import live

    def interrupted(*arguments):
        yield SPOKEN[:48_000]
        raise KeyboardInterrupt

    monkeypatch.setattr(live, "_pcm_blocks", interrupted)
    monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"fileno": staticmethod(lambda: 0)}))
    assert call(streaming_run, *HOW, "-") == 0
    assert capsys.readouterr().out.splitlines() == expected[:1]


def test_an_interrupt_during_the_search_loses_no_text(streaming_run, expected, monkeypatch, capsys):
    from espnet_diverse.audio import live
    from espnet_diverse.decoding.streaming.block_search import BlockSearch

    def endless(*arguments):
        yield SPOKEN[:48_000]
        while True:  # the second utterance would follow, and then itself again
            yield SPOKEN[48_000:]

    add = BlockSearch.add

    def interrupted(search, samples, last):
        if last:
            signal.raise_signal(signal.SIGINT)
        return add(search, samples, last)

    monkeypatch.setattr(live, "_pcm_blocks", endless)
    monkeypatch.setattr(BlockSearch, "add", interrupted)
    monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"fileno": staticmethod(lambda: 0)}))
    assert call(streaming_run, *HOW, "-") == 0
    assert capsys.readouterr().out.splitlines() == expected[:1]


def test_an_interrupt_ends_the_wait_for_a_writer_at_once(streaming_run, monkeypatch):
    from espnet_diverse.audio import live

    waited = []

    @contextmanager
    def opened(*arguments, **options):
        signal.raise_signal(signal.SIGINT)
        waited.append("on")
        yield iter([])

    monkeypatch.setattr(live, "open_live", opened)
    assert call(streaming_run, *HOW, "-") == 0
    assert not waited


def test_a_model_that_does_not_stream_is_refused(streaming_run, recording, tmp_path, capsys):
    shutil.copytree(streaming_run, tmp_path / "model")
    config = tmp_path / "model" / "config.yaml"
    config.write_text(config.read_text().replace("encoder: contextual_block_transformer", "encoder: transformer"))
    assert call(tmp_path / "model", "--stream", recording) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "encoder transformer does not stream; those that do are contextual_block_transformer" in line


@pytest.mark.usefixtures("unchecked_paths")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a.wav", "b.wav"), "--stream with 2 sources is not possible; give one file, FIFO, or - for standard input"),
        (("--list", "wav.scp"), "--stream with --list is not possible"),
        (("-", "--output_format", "srt"), "--output_format srt needs the end; with --stream give txt or json"),
        (("-", "--output_dir", "out"), "--output_dir is not possible with --stream; leave it out"),
        (("-", "--word_timestamps"), "--word_timestamps is not possible with --stream"),
        (("-", "--turns", "a.rttm"), "--turns is not possible with --stream"),
        (("-", "--max_line_width", "40"), "--max_line_width is not possible with --stream"),
        (("-", "--no_segmentation"), "--no_segmentation is not possible with --stream"),
        (("-", "--precision", "int8"), "--precision int8 is not possible with --stream"),
        (("-", "--cluster", "local"), "--cluster is not possible with --stream"),
        (("-", "--task", "st"), "--task st is not possible with --stream"),
        (("-", "--pcm_rate", "7"), "pcm_rate 7 is not allowed; give 1000 to 768000 Hz"),
        (("-", "--real_time"), "real_time is for files, and - is live; leave it out"),
        (("-", "--search", "greedy"), "search=greedy is not possible while streaming"),
    ],
    ids=str,
)
def test_options_that_do_not_fit_are_refused(streaming_run, arguments, message, capsys):
    assert call(streaming_run, "--stream", *arguments) == 1
    assert f"espnet-diverse transcribe: error: {message}" in capsys.readouterr().err


@pytest.mark.parametrize("option", [("--pcm_rate", "8000"), ("--real_time",)], ids=str)
def test_options_of_streaming_need_it(streaming_run, option, capsys):
    assert call(streaming_run, "a.wav", *option) == 1
    assert f"error: {option[0]} is for --stream; give that too, or leave it out" in capsys.readouterr().err


def test_a_model_with_a_memory_has_the_texts_of_the_recording(tmp_path, recording, capsys):
    run = write_run(tmp_path / "run", "diverse_transformer", memory={"kind": "cdt", "segment": 4, "slots": 3})
    found = Recognizer(run, options=SearchOptions(beam_size=2), segmentation=SegmentationOptions("energy"))(recording)
    assert call(run, *HOW, recording) == 0
    assert capsys.readouterr().out.splitlines() == [segment.text for segment in found.segments]
    assert len(found.segments) == 2 and all(segment.text for segment in found.segments)


def interrupt():
    signal.raise_signal(signal.SIGINT)


def test_an_interrupt_waits_for_the_next_block():
    interrupts, done, begun = Interrupts(), [], []
    with pytest.raises(KeyboardInterrupt), interrupts.handled():
        for block in interrupts.between(begun.append(number) or number for number in range(9)):
            if block == 3:
                interrupt()
            done.append(block)
    assert done == begun == [0, 1, 2, 3]


def test_an_interrupt_ends_the_reading_of_a_block():
    interrupts, done = Interrupts(), []

    def blocks():
        yield 0
        interrupt()
        yield 1

    with pytest.raises(KeyboardInterrupt), interrupts.handled():
        for block in interrupts.between(blocks()):
            done.append(block)
    assert done == [0]


def test_a_second_interrupt_ends_at_once():
    interrupts = Interrupts()
    with interrupts.handled():
        interrupt()
        with pytest.raises(KeyboardInterrupt):
            interrupt()


def test_the_end_of_the_blocks_is_the_end():
    assert list(Interrupts().between("ab")) == ["a", "b"]


def test_the_handler_is_put_back_and_another_is_left_alone():
    with Interrupts().handled():
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Interrupts().handled():
        interrupt()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
