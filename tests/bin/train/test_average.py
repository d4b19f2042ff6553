"""average: the file that it reads and the one that it writes."""

import shutil
import subprocess
import sys

import yaml

from espnet_diverse.bin.main import main


def test_average_prints_the_path_of_its_output(tiny_run, capfd):
    assert main(["average", str(tiny_run.model_dir), "--metric", "valid.loss", "--number", "1"]) == 0
    assert capfd.readouterr().out.strip() == str(tiny_run.model_dir / "valid.loss.ave.pth")


def test_inputs_and_outputs_exist_after_the_run(tiny_run, parse):
    module, args = parse("average", [str(tiny_run.model_dir)])
    assert [path.name for path in module.stage(args).inputs() + module.stage(args).outputs()] == [
        "checkpoint.pth",
        "valid.acc.ave.pth",
    ]
    assert all(path.exists() for path in module.stage(args).inputs() + module.stage(args).outputs())


def test_a_packed_model_has_no_epochs(tmp_path, capfd):
    (tmp_path / "model.zip").write_bytes(b"PK")
    for name, what in {"model.zip": "is a file, and a directory is needed", "no": "there is no such directory"}.items():
        assert main(["average", str(tmp_path / name)]) == 1
        said = f"{tmp_path / name}: {what}; give the directory of a run; a packed model has no epochs"
        assert capfd.readouterr().err == f"espnet-diverse average: error: {said}\n"


def test_a_criterion_that_was_not_kept_is_one_line(tiny_run, capfd):
    assert main(["average", str(tiny_run.model_dir), "--metric", "valid.wer"]) == 1
    error = capfd.readouterr().err
    assert error.startswith("espnet-diverse average: error: ") and "valid.wer" in error and error.count("\n") == 1


def test_a_run_without_accuracy_is_averaged_by_its_own_criterion(tiny_run, tmp_path, capfd, parse):
    folder = shutil.copytree(tiny_run.model_dir, tmp_path / "exp", symlinks=True)
    config = yaml.safe_load((folder / "config.yaml").read_text())
    (folder / "config.yaml").write_text(yaml.safe_dump(config | {"best_model_criterion": [["valid", "loss", "min"]]}))
    assert main(["average", str(folder), "--number", "1"]) == 0
    assert capfd.readouterr().out.strip() == str(folder / "valid.loss.ave.pth")
    module, args = parse("average", [str(folder)])
    assert module.stage(args).outputs() == [folder / "valid.loss.ave.pth"]


def test_before_training_accuracy_is_expected(tmp_path, parse):
    module, args = parse("average", [str(tmp_path)])
    assert module.stage(args).outputs() == [tmp_path / "valid.acc.ave.pth"]
    (tmp_path / "config.yaml").write_text("[")
    assert module.stage(args).outputs() == [tmp_path / "valid.acc.ave.pth"]


def test_a_warning_is_shown_with_the_name_of_the_command(tiny_run, tmp_path):
    """In a process of its own: pytest has handlers of log records, and then the program adds none."""
    folder = shutil.copytree(tiny_run.model_dir, tmp_path / "exp", symlinks=True)
    command = [sys.executable, "-m", "espnet_diverse", "average", str(folder)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    said = "2 of the 5 epochs that are asked for: the run has no more with a finite valid.acc; averaging these"
    assert shown.stderr == f"espnet-diverse average: {folder / 'valid.acc.ave.pth'}: {said}\n"
