"""average: the file that it reads and the one that it writes."""

from espnet_diverse.bin.main import main


def test_average_prints_what_it_wrote(tiny_run, capfd):
    assert main(["average", "--model_dir", str(tiny_run.model_dir), "--metric", "valid.loss", "--number", "1"]) == 0
    assert capfd.readouterr().out.strip() == str(tiny_run.model_dir / "valid.loss.ave.pth")


def test_what_is_read_and_written_is_there_after_the_run(tiny_run, parse):
    module, args = parse("average", ["--model_dir", str(tiny_run.model_dir)])
    assert [path.name for path in module.inputs(args) + module.outputs(args)] == ["checkpoint.pth", "valid.acc.ave.pth"]
    assert all(path.exists() for path in module.inputs(args) + module.outputs(args))


def test_a_criterion_that_was_not_kept_is_one_line(tiny_run, capfd):
    assert main(["average", str(tiny_run.model_dir), "--metric", "valid.wer"]) == 1
    error = capfd.readouterr().err
    assert error.startswith("espnet-diverse average: error: ") and "valid.wer" in error and error.count("\n") == 1
