"""The tables that `prepare` writes of a set, with all rows in dicts: slow and plain."""

from itertools import chain
from pathlib import Path

from espnet_diverse.data.kaldi import DataDir, write_data_dir
from espnet_diverse.data.output_paths import mark_prepared
from espnet_diverse.data.writing.format_audio import AudioFormat, Job, Spoken
from espnet_diverse.data.writing.format_options import FormatOptions


def write_prepared(data: DataDir, options: FormatOptions, folder: Path, final: Path) -> None:
    """Write the prepared set `data` to `folder`, with paths as if it were `final`."""
    folder.mkdir(parents=True)
    outcomes = map(AudioFormat(options, options.speeds, folder, final), _jobs(data, options))
    prepared = DataDir(dropped=dict(data.dropped))
    for outcome in sorted(chain.from_iterable(outcomes), key=lambda outcome: outcome.source):
        assert not outcome.fault
        source, own = outcome.source, data.utt2spk.get(outcome.source, outcome.source)
        for kept in outcome.kept:
            prepared.wav_scp[kept.utterance] = kept.path
            prepared.utt2spk[kept.utterance] = kept.speaker
            prepared.text[kept.utterance] = data.text[source]
            if data.src_text:
                prepared.src_text[kept.utterance] = data.src_text[source]
            for name, table in data.conditions.items():
                prepared.conditions.setdefault(name, {})[kept.utterance] = table[source]
            for name, table in data.extra.items():
                rows = {new: table[key] for key, new in ((source, kept.utterance), (own, kept.speaker)) if key in table}
                prepared.extra.setdefault(name, {}).update(rows)
        prepared.dropped.update(outcome.dropped)
    write_data_dir(prepared, folder)
    mark_prepared(folder)


def _jobs(data: DataDir, options: FormatOptions) -> list[Job]:
    spoken: dict[str, list[Spoken]] = {}
    for name in data.utterances():
        segment = data.segments.get(name)
        one = Spoken(name, data.utt2spk.get(name, name), data.text[name], segment)
        spoken.setdefault(segment.recording if segment else name, []).append(one)
    recordings = [(data.wav_scp[name], some) for name, some in spoken.items()]
    if options.audio_format != "ark":
        return [Job(None, [recording]) for recording in recordings]
    count = min(options.shards, len(recordings))
    bounds = [number * len(recordings) // count for number in range(count + 1)]
    return [Job(f"wav.{n}.ark", recordings[bounds[n - 1] : bounds[n]]) for n in range(1, count + 1)]
