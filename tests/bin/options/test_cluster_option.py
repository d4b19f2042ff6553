"""Commands with --cluster, on two workers of this machine that all tests share; without it, Dask is absent."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest
import torch
from conftest import write_data_dir

from espnet_diverse.bin.main import main
from espnet_diverse.cluster import backends
from espnet_diverse.cluster.configuration import LocalOptions
from espnet_diverse.cpu import linear_kernels

pytestmark = [pytest.mark.slow, pytest.mark.recipes]


@pytest.fixture(scope="module")
def client():
    with backends.started(LocalOptions(kind="local", workers=2, retries=100)) as client:
        yield client


@pytest.fixture
def shared(client, monkeypatch):
    """Commands with `--cluster local` find these workers."""

    @contextmanager
    def started(options):
        assert options == LocalOptions(kind="local", workers=2)
        yield client

    monkeypatch.setattr(backends, "started", started)
    return client


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """60 utterances, of which four cannot be read."""
    folder = write_data_dir(tmp_path_factory.mktemp("data") / "many", 60, 7)
    lines = (folder / "wav.scp").read_text().splitlines()
    lines[3::15] = [f"{line.split()[0]} /no/such-{number}.wav" for number, line in enumerate(lines[3::15])]
    (folder / "wav.scp").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def decoded(tiny_run, data_dir, tmp_path):
    """A function that decodes with some options and returns the content of the files."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as workers do

    def run(name, *options):
        arguments = ["--data_dir", str(data_dir), "--output_dir", str(tmp_path / name), "--beam_size", "3"]
        assert main(["decode", str(tiny_run.model_dir), *arguments, "--batch_size", "4", *options]) == 2
        return [(tmp_path / name / file).read_bytes() for file in ("text", "score", "failures.json")]

    yield run
    torch.set_num_threads(threads)


def processes(client, workers=None):
    """Ids of the processes of the workers, of all by default."""
    found = client.run(os.getpid, workers=workers, on_error="return").values()
    return [process for process in found if isinstance(process, int)]


def test_decoding_matches_one_process(decoded, shared, tmp_path, capfd):
    alone = decoded("alone")
    capfd.readouterr()
    assert decoded("cluster", "--cluster", "local") == alone
    assert len(alone[0].splitlines()) == 56 and len(json.loads(alone[2])) == 4
    shown = capfd.readouterr()
    assert "decoded 56 of 60 utterances (4 failed, 0 empty)" in shown.out
    assert "decode: 60/60 utterances, " in shown.err and "was not decoded: /no/such-0.wav: no such audio" in shown.err
    assert json.loads((tmp_path / "cluster" / "decode.json").read_text())["device"] == "cpu"


def test_workers_multiply_matrices_as_the_command_does(decoded, shared, monkeypatch):
    taken = dict.fromkeys(linear_kernels.choice(), "mkl")
    monkeypatch.setattr(linear_kernels, "choice", lambda: taken)
    decoded("cluster", "--cluster", "local")
    assert taken in shared.run(lambda: sys.modules["espnet_diverse.cpu.linear_kernels"]._taken).values()


def test_transcripts_match_one_process(tiny_run, shared, tmp_path, capfd):
    recordings = [str(path) for path in sorted(tiny_run.train_dir.glob("*.wav"))] + ["/no/such.wav"]
    options = ["--beam_size", "2", "--batch_size", "2", "--vad", "none", "--output_format", "json"]
    command = ["transcribe", str(tiny_run.model_dir), *recordings, *options, "--output_dir"]
    assert main([*command, str(tmp_path / "alone")]) == 2
    assert main([*command, str(tmp_path / "cluster"), "--cluster", "local"]) == 2
    alone = {path.name: path.read_bytes() for path in (tmp_path / "alone").iterdir()}
    assert len(alone) == 13
    assert {path.name: path.read_bytes() for path in (tmp_path / "cluster").iterdir()} == alone
    assert capfd.readouterr().err.count("skipped /no/such.wav: no such audio file") == 2
    assert main(["transcribe", str(tiny_run.model_dir), "-", "--cluster", "local"]) == 1
    assert "error: - is the standard input of this machine, which workers of --cluster" in capfd.readouterr().err


def test_back_translation_matches_one_process(tiny_translation, shared, tmp_path, capfd):
    (mono := tmp_path / "mono").mkdir()
    (mono / "text").write_text("".join(f"m{n} {'abcd'[n % 4 :]}{'da' * (n % 3)}\n" for n in range(9)))
    (mono / "utt2lang").write_text("".join(f"m{n} yy\n" for n in range(9)))
    options = ["--data_dir", str(mono), "--target_language", "xx", "--beam_size", "2", "--batch_size", "2"]
    command = ["augment", "back", str(tiny_translation.model_dir), *options, "--max_ratio", "99", "--output_dir"]
    codes = [main([*command, str(tmp_path / "alone")]), main([*command, str(tmp_path / "pool"), "--cluster", "local"])]
    assert codes[0] == codes[1]
    alone, pool = files(tmp_path / "alone"), files(tmp_path / "pool")
    assert alone.keys() == pool.keys() and alone["src_text"]
    changed = {name for name in alone if alone[name] != pool[name]}
    assert changed <= {"translation/decode.json", "translation/decode.log"}
    assert "decode: 9/9 utterances, " in capfd.readouterr().err.split("decoded 9 of 9")[-1]


def test_prepared_data_matches_one_process_also_if_a_worker_is_killed(data_dir, shared, tmp_path, capfd):
    options = ["--rate", "8000", "--speed_perturb", "0.9", "1.0", "--output_dir", str(tmp_path / "data")]
    command = ["prepare", "kaldi", "--set_names", "train=many", "--sets", "train", *options]

    def prepared(source, *more):
        code = main([*command, str(source.parent), *more])
        return code, capfd.readouterr(), files(tmp_path / "data")

    code, said, alone = prepared(data_dir)
    assert code == 1 and not alone and "error: 4 faults: train: many-03: /no/such-0.wav: no su" in said.err
    assert prepared(data_dir, "--cluster", "local")[1].err.splitlines()[-1] == said.err.splitlines()[-1]
    lines = (data_dir / "wav.scp").read_text().splitlines(keepends=True)
    shutil.copytree(data_dir, sound := tmp_path / "corpus" / "many")
    for table in ("wav.scp", "text", "utt2spk", "spk2utt"):
        rows = zip(lines, (data_dir / table).read_text().splitlines(keepends=True), strict=True)
        (sound / table).write_text("".join(row for line, row in rows if "/no/such" not in line))
    for audio_format in (["wav"], ["ark", "--shards", "3"]):
        code, said, alone = prepared(sound, "--audio_format", *audio_format)
        assert code == 0 and "train: 112 utterances, " in said.out
        with killing(shared, 1) as left:
            while left:
                again = prepared(sound, "--audio_format", *audio_format, "--cluster", "local")
        assert (again[0], again[1].out, again[2]) == (code, said.out, alone)
    assert "format train: 3/3 files, " in again[1].err


def test_statistics_match_one_process(tiny_run, decoded, shared, tmp_path, capfd):  # in one thread as `decoded`
    command = ["stats", *tiny_run.config, *tiny_run.data(), "--set", "batch_size=2", "--output_dir"]
    assert main([*command, str(tmp_path / "alone")]) == 0
    with killing(shared, 1) as left:
        while left:
            assert main([*command, str(tmp_path / "cluster"), "--cluster", "local"]) == 0
    assert "stats train: 6/6 steps, " in capfd.readouterr().err
    alone, cluster = files(tmp_path / "alone"), files(tmp_path / "cluster")
    assert alone.keys() == cluster.keys() and len(alone) > 12
    assert {name for name in alone if alone[name] != cluster[name]} <= {"stats.log", "config.yaml"}


def files(folder):
    """Content of the files in a folder, by path inside it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def kill_workers(client, times, stop):
    """Kill a worker that has work, again and again; `times` counts down."""
    while times and not stop.is_set():
        busy = [worker for worker, keys in client.processing().items() if keys][:1]
        for process in processes(client, busy) if busy else ():
            os.kill(process, signal.SIGKILL)
            times.pop()
        time.sleep(0.2)


@contextmanager
def killing(client, count):
    times, stop = [None] * count, threading.Event()
    thread = threading.Thread(target=kill_workers, args=(client, times, stop))
    thread.start()
    try:
        yield times
    finally:
        stop.set()
        thread.join()


def test_a_worker_that_is_killed_in_the_middle_loses_nothing(decoded, shared):
    alone = decoded("alone")
    before = set(processes(shared))
    with killing(shared, 1) as left:
        assert decoded("killed", "--cluster", "local") == alone
    assert not left and len(before & set(processes(shared))) < 2


@pytest.mark.trust
def test_20_kills_during_decoding_lose_nothing(decoded, shared):
    alone = decoded("alone")
    with killing(shared, 20) as left:
        while left:
            assert decoded("killed", "--cluster", "local") == alone


def test_errors_of_a_cluster_are_one_line(decoded, tmp_path, tiny_run, shared, capfd):
    (tmp_path / "a.pth").write_text("no weights")
    arguments = ["--data_dir", str(tiny_run.test_dir), "--output_dir", str(tmp_path / "out"), "--cluster"]
    assert main(["decode", str(tiny_run.model_dir), *arguments, "locl"]) == 1
    assert "error: configuration fragment 'locl' is not found in " in capfd.readouterr().err
    assert main(["decode", str(tiny_run.model_dir), *arguments, "local", "--model_file", str(tmp_path / "a.pth")]) == 1
    said = capfd.readouterr().err
    assert "espnet-diverse decode: error: worker on " in said and "a.pth: " in said
    assert "Traceback" not in said


def test_without_the_option_dask_is_not_imported(tiny_run, tmp_path):
    arguments = [str(tiny_run.model_dir), "--data_dir", str(tiny_run.test_dir), "--output_dir", str(tmp_path)]
    code = f"""
import sys
sys.modules.update(dict.fromkeys(("dask", "distributed", "dask_jobqueue", "tornado")))
from espnet_diverse.bin.main import main
sys.exit(main({["decode", *arguments, "--beam_size", "2"]!r}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
