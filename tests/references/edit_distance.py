"""Naive edit distance, an oracle for error rates: R. A. Wagner and M. J. Fischer, 1974, doi:10.1145/321796.321811."""

from collections.abc import Sequence


def edit_distance(reference: Sequence[str], hypothesis: Sequence[str]) -> int:
    """Least number of substitutions, deletions and insertions that turn `reference` into `hypothesis`."""
    table = [[0] * (len(hypothesis) + 1) for _ in range(len(reference) + 1)]
    for i in range(len(reference) + 1):
        for j in range(len(hypothesis) + 1):
            if i == 0 or j == 0:
                table[i][j] = i + j
            else:
                substituted = table[i - 1][j - 1] + (reference[i - 1] != hypothesis[j - 1])
                table[i][j] = min(substituted, table[i - 1][j] + 1, table[i][j - 1] + 1)
    return table[-1][-1]
