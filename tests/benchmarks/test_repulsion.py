"""The benchmark of repulsion at a tiny size: a complete table; times are not judged."""


def test_the_table_is_complete(tiny_step, capsys):
    import repulsion

    repulsion.main(["--size", tiny_step, "--utterances", "2", "--time", "12", "--repeats", "2"])
    printed = capsys.readouterr().out
    assert "ratios of medians of 2 rounds" in printed
    head, row = [line.strip("| ").split(" | ") for line in printed.splitlines() if line.startswith("| ")]
    assert head == ["B, T", "plain ms", "svgd", "spos", "disagreement"] and row[0] == f"{tiny_step}: 2, 12"
    assert len(row) == len(head) and all(float(cell) > 0 for cell in row[1:])
