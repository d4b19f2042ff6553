"""Data directories whose audio is a number, for searches that only count."""


def numbered(data_dir, frames):
    """Write a directory whose wav.scp has the number of frames of each utterance in the place of its audio."""
    data_dir.mkdir()
    table = "".join(f"u{index:03d} {count}\n" for index, count in enumerate(frames))
    (data_dir / "wav.scp").write_text(table)
    return data_dir
