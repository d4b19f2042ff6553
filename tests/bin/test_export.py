"""Export: the formats and the names that are refused."""

from espnet_diverse.bin.main import main


def test_export_writes_onnx(tiny_run, tmp_path, capfd):
    arguments = ["--model_dir", str(tiny_run.model_dir), "--output"]
    assert main(["export", "onnx", *arguments, str(tmp_path / "m.onnx"), "--int8"]) == 0
    assert capfd.readouterr().out.strip() == str(tmp_path / "m.onnx") and (tmp_path / "m.onnx").stat().st_size > 1000
    assert main(["export", "onnx", *arguments, str(tmp_path / "m.pt")]) == 1
    assert "m.pt: the name must end in .onnx" in capfd.readouterr().err
    assert main(["export", "safetensors", *arguments, str(tmp_path / "m.safetensors"), "--int8"]) == 1
    assert "--int8 is only for onnx; leave it out" in capfd.readouterr().err
