"""Commands in a process whose Linux-only features are hidden, and the folder of the cache."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from references.converted_audio import run_ffmpeg

from espnet_diverse import portable
from espnet_diverse.bin.main import main
from espnet_diverse.cpu import linear_kernels

HIDDEN = """
import json, os, sys
from pathlib import Path
import espnet2.bin.asr_inference, matplotlib, numpy, scipy, sentencepiece, soundfile, soxr, torch, torchaudio, yaml

from espnet_diverse import portable

sys.platform = "darwin"  # only now: packages that are made for Linux ask for it when they are imported
portable.PROC = Path("/absent")
portable.c_function = lambda name: None
for name in ("sched_getaffinity", "memfd_create", "posix_fadvise"):
    delattr(os, name)
torch.backends.mkldnn.is_available = lambda: False  # as in PyTorch for the processors of Macs
torch.ops.mkldnn = object()
os.fork = os.forkpty = None

from espnet_diverse.bin.main import main

sys.exit(max(main(words) for words in json.loads(sys.argv[1])))
"""


TEXTS = ["decoded/text", "decoded/score", "translated/lines.txt"]
TEXTS += ["transcripts/recording.json", "transcripts/test-01.json"]


@pytest.mark.recipes
def test_texts_are_the_same_without_linux_features(tiny_run, tiny_translation, ffmpeg, tmp_path):
    source, recording, lines = tiny_run.test_dir / "test-01.wav", tmp_path / "recording.m4a", tmp_path / "lines.txt"
    run_ffmpeg("-i", source, recording)
    lines.write_text("abc\ndcba\n")

    def commands(out):
        search, speech, text = ["--beam_size", "3"], str(tiny_run.model_dir), str(tiny_translation.model_dir)
        formats = ["--vad", "energy", "--output_format", "json", "--output_dir", str(out / "transcripts")]
        test = ["--data_dir", str(tiny_run.test_dir), "--output_dir", str(out / "decoded"), "--nj", "2"]
        return [
            ["transcribe", speech, str(recording), str(source), *formats, *search],
            ["decode", speech, *test, *search],
            ["translate", text, str(lines), "--output_dir", str(out / "translated"), *search],
        ]

    assert [main(words) for words in commands(tmp_path / "here")] == [0, 0, 0]
    call = [sys.executable, "-c", HIDDEN, json.dumps(commands(tmp_path / "there"))]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("--nj 2: a process cannot share its model on this system") == 1
    for name in TEXTS:
        here, there = ((tmp_path / folder / name).read_text() for folder in ("here", "there"))
        assert here == there and here.strip(), name


def test_a_temporary_file_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for proc, named in ((portable.PROC, 0), (tmp_path / "absent", 1)):
        monkeypatch.setattr(portable, "PROC", proc)
        with portable.unnamed_file() as path:
            path.write_bytes(b"one")
            assert subprocess.check_output(["cat", path]) == path.read_bytes() == b"one"
            assert len(list(tmp_path.iterdir())) == named
        assert not list(tmp_path.iterdir()) and not path.exists()


def test_a_function_of_the_c_library_or_none():
    assert portable.c_function("labs")(-3) == 3
    assert portable.c_function("no_such_function") is None


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"ESPNET_DIVERSE_CACHE": "/c", "XDG_CACHE_HOME": "/x"}, Path("/c")),
        ({"XDG_CACHE_HOME": "/x"}, Path("/x/espnet_diverse")),
        ({}, Path.home() / ".cache/espnet_diverse"),
    ],
)
def test_the_folder_of_the_cache(environment, expected, monkeypatch):
    for name in ("ESPNET_DIVERSE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert portable.cache_folder() == expected


@pytest.fixture
def homeless(monkeypatch):
    """A user without a home folder, as in containers, and without folders of caches."""

    def home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", home)
    for name in ("ESPNET_DIVERSE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("homeless")
def test_without_a_home_products_are_measured_and_others_need_a_folder():
    with pytest.raises(FileNotFoundError, match="set .ESPNET_DIVERSE_CACHE"):
        portable.cache_folder()
    assert linear_kernels.read_choice(linear_kernels._cache_file()) is None


@pytest.mark.usefixtures("homeless")
@pytest.mark.parametrize("name", ["ESPNET_DIVERSE_CACHE", "XDG_CACHE_HOME"])
def test_a_folder_that_is_given_needs_no_home(name, tmp_path, monkeypatch):
    monkeypatch.setenv(name, str(tmp_path))
    assert portable.cache_folder() in (tmp_path, tmp_path / "espnet_diverse")
