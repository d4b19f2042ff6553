"""Data directories whose audio is a number, and a search that only counts."""

import numpy as np

from espnet_diverse.decoding.condition_ids import KnownConditions
from espnet_diverse.errors import DataError


def numbered(data_dir, frames):
    """Write a directory whose wav.scp has the number of frames of each utterance in the place of its audio."""
    data_dir.mkdir()
    table = "".join(f"u{index:03d} {count}\n" for index, count in enumerate(frames))
    (data_dir / "wav.scp").write_text(table)
    return data_dir


class Numbered:
    """A search that reads as many frames as the entry says, notes the batches of its calls, and finds nothing."""

    device, table, conditions = "cpu", "wav.scp", KnownConditions()
    batch_size, batch_frames, nbest, used = 3, 100, 1, {}

    def __init__(self):
        self.asked = []

    def read(self, value, segment=None):
        if not value.isdigit():
            raise DataError(f"{value}: no such file")
        return np.zeros(int(value)), float(value)

    def batch(self, sources, conditions):
        self.asked.append([len(source) for source in sources])
        return [[] for _ in sources]


def read(path):
    """Texts by utterance of a table that was written."""
    return dict(line.partition(" ")[::2] for line in path.read_text().splitlines())
