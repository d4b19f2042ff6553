"""The command `translate`: lines in, lines out."""

import io
import json
import os
import sys
from types import SimpleNamespace

import pytest
import torch
import yaml

from espnet_diverse.bin.main import main
from espnet_diverse.decoding.directory.decode_dir import decode
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.predictor import Predictor, load_predictor
from espnet_diverse.errors import DataError
from espnet_diverse.inference import Translator
from espnet_diverse.runs.tasks import TASKS

BEAM = ["--beam_size", "3", "--batch_size", "8"]


@pytest.fixture(scope="module")
def decoded(tiny_translation, tmp_path_factory):
    """Source, text and score of the test data, by the decode command's own function."""
    run = tiny_translation
    search = load_predictor(run.model_dir, options=SearchOptions(beam_size=3))
    results = decode(search, run.test_dir, tmp_path_factory.mktemp("decoded"))
    sources = [line.split()[1] for line in (run.test_dir / "src_text").read_text().splitlines()]
    return [(source, one.text, one.score) for source, one in zip(sources, results, strict=True)]


@pytest.fixture
def translate(tiny_translation, monkeypatch):
    """Run the command with lines on standard input."""

    def run(*arguments, stdin=b""):
        stream = io.BytesIO(stdin)
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream, isatty=lambda: False))
        return main(["translate", str(tiny_translation.model_dir), *map(str, arguments), *BEAM])

    return run


def test_a_line_of_the_output_matches_the_input(translate, decoded, capsys):
    stdin = "\r\n".join(["\ufeff" + decoded[0][0], "", *(source for source, _, _ in decoded[1:])]).encode()
    assert translate(stdin=stdin) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [decoded[0][1], "", *(text for _, text, _ in decoded[1:])]
    assert f"translate: {len(decoded) + 1} lines" in err


def test_a_language_without_effect_is_said_once(translate, caplog):
    assert translate("--target_language", "de", "--batch_size", "1", stdin=b"ab\n" * 20) == 0
    assert [message[:36] for message in caplog.messages] == ["--target_language de has no effect: "]


def test_lines_in_one_language_by_its_heads(tiny_translation, tmp_path, capsys):
    config = yaml.safe_load((tiny_translation.model_dir / "config.yaml").read_text())
    conditions = {"conditions": {"tgtlang": ["de", "en"]}}
    selection = {"strategy": "group", "pool": 4, "by": ["tgtlang"], **conditions}
    config["decoder_conf"]["attention"] |= {"selection": selection}
    config["model_conf"] |= conditions
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    model, _ = TASKS["mt"].build_model_from_file(tmp_path / "config.yaml")
    for name, value in model.state_dict().items():
        if "logits_" in name:  # de has heads 0 and 1 of the pool, en 2 and 3
            value.copy_(torch.tensor([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]]))
    torch.save(model.state_dict(), tmp_path / "valid.acc.ave.pth")
    texts, found = ["abc", "dcba", "ab"], []
    for lines in (texts, *([text] for text in texts)):
        given = ["--target_language", "de", *(option for text in lines for option in ("--text", text))]
        assert main(["translate", str(tmp_path), *given, "--output_format", "tsv", *BEAM]) == 0
        found += [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    english = ["--target_language", "en", "--text", texts[0], "--output_format", "tsv", *BEAM]
    assert main(["translate", str(tmp_path), *english]) == 0
    other = float(capsys.readouterr().out.split("\t")[2])
    assert other != pytest.approx(float(found[0][2]), abs=1e-3)
    for (*together, score), (*alone, expected) in zip(found[:3], found[3:], strict=True):
        assert together == alone and float(score) == pytest.approx(float(expected), abs=1e-3)


def test_texts_of_the_command_line(translate, decoded, capsys):
    assert translate("--text", decoded[0][0], "--text", decoded[1][0], "--output_format", "tsv") == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    for (source, text, score), row in zip(decoded, rows, strict=False):
        assert row[:2] == [source, text] and float(row[2]) == pytest.approx(score, abs=1e-3)
    assert len(rows) == 2


def test_command_line_texts_are_cleaned_like_input_lines(translate, capsys):
    tsv = ("--output_format", "tsv")
    assert translate(*tsv, stdin="a  b\nc d\n\u00e4\n".encode()) == 0
    expected = capsys.readouterr().out
    assert translate("--text", " a\tb", "--text", "c\u200b\nd", "--text", "a\u0308", *tsv) == 0
    assert capsys.readouterr().out == expected and len(expected.splitlines()) == 3


def test_json_has_the_best_of_each_line(translate, decoded, capsys):
    assert translate("--text", decoded[0][0], "--output_format", "json", "--nbest", "2") == 0
    line = json.loads(capsys.readouterr().out)
    assert (line["source"], line["text"]) == decoded[0][:2]
    assert len(line["alternatives"]) == 2
    assert line["alternatives"][0] == {"text": line["text"], "score": line["score"]}
    assert line["score"] >= line["alternatives"][1]["score"]


def test_json_has_no_infinity_where_no_translation_was_found(translate, monkeypatch, capsys):
    monkeypatch.setattr(Predictor, "batch", lambda self, sources, *_: [[]] * len(sources))
    assert translate("--text", "ab", "--output_format", "json") == 0
    assert json.loads(capsys.readouterr().out) == {"source": "ab", "text": "", "score": None, "alternatives": []}


def test_a_bad_file_costs_no_good_one(translate, decoded, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("espnet_diverse.bin.use.translate._LONGEST_LINE", 50)
    for name, content in (
        ("a", b"abc\ncd\n"),
        ("latin", b"ab\n\xe9t\xe9\n"),
        ("b", b"dcba\n"),
        ("long", b"\0" * 60),
    ):
        (tmp_path / f"{name}.txt").write_bytes(content)
    good, bad = (
        [tmp_path / "a.txt", tmp_path / "b.txt"],
        [tmp_path / f"{name}.txt" for name in ("latin", "gone", "long")],
    )
    assert translate(*good, "--output_dir", tmp_path / "clean") == 0
    assert not (tmp_path / "clean" / "failures.json").exists()
    assert translate(good[0], *bad, good[1], "--output_dir", tmp_path / "out") == 2
    for name in ("a.txt", "b.txt"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "clean" / name).read_bytes() != b""
    assert len((tmp_path / "out" / "a.txt").read_text().splitlines()) == 2
    failures = json.loads((tmp_path / "out" / "failures.json").read_text())
    assert failures == {
        str(bad[0]): "line 2 is not UTF-8; convert the file with iconv",
        str(bad[1]): "No such file or directory",
        str(bad[2]): "line 1 has more than 50 bytes; give a file of text",
    }
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.txt", "b.txt", "failures.json"]
    assert f"translate: {bad[1]} was skipped: No such file or directory" in capsys.readouterr().err
    assert translate(*bad) == 1
    assert translate(*good, "--output_dir", tmp_path / "out") == 0
    assert not (tmp_path / "out" / "failures.json").exists()


def test_a_line_that_cannot_be_translated_costs_no_other(translate, tmp_path, monkeypatch, capsys):
    find = Predictor.find

    def short(self, sources, *others, **options):
        if max(map(len, sources)) > 5:  # four letters and <sos/eos>
            raise DataError("attention 'linformer' supports at most 5 positions; shorten the input")
        return find(self, sources, *others, **options)

    (tmp_path / "a.txt").write_text("ab\nabcd\n")
    assert translate(tmp_path / "a.txt", "--output_dir", tmp_path / "out") == 0
    short_ones = (tmp_path / "out" / "a.txt").read_text().splitlines()
    monkeypatch.setattr(Predictor, "find", short)
    (tmp_path / "a.txt").write_text("ab\nabcdabcd\nabcd\n")
    assert translate(tmp_path / "a.txt", "--output_dir", tmp_path / "out") == 2
    assert (tmp_path / "out" / "a.txt").read_text().splitlines() == [short_ones[0], "", short_ones[1]]
    reason = "attention 'linformer' supports at most 5 positions; shorten the input"
    assert json.loads((tmp_path / "out" / "failures.json").read_text()) == {f"{tmp_path / 'a.txt'}:2": reason}
    assert f"espnet-diverse translate: {tmp_path / 'a.txt'}:2 was skipped: {reason}\n" in capsys.readouterr().err


def test_the_lines_around_a_bad_one_are_translated_together(translate, monkeypatch):
    calls, whole = [], Translator.translate
    monkeypatch.setattr(Translator, "translate", lambda *given, **more: calls.append(given) or whole(*given, **more))
    assert translate(stdin=b"a\n" * 50 + b"ab" * 4000 + b"\n" + b"a\n" * 77) == 2
    assert len(calls) == 1 + 2 * 7 + 1 + 1  # first nothing, then halves of 128 lines, then nothing for the bad line


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self):
        return True


def test_a_line_of_megabytes_is_skipped_at_once(translate, decoded, capsys):
    source, text, _ = decoded[0]
    lines = [source, f"{source} " * 200_000, "ab" * 4000, source]
    assert translate(stdin="\n".join(lines).encode()) == 2
    found = capsys.readouterr()
    assert found.out.split("\n") == [text, "", "", text, ""]
    has = f"-:2 was skipped: a text of {len(lines[1].strip())} characters is too long: at most 100000; give its"
    assert has in found.err
    has = "-:3 was skipped: a text of 8000 tokens is too long: at most 5000 with attention of quadratic cost; give its"
    assert has in found.err


def test_a_terminal_shows_the_lines_as_they_are_translated(translate, decoded, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", shown := Screen())
    assert translate("--text", decoded[0][0], "--text", decoded[1][0]) == 0
    assert shown.getvalue().splitlines() == [text for _, text, _ in decoded[:2]]
    assert "translate: " not in capsys.readouterr().err


def test_a_pipe_without_a_reader_skips_no_file(translate, tmp_path, monkeypatch, capsys):
    (tmp_path / "a.txt").write_text("ab\n")
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", buffering=1) as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert translate(tmp_path / "a.txt") == 141
    assert "skipped" not in capsys.readouterr().err


def test_two_inputs_do_not_share_an_output(translate, tmp_path, capsys):
    assert translate("x/a.txt", "y/a.txt", "--output_dir", tmp_path) == 1
    assert "x/a.txt and y/a.txt would both be written to a; translate them separately" in capsys.readouterr().err


def test_text_and_files_exclude_each_other(translate, capsys):
    assert translate("a.txt", "--text", "ab") == 1
    assert "both --text and the file a.txt are given; give one of them" in capsys.readouterr().err


def test_a_model_of_speech_is_refused(tiny_run, capsys):
    assert main(["translate", str(tiny_run.model_dir), "--text", "ab"]) == 1
    assert "reads speech, not text; use Recognizer, or espnet-diverse transcribe" in capsys.readouterr().err
