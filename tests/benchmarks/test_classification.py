"""The benchmark of the sentence classifier at a tiny size: a complete table; times are not judged."""


def test_the_table_is_complete(capsys):
    import classification

    size = ["--units", "4", "--heads", "3", "--sentences", "2", "--time", "5"]
    classification.main([*size, "--repeats", "2"])
    printed = capsys.readouterr().out
    assert "ratios of medians of 2 rounds" in printed
    head, row = [line.strip("| ").split(" | ") for line in printed.splitlines() if line.startswith("| ")]
    assert head == ["units, heads: B, T", "plain ms", "frobenius", "svgd", "spos", "sgld"] and row[0] == "4, 3: 2, 5"
    assert len(row) == len(head) and all(float(cell) > 0 for cell in row[1:])
