"""compare: pictures, tables and numbers of several runs."""

import json
import shutil

from espnet_diverse.bin.main import main


def test_the_command_writes_table_numbers_and_picture(scored_run, tmp_path, capfd):
    output_dir, runs = tmp_path / "compare", [str(scored_run)] * 2
    assert main(["compare", *runs, "--names", "first", "--output_dir", str(output_dir)]) == 1
    assert "--names has 1 names for 2 runs; give one name per run, or none" in capfd.readouterr().err
    assert main(["compare", *runs, "--names", "first", "", "--output_dir", str(output_dir)]) == 1
    assert "--names has an empty name" in capfd.readouterr().err
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
    assert {path.name for path in module.outputs(args)} == {"compare.html", "compare.md", "compare.json", "compare.png"}


def test_texts_are_compared_by_their_references(scored_run, tmp_path, capfd):
    (tmp_path / "text").write_text("u1 a b c d\nu2 a b c d\n")
    other = shutil.copytree(scored_run, tmp_path / "other")
    for run, second in ((scored_run, "a b c d"), (other, "a x c y")):
        folder = run / "decode" / "test"
        (folder / "text").write_text(f"u1 a b c d\nu2 {second}\n")
        call = ["--metric", "wer", "--reference", str(tmp_path / "text"), "--hypothesis", str(folder / "text")]
        assert main(["score", *call, "--output_dir", str(folder)]) == 0
    capfd.readouterr()
    call = ["compare", str(scored_run), str(other), "--reference", str(tmp_path / "text")]
    assert main([*call, "--output_dir", str(tmp_path / "out")]) == 0
    assert "other has +25.0 WER against group4 (95 % interval +0.0 to +50.0" in capfd.readouterr().out
    (found,) = json.loads((tmp_path / "out/compare.json").read_text())["differences"]
    assert (found["system"], found["difference"], found["interval"]) == ("other", 25.0, [0.0, 50.0])
    assert found["utterances"] == {"u1": 0.0, "u2": 50.0}
    page = (tmp_path / "out/compare.html").read_text()
    assert page.index("<figure>") < page.index("<table>") and page.count("<img") == 2
    texts = "".join(f'<td class="words">{text}</td>' for text in ("a b c d", "a b c d", "a x c y"))
    row = f"<td>u2</td><td>+50.0</td>{texts}"
    assert row in page and "<td>u1</td>" not in page


def test_scores_by_other_rules_are_refused(scored_run, tmp_path, capfd):
    (tmp_path / "text").write_text("u1 A b\n")
    other = shutil.copytree(scored_run, tmp_path / "other")
    for run, options in ((scored_run, []), (other, ["--normalise", "wer"])):
        texts = ["--reference", str(tmp_path / "text"), "--hypothesis", str(tmp_path / "text")]
        assert main(["score", *texts, "--metric", "wer", *options, "--output_dir", str(run / "decode/test")]) == 0
    assert main(["compare", str(scored_run), str(other), "--output_dir", str(tmp_path / "out")]) == 1
    assert "scores of group4 (WER|case:mixed|norm:NFC|" in capfd.readouterr().err


def test_incomparable_runs_are_refused(scored_run, tmp_path, capfd):
    (tmp_path / "text").write_text("u1 a b\n")
    (scored_run / "decode/test/text").write_text("u1 a b\n")
    end = ["--reference", str(tmp_path / "text"), "--output_dir", str(tmp_path / "out")]
    for runs, said in (
        ([scored_run], "compares runs, and there is one; name two or more"),
        ([scored_run] * 2, "two runs have the same name; tell them apart by --names"),
        ([scored_run] * 2 + ["--names", "a", "b"], "a has wer 0.00 by it and 26.00 in its score.json; score with this"),
    ):
        assert main(["compare", *map(str, runs), *end]) == 1
        assert said in capfd.readouterr().err
