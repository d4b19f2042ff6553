"""Audio is compared when a run continues: by sizes and times, and by its content where that is asked for."""

import os
import shutil

from espnet_diverse.bin.main import main


def train(run, output_dir, *options, train_dir):
    paths = ["--stats_dir", str(run.stats_dir), "--output_dir", str(output_dir)]
    return main(
        ["train", *run.config, *run._replace(train_dir=train_dir).data(), *paths, "--set=max_epoch=1", *options]
    )


def contents(folder):
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}


def test_audio_with_its_former_size_and_time_is_compared_where_that_is_asked_for(tiny_run, tmp_path, capfd):
    data, run = shutil.copytree(tiny_run.train_dir, tmp_path / "train"), tmp_path / "exp"
    table, audio = data / "wav.scp", data / "train-00.wav"
    table.write_text(table.read_text().replace(str(tiny_run.train_dir), str(data)))
    for path in data.glob("*.wav"):
        os.utime(path, (1e9, 1e9))  # long ago
    assert train(tiny_run, run, train_dir=data) == 0
    assert train(tiny_run, run, "--verify", train_dir=data) == 0
    status = audio.stat()
    audio.write_bytes((data / "train-01.wav").read_bytes())
    os.utime(audio, ns=(status.st_atime_ns, status.st_mtime_ns))
    before = contents(run)
    for options, code in ((["--verify"], 1), ([], 0)):
        assert train(tiny_run, run, *options, train_dir=data) == code
        said = f"{run}: was trained with other data than train/wav.scp, audio content; give another --output_dir"
        assert (said in capfd.readouterr().err) == bool(code) and (not code or contents(run) == before)
    os.utime(audio)
    assert train(tiny_run, run, train_dir=data) == 1
    assert said in capfd.readouterr().err
