"""The utterances that the models of `tests/fixtures` decode, as a data directory."""

import soundfile
from fixtures.recordings import RATE, TEST, samples


def write_utterances(folder, source, languages):
    """Write wav.scp, text, src_text with the texts of `source`, and the languages of both; return the folder."""
    folder.mkdir(parents=True)
    for name, text in TEST.items():
        soundfile.write(folder / f"{name}.wav", samples(text), RATE, subtype="PCM_16")
    tables = {
        "wav.scp": [folder / f"{name}.wav" for name in TEST],
        "text": TEST.values(),
        "src_text": source,
        "utt2lang": languages,
        "utt2tgtlang": languages,
    }
    for table, values in tables.items():
        rows = zip(TEST, values, strict=True)
        (folder / table).write_text("".join(f"{name} {value}\n" for name, value in rows))
    return folder
