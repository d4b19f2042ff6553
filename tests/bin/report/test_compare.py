"""compare: one table, its numbers and a picture of several runs."""

import json

from espnet_diverse.bin.main import main


def test_the_command_writes_table_numbers_and_picture(scored_run, tmp_path, capfd):
    output_dir, runs = tmp_path / "compare", [str(scored_run)] * 2
    assert main(["compare", *runs, "--names", "first", "--output_dir", str(output_dir)]) == 1
    assert "--names has 1 names for 2 runs; give one name per run, or none" in capfd.readouterr().err
    assert main(["compare", *runs, "--names", "first", "second", "--output_dir", str(output_dir)]) == 0
    assert (output_dir / "compare.md").read_text() == capfd.readouterr().out
    numbers = json.loads((output_dir / "compare.json").read_text())
    assert [system["name"] for system in numbers["systems"]] == ["first", "second"] and numbers["metric"] == "wer"
    assert (output_dir / "compare.png").read_bytes().startswith(b"\x89PNG")


def test_speed_is_an_input_only_where_it_was_measured(scored_run, parse):
    module, args = parse("compare", [str(scored_run), "--output_dir", "out"])
    scores = scored_run / "decode" / "test"
    assert module.inputs(args) == [scored_run / "config.yaml", scores / "score.json", scores / "decode.json"]
    (scores / "decode.json").unlink()
    assert module.inputs(args) == [scored_run / "config.yaml", scores / "score.json"]
    assert {path.name for path in module.outputs(args)} == {"compare.md", "compare.json", "compare.png"}
