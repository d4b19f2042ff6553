"""A run is continued with its own data, vocabulary, statistics and checkpoint, or not at all."""

import json
import shutil

import numpy as np
import pytest
import torch

from espnet_diverse.bin.main import main
from espnet_diverse.runs import checkpoint
from espnet_diverse.text.vocabulary import Vocabulary
from espnet_diverse.training.checkpoints.run_identity import identity_of

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


def test_resume_false_is_refused_and_deletes_nothing(tiny_run, finished, capfd):
    before = contents(finished)
    assert train(tiny_run, finished, tiny_run.stats_dir, "--set=resume=false") == 1
    said = "--set resume=false: key 'resume' can only be true; give --restart, which deletes what the run has saved"
    assert said in capfd.readouterr().err and contents(finished) == before


def test_a_run_that_an_earlier_version_began_is_refused_and_nothing_is_written(tiny_run, finished, tmp_path, capfd):
    """It would continue with other random numbers."""
    run = shutil.copytree(finished, tmp_path / "exp", symlinks=True)
    (run / checkpoint.PREVIOUS).unlink(missing_ok=True)
    state = checkpoint.load(run / checkpoint.CHECKPOINT)
    del state["updates"]
    checkpoint.save(state, run / checkpoint.CHECKPOINT)
    before = contents(run)
    assert train(tiny_run, run, tiny_run.stats_dir, "--set=max_epoch=2", "--allow_changed", "max_epoch") == 1
    said = capfd.readouterr().err.splitlines()[-1]
    assert "checkpoint.pth: was saved by version 0.2.0 or earlier, or by ESPnet" in said and "--restart" in said
    assert contents(run) == before


@pytest.mark.parametrize("what", ["data", "vocabulary", "statistics"])
def test_changed_inputs_are_refused_by_name_and_nothing_is_written(what, tiny_run, finished, tmp_path, capfd):
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
    assert (f", or --allow_changed {what} to continue with these" in error) == (what != "vocabulary")
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
    known = json.loads((copy / "data.json").read_text())
    odd = (
        *(known | {"train/text": value} for value in (None, 1, ["a"], {}, "a\x1b[2Jb", "a" * 1000)),
        [],
        None,
        "text",
    )
    for damaged in ('{"train/text": "1', "[" * 100_000, "NaN", *map(json.dumps, odd)):
        (copy / "data.json").write_text(damaged)
        assert train(tiny_run, copy, tiny_run.stats_dir) == 1
        assert "data.json: is damaged, so the data of the run cannot be compared; delete it" in capfd.readouterr().err


@pytest.fixture(scope="module")
def equal(tiny_run, finished, tmp_path_factory):
    """The folder of another run with the same settings and data."""
    folder = tmp_path_factory.mktemp("equal") / "exp"
    assert train(tiny_run, folder, tiny_run.stats_dir) == 0
    return folder


@pytest.mark.counted("changes before a resume, each refused by name with the folder's bytes as they were")
def test_the_checkpoint_of_another_run_is_refused(tiny_run, finished, equal, tmp_path, capfd):
    run = shutil.copytree(finished, tmp_path / "run", symlinks=True)
    shutil.copy(equal / checkpoint.CHECKPOINT, run)
    before = contents(run)
    assert train(tiny_run, run, tiny_run.stats_dir) == 1
    error, own, other = capfd.readouterr().err.splitlines()[-1], *(identity_of(folder) for folder in (finished, equal))
    assert own != other and own.startswith("exp of 20")
    assert f"{run / checkpoint.CHECKPOINT}: is of another run, {other}, and the run of this folder is {own}; " in error
    assert "put back the checkpoint of this run, or copy the whole folder" in error and contents(run) == before
    shutil.copy(finished / checkpoint.CHECKPOINT, run)
    more = ("--set=max_epoch=2", "--allow_changed", "max_epoch")
    assert train(tiny_run, run, tiny_run.stats_dir, *more) == 0
    assert identity_of(run) == own == checkpoint.load(run / checkpoint.CHECKPOINT)["run"]  # of an epoch later


def test_the_identity_of_a_run_ends_with_it(tiny_run, finished, tmp_path):
    run = shutil.copytree(finished, tmp_path / "exp", symlinks=True)
    assert train(tiny_run, run, tiny_run.stats_dir, "--restart") == 0
    assert identity_of(run) == checkpoint.load(run / checkpoint.CHECKPOINT)["run"] != identity_of(finished)


def without_identity(folder, of):
    """Let the checkpoints or data.json in the folder of a run be those of a former version."""
    if of == "data.json":
        record = json.loads((folder / of).read_text())
        (folder / of).write_text(json.dumps({name: value for name, value in record.items() if name != "run"}))
        return
    for path in (folder / checkpoint.CHECKPOINT, folder / checkpoint.PREVIOUS):
        if path.exists():
            state = checkpoint.load(path)
            del state["run"]
            checkpoint.save(state, path)


def test_a_run_of_a_former_version_has_no_identity_and_continues(tiny_run, finished, tmp_path, caplog):
    run = shutil.copytree(finished, tmp_path / "exp", symlinks=True)
    without_identity(run, checkpoint.CHECKPOINT), without_identity(run, "data.json")
    for epochs in (2, 3):
        more = (f"--set=max_epoch={epochs}", "--allow_changed", "max_epoch")
        assert train(tiny_run, run, tiny_run.stats_dir, *more) == 0
        assert "of which run" not in caplog.text
        assert identity_of(run) is checkpoint.load(run / checkpoint.CHECKPOINT)["run"] is None


def test_a_checkpoint_without_identity_is_refused_in_the_folder_of_a_run_that_has_one(
    tiny_run, finished, tmp_path, capfd
):
    run = shutil.copytree(finished, tmp_path / "exp", symlinks=True)
    without_identity(run, checkpoint.CHECKPOINT)
    before = contents(run)
    assert train(tiny_run, run, tiny_run.stats_dir) == 1
    said = f"is of a former version or of another program, and the run of this folder is {identity_of(finished)}; "
    assert said in capfd.readouterr().err.splitlines()[-1] and contents(run) == before


def test_a_missing_identity_is_taken_from_the_checkpoint_and_logged(tiny_run, finished, tmp_path, caplog):
    run = shutil.copytree(finished, tmp_path / "exp", symlinks=True)
    without_identity(run, "data.json")
    assert train(tiny_run, run, tiny_run.stats_dir) == 0
    said = f"is of the run {identity_of(finished)}, and the folder does not say of which run it is"
    assert said in caplog.text and identity_of(run) == identity_of(finished)


def swapped_audio(folder):
    """The files of two utterances, which have the same size, change places."""
    first, second = folder / "train-00.wav", folder / "train-01.wav"
    a, b = first.read_bytes(), second.read_bytes()
    first.write_bytes(b), second.write_bytes(a)


def without_half(folder):
    for name in ("wav.scp", "text", "utt2spk", "spk2utt"):
        lines = (folder / name).read_text().splitlines(keepends=True)
        (folder / name).write_text("".join(lines[: len(lines) // 2]))


def rewritten(name, change):
    def write(folder):
        path = folder / name
        path.write_text(change(path.read_text()))

    return write


def one_token_more(folder):
    Vocabulary.train(["abcde"], "char").save(folder)


def scaled(name, by):
    def scale(folder):
        path = folder / "train" / "feats_stats.npz"
        with np.load(path) as arrays:
            np.savez(path, **{key: by * arrays[key] if key == name else arrays[key] for key in arrays.files})

    return scale


def torn(name):
    def cut(folder):
        (folder / name).write_bytes((folder / name).read_bytes()[:-50])

    return cut


def checkpoint_with(value, *path):
    """A change of the saved state, with the digest of the new content: that of another run."""

    def write(folder):
        state = part = checkpoint.load(folder / "checkpoint.pth")
        for key in path[:-1]:
            part = part[key]
        part[path[-1]] = value
        for name in (checkpoint.CHECKPOINT, checkpoint.PREVIOUS):
            checkpoint.save(state, folder / name)

    return write


def without_checkpoints(folder):
    for name in (checkpoint.CHECKPOINT, checkpoint.PREVIOUS):
        (folder / name).unlink(missing_ok=True)


SETTINGS = {  # change: the key that is named
    "max_epoch=7": "max_epoch: 1 -> 7",
    "encoder_conf.linear_units=65": "encoder_conf.linear_units: 32 -> 65",
    "encoder_conf.output_size=32": "encoder_conf.output_size: 16 -> 32",
    "encoder_conf.num_blocks=2": "encoder_conf.num_blocks: 1 -> 2",
    "encoder_conf.dropout_rate=0.3": "encoder_conf.dropout_rate",
    "decoder_conf.linear_units=64": "decoder_conf.linear_units: 32 -> 64",
    "decoder_conf.num_blocks=2": "decoder_conf.num_blocks: 1 -> 2",
    "ctc_conf.dropout_rate=0.1": "ctc_conf.dropout_rate: ",
    "model_conf.ctc_weight=0.9": "model_conf.ctc_weight",
    "frontend_conf.n_mels=21": "frontend_conf.n_mels: 20 -> 21",
    "specaug=null": "specaug",
    "normalize=null": "normalize: not set -> None",
    "batch_size=3": "batch_size: 6 -> 3",
    "batch_type=sorted": "batch_type: unsorted -> sorted",
    "accum_grad=2": "accum_grad",
    "grad_clip=2": "grad_clip",
    "seed=5": "seed: not set -> 5",
    "optim=sgd": "optim: adam -> sgd",
    "optim_conf.lr=0.01": "optim_conf.lr: 0.001 -> 0.01",
    "optim_conf.weight_decay=0.1": "optim_conf.weight_decay",
    "scheduler=warmuplr": "scheduler",
    "keep_nbest_models=3": "keep_nbest_models",
    "best_model_criterion=[[valid, acc, max]]": "best_model_criterion",
    "patience=3": "patience",
    "init_param=[x.pth]": "init_param",
    "use_amp=true": "use_amp",
}
DATA = {  # which folder is changed, how, and the message
    "transcripts shuffled": ("train_dir", rewritten("text", swapped), "other data than train/text"),
    "transcripts of validation": ("valid_dir", rewritten("text", swapped), "other data than valid/text"),
    "half the utterances": ("train_dir", without_half, "has statistics of other data than"),
    "audio swapped": ("train_dir", swapped_audio, "other data than train/wav.scp, audio content;"),
    "a wav deleted": ("train_dir", lambda folder: (folder / "train-03.wav").unlink(), "train-03"),
    "two tokens swapped": ("tokens_dir", rewritten("tokens.txt", lambda text: _swap(text, 2, 3)), "another vocabulary"),
    "a token more": ("tokens_dir", one_token_more, "another vocabulary than"),
    "sums": ("stats_dir", scaled("sum", 1.01), "variance of feature"),
    "count": ("stats_dir", scaled("count", 2), "other statistics than"),
    "statistics torn": ("stats_dir", torn("train/feats_stats.npz"), "is damaged or not a file of statistics"),
    "data.json torn": ("model_dir", torn("data.json"), "data.json: is damaged"),
    "train.yaml torn": ("model_dir", rewritten("train.yaml", lambda text: "[" + text), "train.yaml"),
    "other weights": (
        "model_dir",
        checkpoint_with(torch.zeros(3), "model", "ctc.ctc_lo.bias"),
        "1 of another shape or type: ctc.ctc_lo.bias (3,) for",
    ),
    "an epoch that is a path": (
        "model_dir",
        checkpoint_with("../x", "reporter", "epoch"),
        "reporter.epoch is '../x'; ",
    ),
    "moments of another shape": (
        "model_dir",
        checkpoint_with(torch.zeros(1), "optimizers", 0, "state", 5, "exp_avg"),
        "checkpoint.pth: optimizers[0].state[5].exp_avg is a tensor of float32 (1,); allowed is a tensor of float32 (",
    ),
    "checkpoint torn": ("model_dir", torn("checkpoint.pth"), "checkpoint.pth: the file is damaged"),
    "no checkpoint": ("model_dir", without_checkpoints, "but no checkpoint.pth from which training could continue"),
}


@pytest.mark.counted("changes before a resume, each refused by name with the folder's bytes as they were")
@pytest.mark.parametrize("change", SETTINGS)
def test_other_settings_are_refused_by_name(change, tiny_run, finished, capfd):
    before = contents(finished)
    assert train(tiny_run, finished, tiny_run.stats_dir, f"--set={change}", "--allow_changed", "data") == 1
    error = capfd.readouterr().err.splitlines()[-1]
    assert error.startswith(f"espnet-diverse train: error: {finished}: was trained with other settings: ")
    assert SETTINGS[change] in error and "give another --output_dir for a separate run, --restart to" in error
    of_optimizer = change.startswith(("optim=", "optim_conf.weight", "scheduler"))
    assert (f"or --allow_changed {change.partition('=')[0]} to continue with these" in error) != of_optimizer
    assert error.endswith(f"--restart{'' if of_optimizer else ' or --allow_changed'} in --train_options)")
    assert contents(finished) == before


@pytest.mark.counted("changes before a resume, each refused by name with the folder's bytes as they were")
@pytest.mark.parametrize("change", DATA)
def test_other_files_are_refused_by_name(change, tiny_run, finished, tmp_path, capfd):
    which, alter, said = DATA[change]
    folders = {name: getattr(tiny_run, name) for name in ("train_dir", "valid_dir", "tokens_dir", "stats_dir")}
    folders["model_dir"] = finished
    folders[which] = shutil.copytree(folders[which], tmp_path / folders[which].name)
    table = folders[which] / "wav.scp"
    if table.exists():
        table.write_text(table.read_text().replace(str(getattr(tiny_run, which)), str(folders[which])))
    alter(folders[which])
    run, stats_dir = folders.pop("model_dir"), folders.pop("stats_dir")
    before = contents(run)
    assert train(tiny_run, run, stats_dir, **folders) == 1
    error = capfd.readouterr().err.splitlines()[-1]
    assert error.startswith("espnet-diverse train: error: ") and said in error and contents(run) == before


def test_another_task_is_refused(tiny_run, finished, capfd):
    before = contents(finished)
    assert train(tiny_run, finished, tiny_run.stats_dir, "--task=st") == 1 and contents(finished) == before
    assert "exp: was trained with --task asr, not st; give another" in capfd.readouterr().err.splitlines()[-1]


def test_allowed_weights_must_still_fit(tiny_run, finished, capfd):
    before = contents(finished)
    change = ["--set=encoder_conf.linear_units=65", "--allow_changed", "encoder_conf"]
    assert train(tiny_run, finished, tiny_run.stats_dir, *change) == 1
    error = capfd.readouterr().err.splitlines()[-1]
    said = "checkpoint.pth: does not fit the model of this configuration; parameters 3 of another shape or type: "
    assert said in error and "feed_forward.w_1.weight (32, 16) for (65, 16)" in error
    assert "--restart to train this one from" in error and contents(finished) == before


def test_settings_without_effect_on_the_model_may_change(tiny_run, finished, tmp_path, capfd):
    copy = shutil.copytree(finished, tmp_path / "exp")
    assert train(tiny_run, copy, tiny_run.stats_dir, "--set=num_workers=1", "--set=log_interval=3") == 0
    assert "settings" not in capfd.readouterr().err


def test_a_restart_that_cannot_begin_deletes_nothing(tiny_run, finished, capfd):
    before, settings = contents(finished), ["--restart", "--set=optim_conf={lr: 1, betas: [0.9]}"]
    assert train(tiny_run, finished, tiny_run.stats_dir, *settings) == 1 and contents(finished) == before
    assert capfd.readouterr().err.splitlines()[-1].startswith("espnet-diverse train: error: training failed with Index")


def test_restart_trains_again_and_equals_the_first_run(tiny_run, finished, tmp_path):
    copy = shutil.copytree(finished, tmp_path / "exp", symlinks=True)
    (copy / "9epoch.pth").touch(), (copy / "nonfinite_batches.txt").touch()  # of another run
    (copy / ".stats.partial").mkdir()  # of `stats --output_dir exp/stats`, which was killed or still runs
    assert train(tiny_run, copy, tiny_run.stats_dir, "--restart", "--set=seed=1") == 0
    other = checkpoint.load(copy / "1epoch.pth")
    assert not {"9epoch.pth", "nonfinite_batches.txt", checkpoint.PREVIOUS} & {path.name for path in copy.iterdir()}
    assert train(tiny_run, copy, tiny_run.stats_dir, "--restart") == 0
    first, again = checkpoint.load(finished / "1epoch.pth"), checkpoint.load(copy / "1epoch.pth")
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_an_unknown_allowance_is_refused(tiny_run, finished, capfd):
    assert train(tiny_run, finished, tiny_run.stats_dir, "--allow_changed", "tokens") == 1
    assert "--allow_changed tokens: unknown; known: data statistics kernels, and keys of the" in capfd.readouterr().err
