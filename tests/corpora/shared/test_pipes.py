"""Commands of wav.scp: simple ones are run without a shell; whatever could write, run or fetch anything is refused."""

import gzip
from pathlib import Path

import pytest

from espnet_diverse.corpora.shared import pipes
from espnet_diverse.corpora.shared.pipes import parse_pipe, run_pipe
from espnet_diverse.errors import DataError
from espnet_diverse.untrusted.output_limits import VARIABLE


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a file, its compressed copy, and files with names that mean more to some programs."""
    monkeypatch.chdir(tmp_path)
    for name in ("one.wav", "two words.wav", "list.m3u", "|touch ran", "-x.wav", "$(touch ran)"):
        Path(name).write_bytes(b"content")
    Path("one.gz").write_bytes(gzip.compress(b"content"))
    Path("programs").mkdir()
    return tmp_path


def install(folder: Path, name: str, script: str) -> None:
    """Put a program on the PATH that `programs` is."""
    path = folder / "programs" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


ALLOWED = [
    "cat one.wav |",
    "cat 'two words.wav' |",
    "cat ./-x.wav |",
    "zcat one.gz |",
    "gunzip -c one.gz|",
    "gzip -dc one.gz |",
    "gzip -d -c one.gz |",
    "cat one.gz | gunzip -c |",
    "/opt/kaldi/tools/sph2pipe_v2.5/sph2pipe -f wav -p -c 1 one.wav |",
    "flac -c -d -s one.wav |",
    "flac -cds one.wav | sox -t wav - -t wav -r 16000 -c 1 -b 16 - |",
    "sox one.wav -t wav - remix 1 rate -v 16k trim 0.5 =2.5 dither -s |",
    "sox -v 0.9 one.wav -t wav - speed 1.1 gain -n -3 remix - |",
    "ffmpeg -i one.wav -f wav -ar 16000 -ac 1 - |",
    "ffmpeg -nostdin -loglevel error -ss 1.5 -i one.wav -vn -acodec pcm_s16le -f wav pipe:1 |",
    "ffmpeg -y -threads 1 -i one.wav -ab 16 -b:a 256k -bitexact -f wav - |",
    "cat one.wav | ffmpeg -f wav -i - -f wav - |",
]

REFUSED = {
    "cat one.wav": "only commands that end in a pipe are run",
    "| cat one.wav": "only commands that end in a pipe are run",
    "|": "nothing is not among the programs that are run, cat, zcat, gunzip",
    "cat 'one.wav |": "No closing quotation",
    "touch ran |": "touch is not among the programs that are run",
    "sh -c 'touch ran' |": "sh is not among the programs that are run",
    "A=1 cat one.wav |": "A=1 is not among the programs that are run",
    "cat one.wav | tee ran |": "tee is not among the programs that are run",
    "cat one.wav || cat one.wav |": "cat is not run with ",
    "cat one.wav; touch ran |": "cat is not run with ",
    "cat one.wav > ran |": "cat is not run with ",
    "cat one.wav & |": "cat is not run with ",
    "cat `touch ran` |": "cat is not run with ",
    "cat $(touch ran) |": "cat is not run with ",
    "cat *.wav |": "there is no file *.wav",
    "cat gone.wav |": "there is no file gone.wav",
    "cat -x.wav |": "cat is not run with ",
    "cat - |": "there is no file -",
    "cat |": "cat must read one file",
    "cat one.wav | cat one.wav |": "one.wav is read instead of the output of the command before it",
    "gunzip one.gz |": "gunzip is not run with ",
    "gzip -c one.wav |": "gzip is not run with ",
    "sph2pipe one.wav ran |": "sph2pipe is not run with ",
    "sph2pipe -f '../x' one.wav |": "sph2pipe is not run with ",
    "flac -d one.wav |": "flac is not run with ",
    "flac -c -d --delete-input-file one.wav |": "flac is not run with ",
    "flac -c -d -o ran one.wav |": "flac is not run with ",
    "sox one.wav ran |": "sox is not run with ",
    "sox one.wav |": "sox is not run with ",
    "sox '|touch ran' -t wav - |": "|touch ran could name other files or commands",
    "sox list.m3u -t wav - |": "list.m3u could name other files or commands",
    "sox one.wav -t wav - spectrogram |": "sox is not run with ",
    "sox one.wav -t wav - remix 1 spectrogram |": "sox is not run with ",
    "sox one.wav -t wav - trim 0 1 : newfile |": "sox is not run with ",
    "sox one.wav -t wav - noiseprof ran |": "sox is not run with ",
    "cat one.wav | sox |": "sox is not run with ",
    "ffmpeg -i one.wav ran |": "ffmpeg is not run with ",
    "ffmpeg -i one.wav -f wav ran - |": "ffmpeg is not run with ",
    "ffmpeg -i one.wav -i two.wav -f wav - |": "ffmpeg is not run with ",
    "ffmpeg -i one.wav -i two.wav |": "ffmpeg is not run with ",
    "ffmpeg -i http://host/one.wav -f wav - |": "there is no file http://host/one.wav",
    "ffmpeg -f lavfi -i movie=one.wav -f wav - |": "ffmpeg is not run with ",
    "ffmpeg -y -i one.wav -y ran |": "ffmpeg is not run with ",
    "flac -c one-d.wav |": "flac is not run with ",
    "ffmpeg -i one.wav -af 'amovie=x' - |": "ffmpeg is not run with ",
    "ffmpeg - |": "ffmpeg is not run with ",
    "ffmpeg -i one.wav -t |": "ffmpeg is not run with ",
}


@pytest.mark.parametrize("value", ALLOWED)
def test_simple_commands_are_read_as_words(folder, value):
    commands = parse_pipe(value)
    assert len(commands) == value.count("|")
    assert sum(word.startswith(str(folder)) for word in commands[0]) == 1  # the file, by its absolute path
    assert not any(word.startswith("/") for command in commands[1:] for word in command)


@pytest.mark.parametrize("value", REFUSED)
@pytest.mark.usefixtures("folder")
def test_other_commands_are_refused(value):
    with pytest.raises(DataError) as caught:
        run_pipe(value, Path("out"))
    message = str(caught.value)
    assert REFUSED[value] in message and message.startswith(f"{value!r}: ")
    assert message.endswith(("; write the file yourself and give its path", "; write the file and give its path"))
    assert not Path("ran").exists() and not Path("out").exists()


def test_a_chain_is_run_and_its_output_written(folder, monkeypatch):
    run_pipe("cat one.gz | gunzip -c | cat |", folder / "out")
    assert (folder / "out").read_bytes() == b"content"
    install(folder, "flac", 'echo "$@"')
    install(folder, "sox", 'cat; echo "$@"; pwd')
    monkeypatch.setenv("PATH", f"{folder}/programs:/usr/bin:/bin")
    run_pipe("/evil/flac -cds 'two words.wav' | sox -t wav - -t wav - remix 1 |", folder / "out")
    said = f"-cds {folder}/two words.wav\n-t wav - -t wav - remix 1\n{folder}\n"
    assert (folder / "out").read_text() == said


def test_ffmpeg_has_no_terminal_and_no_network(folder, monkeypatch):
    install(folder, "ffmpeg", 'echo "$@"')
    monkeypatch.setenv("PATH", f"{folder}/programs:/usr/bin:/bin")
    run_pipe("ffmpeg -i one.wav -f wav - |", folder / "out")
    said = f"-nostdin -protocol_whitelist file,pipe -i {folder}/one.wav -f wav -\n"
    assert (folder / "out").read_text() == said


def test_output_without_an_end_is_cut_off(folder, monkeypatch):
    install(folder, "sox", "exec cat /dev/zero")
    monkeypatch.setenv("PATH", f"{folder}/programs:/usr/bin:/bin")
    monkeypatch.setenv(VARIABLE, "3")
    with pytest.raises(DataError, match=r"holds more than 3 MB of samples; check it, or set ESPNET_DIVERSE_MAX_"):
        run_pipe("sox one.wav -t wav - pad 0 1000000000 |", folder / "out")
    assert (folder / "out").stat().st_size <= 3_000_000


def test_a_program_that_does_not_end_is_killed(folder, monkeypatch):
    install(folder, "sox", "exec sleep 60")
    monkeypatch.setenv("PATH", f"{folder}/programs:/usr/bin:/bin")
    monkeypatch.setattr(pipes, "MOST_SECONDS", 0.2)
    with pytest.raises(DataError, match="sox failed with exit code -9"):
        run_pipe("sox one.wav -t wav - |", folder / "out")


def test_a_command_may_end_before_it_has_read_all(folder, monkeypatch):
    install(folder, "sox", "exec head -c 5")
    monkeypatch.setenv("PATH", f"{folder}/programs:/usr/bin:/bin")
    Path("one.wav").write_bytes(bytes(1 << 20))
    run_pipe("cat one.wav | sox -t wav - -t wav - trim 0 1 |", folder / "out")
    assert (folder / "out").read_bytes() == bytes(5)
    install(folder, "sox", "kill -PIPE $$")
    with pytest.raises(DataError, match="sox failed with exit code -13"):
        run_pipe("cat one.wav | sox -t wav - -t wav - |", folder / "out")


def test_programs_that_are_missing_or_fail(folder, monkeypatch):
    install(folder, "flac", "echo no flac file >&2; exit 3")
    monkeypatch.setenv("PATH", f"{folder}/programs:/usr/bin:/bin")
    with pytest.raises(DataError, match=r"'flac -c -d one.wav \|': flac failed with exit code 3 \(no flac file\)"):
        run_pipe("flac -c -d one.wav |", folder / "out")
    with pytest.raises(DataError, match=r"flac failed with exit code 3"):
        run_pipe("flac -c -d one.wav | cat |", folder / "out")
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(DataError, match=r"there is no program cat on the PATH; install it, or write the file yourself"):
        run_pipe("cat one.wav |", folder / "out")
