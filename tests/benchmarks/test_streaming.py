"""The benchmark of streaming, on a tiny model: a complete table, and the same texts; times are not judged."""

import soundfile
from references.streaming import RATE, tones, write_run


def test_the_table_is_complete_and_the_texts_agree(tmp_path, capsys):
    import streaming

    run = write_run(tmp_path / "run", block_size=40, hop_size=16, look_ahead=16)
    for table in ("wav.scp", "text"):
        (tmp_path / table).write_text("".join(f"{name} {tmp_path / name}.wav\n" for name in "ab"))
    for seed, name in enumerate("ab"):
        soundfile.write(tmp_path / f"{name}.wav", tones(0.9, seed), RATE)
    streaming.main(["--model_dir", str(run), "--data_dir", str(tmp_path), "--beam_size", "2", "--utterances", "2"])
    header, _, *rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert header.endswith("| as ESPnet | as no repetitions | as the recording | as the reference |")
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [row[0] for row in cells] == ["ESPnet", "no repetitions", "blockwise", "ours"]
    assert [row[5] for row in cells[1:3]] == ["2/2", "2/2"] and cells[3][6] == "2/2"
    for row in cells:
        first, final = (float(cell.split(",")[0]) for cell in row[1:3])
        assert 0.9 < first <= 0.9 + final + 0.01 and float(row[3]) > 0
