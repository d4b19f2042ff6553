"""Export: the formats and the names that are refused."""

import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

from espnet_diverse.bin.main import main


def test_export_writes_onnx(tiny_run, tmp_path, capfd):
    arguments = [str(tiny_run.model_dir), "--output"]
    assert main(["export", "onnx", *arguments, str(tmp_path / "m.onnx"), "--int8"]) == 0
    assert capfd.readouterr().out.strip() == str(tmp_path / "m.onnx") and (tmp_path / "m.onnx").stat().st_size > 1000
    assert main(["export", "onnx", *arguments, str(tmp_path / "m.pt")]) == 1
    assert "m.pt: the name must end in .onnx" in capfd.readouterr().err
    assert main(["export", "safetensors", *arguments, str(tmp_path / "m.safetensors"), "--int8"]) == 1
    assert "--int8 is only for onnx; leave it out" in capfd.readouterr().err
    assert main(["export", "safetensors", *arguments, str(tmp_path / "m.safetensors"), "--domain", "news"]) == 1
    assert ": a condition is for onnx; leave it out" in capfd.readouterr().err


class Manifest:
    """Stands in for RecordingSet and SupervisionSet of lhotse, whose writer takes an object at a time."""

    @classmethod
    @contextmanager
    def open_writer(cls, path):
        ids = []
        yield SimpleNamespace(write=lambda item: ids.append(item["id"]))
        Path(path).write_text(" ".join(ids))


def test_export_writes_manifests_of_lhotse(data_dir, tmp_path, capfd, monkeypatch, parse):
    item = SimpleNamespace(from_dict=dict)
    kinds = {"RecordingSet": Manifest, "Recording": item, "SupervisionSet": Manifest, "SupervisionSegment": item}
    monkeypatch.setitem(sys.modules, "lhotse", SimpleNamespace(**kinds))
    arguments = ["lhotse", str(data_dir), "--output", str(tmp_path / "out")]
    assert main(["export", *arguments]) == 0
    written = [tmp_path / "out" / f"{kind}_set.jsonl.gz" for kind in ("recordings", "supervisions")]
    assert capfd.readouterr().out.split() == list(map(str, written))
    assert [path.read_text() for path in written] == ["a1 a2 b1", "a1 a2 b1"]
    module, args = parse("export", arguments)
    assert (module.inputs(args), module.outputs(args)) == ([data_dir], written)
    assert main(["export", *arguments, "--language", "de"]) == 1
    assert (
        "--model_file and conditions are for models, and lhotse exports data; leave them out" in capfd.readouterr().err
    )
