"""A run is continued with its own data, vocabulary and statistics, or not at all."""

import json
import shutil

import numpy as np
import pytest

from espnet_diverse.bin.main import main
from espnet_diverse.training.resumption import digests

OTHER = {"data": "other data", "vocabulary": "another vocabulary", "statistics": "other statistics"}


@pytest.fixture(scope="module")
def finished(tiny_run, tmp_path_factory):
    """The folder of a run of one epoch."""
    folder = tmp_path_factory.mktemp("resumption") / "exp"
    assert train(tiny_run, folder, tiny_run.stats_dir) == 0
    return folder


def train(run, output_dir, stats_dir, *options, **data):
    arguments = run._replace(**data).data()
    paths = ["--stats_dir", str(stats_dir), "--output_dir", str(output_dir)]
    return main(["train", *run.config, *arguments, *paths, "--set=max_epoch=1", *options])


def contents(folder):
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}


def changed_copy(folder, target, file, change):
    shutil.copytree(folder, target)
    path = target / file
    path.write_text(change(path.read_text()))
    return target


def swapped(text):
    """The values of the first two lines of a table change places."""
    first, second, *rest = text.splitlines()
    (a, x), (b, y) = (line.split(maxsplit=1) for line in (first, second))
    return "\n".join([f"{a} {y}", f"{b} {x}", *rest]) + "\n"


@pytest.mark.parametrize("what", ["data", "vocabulary", "statistics"])
def test_what_differs_is_refused_by_name_and_nothing_is_written(what, tiny_run, finished, tmp_path, capfd):
    changes, stats_dir = {}, tiny_run.stats_dir
    if what == "data":
        changes["train_dir"] = changed_copy(tiny_run.train_dir, tmp_path / "train", "text", swapped)
        which = "train/text"
    elif what == "vocabulary":
        tokens = changed_copy(tiny_run.tokens_dir, tmp_path / "tokens", "tokens.txt", lambda text: _swap(text, 2, 3))
        changes["tokens_dir"], which = tokens, str(tokens)
    else:
        stats_dir = shutil.copytree(tiny_run.stats_dir, tmp_path / "stats")
        which = stats_dir / "train" / "feats_stats.npz"
        with np.load(which) as arrays:
            np.savez(which, **{name: 1.01 * arrays[name] for name in arrays.files})
    before = contents(finished)
    assert train(tiny_run, finished, stats_dir, **changes) == 1
    error = capfd.readouterr().err.splitlines()[-1]
    assert f"{finished}: was trained with {OTHER[what]} than {which}; give another --output_dir" in error
    assert (f", or --allow_changed {what} to go on with these" in error) == (what != "vocabulary")
    assert contents(finished) == before
    if what != "vocabulary":
        copy = shutil.copytree(finished, tmp_path / "exp")
        assert train(tiny_run, copy, stats_dir, "--allow_changed", what, **changes) == 0


def _swap(text, first, second):
    lines = text.splitlines()
    lines[first], lines[second] = lines[second], lines[first]
    return "\n".join(lines) + "\n"


def test_the_same_data_elsewhere_is_the_same(tiny_run, finished, tmp_path):
    moved = shutil.copytree(tiny_run.train_dir, tmp_path / "train")
    table = moved / "wav.scp"
    table.write_text(table.read_text().replace(str(tiny_run.train_dir), str(moved)))
    copy = shutil.copytree(finished, tmp_path / "exp")
    assert train(tiny_run, copy, tiny_run.stats_dir, train_dir=moved) == 0


def test_a_run_of_an_earlier_version_has_no_digests_and_gets_them(tiny_run, finished, tmp_path):
    copy = shutil.copytree(finished, tmp_path / "exp")
    (copy / "data.json").unlink()
    assert train(tiny_run, copy, tiny_run.stats_dir) == 0
    assert json.loads((copy / "data.json").read_text()).keys() >= {"train/text", "train/wav.scp", "valid/text"}


def test_damaged_digests_are_named(tiny_run, finished, tmp_path, capfd):
    copy = shutil.copytree(finished, tmp_path / "exp")
    for damaged in ('{"train/text": "1', "[]"):
        (copy / "data.json").write_text(damaged)
        assert train(tiny_run, copy, tiny_run.stats_dir) == 1
        assert "data.json: is damaged, so the data of the run cannot be compared; delete it" in capfd.readouterr().err


def test_an_unknown_allowance_is_refused(tiny_run, finished, capfd):
    assert train(tiny_run, finished, tiny_run.stats_dir, "--allow_changed", "tokens") == 1
    assert "--allow_changed tokens: unknown; known: data statistics" in capfd.readouterr().err


def test_digests_of_audio_are_those_of_ids_and_sizes(tmp_path):
    for folder, size in (("a", 3), ("b", 3), ("c", 4)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.wav").write_bytes(bytes(size))
        (tmp_path / folder / "wav.scp").write_text(f"u {tmp_path / folder / 'x.wav'}\n")
    paths = [[(str(tmp_path / folder / "wav.scp"), "speech", "sound")] for folder in "abc"]
    found = [digests({"train_data_path_and_name_and_type": p, "valid_data_path_and_name_and_type": []}) for p in paths]
    assert found[0] == found[1] != found[2]


def test_digests_of_arks_tell_entries_apart(tmp_path):
    (tmp_path / "x.ark").write_bytes(bytes(100))
    found = []
    for offset in (2, 50, 2):
        (tmp_path / "feats.scp").write_text(f"u {tmp_path / 'x.ark'}:{offset}\n")
        table = [(str(tmp_path / "feats.scp"), "speech", "kaldi_ark")]
        found.append(digests({"train_data_path_and_name_and_type": table, "valid_data_path_and_name_and_type": []}))
    assert found[0] == found[2] != found[1]
