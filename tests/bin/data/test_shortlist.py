"""`espnet-diverse shortlist`, and translation with what it writes."""

import subprocess
import sys

import pytest

from espnet_diverse.bin.main import main


@pytest.fixture
def call(tiny_translation, tmp_path):
    """Run the command on the training pairs of the tiny model, with the output lex.s2t; return its exit code."""
    run = tiny_translation
    tokens = ["--tokens_dir", run.tokens_dir, "--src_tokens_dir", run.tokens_dir.parent / "src_tokens"]

    def command(*options, data_dir=run.train_dir):
        words = ["--data_dir", data_dir, *tokens, "--output", tmp_path / "lex.s2t", *options]
        return main(["shortlist", *map(str, words)])

    return command


def test_a_translation_with_all_tokens_is_the_same(call, tiny_translation, tmp_path):
    """As processes: the table of the training pairs, then translation without and with it."""
    run, lines = tiny_translation, (tmp_path / "source")
    lines.write_text("abca\nddcb\nbadc\n")

    def process(*words):
        argv = [sys.executable, "-m", "espnet_diverse", *map(str, words)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    tokens = ("--tokens_dir", run.tokens_dir, "--src_tokens_dir", run.tokens_dir.parent / "src_tokens")
    said = process("shortlist", "--data_dir", run.train_dir, *tokens, "--output", tmp_path / "lex.s2t")
    assert said.startswith(f"{tmp_path / 'lex.s2t'}: ") and said.endswith(" from 40 pairs of sentences\n")
    translate = ("translate", run.model_dir, lines, "--beam_size", 3)
    without, all_tokens = process(*translate), process(*translate, "--shortlist", tmp_path / "lex.s2t")
    assert without == all_tokens and without.strip()


def test_the_best_translations_are_written(call, tmp_path):
    assert call("--best", "2", "--iterations", "3") == 0
    rows = [line.split() for line in (tmp_path / "lex.s2t").read_text().splitlines()]
    assert {source for _, source, _ in rows} == {*"abcd", "NULL"} and len(rows) == 10
    first = {source: target for target, source, _ in reversed(rows)}
    assert {source: first[source].lower() for source in "abcd"} == {letter: letter for letter in "abcd"}


def test_a_plan_estimates_again_only_where_a_side_changed(call, tiny_translation, tmp_path, capsys, monkeypatch):
    run = tiny_translation
    for name in ("text", "src_text"):
        (tmp_path / "train").mkdir(exist_ok=True)
        (tmp_path / "train" / name).write_bytes((run.train_dir / name).read_bytes())
    tokens = f"--tokens_dir {run.tokens_dir} --src_tokens_dir {run.tokens_dir.parent / 'src_tokens'}"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan").write_text(f"lexicon\tespnet-diverse shortlist --data_dir train {tokens} --output lex.s2t\n")
    assert main(["plan", "plan"]) == main(["plan", "plan"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "[lexicon] up to date"
    lines = (tmp_path / "train" / "text").read_text().splitlines()
    (tmp_path / "train" / "text").write_text("".join(f"{line.split()[0]} A\n" for line in lines))
    assert main(["plan", "plan"]) == 0
    assert {line.split()[0] for line in (tmp_path / "lex.s2t").read_text().splitlines()} == {"A"}


def test_bad_input_is_one_line(call, tiny_translation, tmp_path, capsys):
    data = tmp_path / "data"
    data.mkdir()
    text = (tiny_translation.train_dir / "text").read_text()
    (data / "text").write_text(text)
    cases = [([], "cannot be read"), (["--best", "0"], "best"), (["--iterations", "many"], "iterations")]
    for options, said in cases:
        try:
            code = call(*options, data_dir=data)
        except SystemExit as stop:
            code = stop.code
        assert code == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("espnet-diverse shortlist: error: ") and said in line
    first = text.split()[0]
    (data / "src_text").write_text("".join(text.splitlines(keepends=True)[1:]))
    assert call(data_dir=data) == 1
    assert f"src_text has no {first}, which the other side has" in capsys.readouterr().err
    assert not (tmp_path / "lex.s2t").exists()


def test_a_wrong_table_is_refused_by_what_reads_it(tiny_translation, tiny_run, tmp_path, capsys):
    (table := tmp_path / "lex.s2t").write_text("a a .5\nx a .5\n")
    run = tiny_translation
    decode = ["--data_dir", str(run.test_dir), "--output_dir", str(tmp_path / "out"), "--shortlist", str(table)]
    cases = [
        (run, [], f"{table}:2: 'x' is no token of the model's output text"),
        (run, ["--search", "sampling"], "search=sampling is not possible with a shortlist"),
        (run, ["--search", "espnet"], "search=espnet has no shortlist"),
        (tiny_run, [], f"{table}: a shortlist is for models that translate text, not for task asr"),
    ]
    for model, options, said in cases:
        assert main(["decode", str(model.model_dir), *decode, *options]) == 1
        assert said in capsys.readouterr().err.splitlines()[-1]
    assert main(["decode", str(run.model_dir), *decode[:4], "--shortlist_best", "5"]) == 1
    assert "shortlist_best 5 needs a shortlist; give --shortlist" in capsys.readouterr().err


def test_the_table_is_named_beside_the_texts(call, tiny_translation, tmp_path):
    assert call() == 0
    run, out = tiny_translation, tmp_path / "out"
    words = ["decode", run.model_dir, "--data_dir", run.test_dir, "--output_dir", out, "--beam_size", "2"]
    assert main([*map(str, words), "--shortlist", str(tmp_path / "lex.s2t"), "--shortlist_best", "3"]) == 0
    assert str(tmp_path / "lex.s2t") in (out / "decode.json").read_text()
