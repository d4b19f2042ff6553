"""The utterances that the models of `tests/fixtures` decode, as a data directory."""

from fixtures.recordings import TEST, write_data


def write_utterances(folder, source, languages):
    """Write wav.scp, text, src_text with the texts of `source`, and the languages of both; return the folder."""
    tables = {"src_text": source, "utt2lang": languages, "utt2tgtlang": languages}
    write_data(folder, TEST, {table: dict(zip(TEST, values, strict=True)) for table, values in tables.items()})
    return folder
