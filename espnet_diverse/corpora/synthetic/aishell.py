"""Synthetic AISHELL-1: data_aishell/wav, data_aishell/transcript, and utt2domain next to data_aishell."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from espnet_diverse.audio.speech_synthesis import synthesize
from espnet_diverse.audio.writing import write_audio
from espnet_diverse.corpora.synthetic import Utterance, check_size, make_once, utterances
from espnet_diverse.corpora.synthetic.text.parallel_text import write_lines

# Number of utterances of each split.
COUNTS = {
    "tiny": {"train": 24, "dev": 6, "test": 6},
    "demo": {"train": 1200, "dev": 60, "test": 100},
}
# Within the speaker numbers of AISHELL-1's splits.
SPEAKERS = {
    "train": ("S0002", "S0003", "S0004", "S0005", "S0006", "S0007", "S0008", "S0009"),
    "dev": ("S0724", "S0725"),
    "test": ("S0764", "S0765", "S0766", "S0767"),
}


def make(target_dir: Path, seed: int = 0, size: str = "demo", nj: int = 2) -> Path:
    """Make the synthetic corpus; see `corpora.synthetic`."""
    check_size(size)
    corpus = {split: utterances(["zh"], split, count, seed, SPEAKERS[split]) for split, count in COUNTS[size].items()}
    settings = {"layout": "aishell", "size": size, "seed": seed}
    return make_once(target_dir, settings, corpus, lambda folder: _write(folder, corpus, nj))


def _write(folder: Path, corpus: Mapping[str, Sequence[Utterance]], nj: int) -> None:
    placed = [(split, utterance) for split, subset in corpus.items() for utterance in subset]
    count = Counter()
    transcript, domains = [], []
    recordings = synthesize([utterance.line for _, utterance in placed], nj)
    for (split, utterance), samples in zip(placed, recordings, strict=True):
        count[utterance.speaker] += 1
        # AISHELL-1 numbers the sentences of a speaker from 0121 on.
        name = f"BAC009{utterance.speaker}W{120 + count[utterance.speaker]:04d}"
        wav = folder / "data_aishell" / "wav" / split / utterance.speaker / f"{name}.wav"
        wav.parent.mkdir(parents=True, exist_ok=True)
        write_audio(wav, samples)
        transcript.append(f"{name} {' '.join(utterance.sentence.words[0])}")
        domains.append(f"{name} {utterance.sentence.domain}")
    write_lines(folder / "data_aishell" / "transcript" / "aishell_transcript_v0.8.txt", sorted(transcript))
    write_lines(folder / "utt2domain", sorted(domains))
