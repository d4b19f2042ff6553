"""Transcribe recordings in Python: segments with times, words with confidences, and files that could not be read.

    python examples/transcribe.py exp/sdma talk.wav interview.mp3

The model is the directory of a run, or one file from `espnet-diverse pack`. A multilingual model identifies the
spoken language, unless `Request(path, conditions={"lang": "de"})` names it.
"""

import sys

from espnet_diverse.inference import Recognizer, Request, SearchOptions


def main(model: str, *paths: str) -> int:
    """Print a line for each segment and word; return 2 if a recording could not be read."""
    recognizer = Recognizer(model, options=SearchOptions(beam_size=5))
    failed = 0
    results = recognizer.transcribe_all([Request(path) for path in paths], word_timestamps=True)
    for path, result in zip(paths, results, strict=True):
        if isinstance(result, Exception):  # the other recordings are still transcribed
            print(f"{path}: {result}", file=sys.stderr)
            failed += 1
            continue
        print(f"{path}: {result.duration:.1f} s, language {result.language or 'not known to the model'}")
        for segment in result.segments:
            print(f"  {segment.start:7.2f} {segment.end:7.2f}  {segment.text}")
            for word in segment.words:
                print(f"    {word.start:7.2f} {word.end:7.2f}  {word.text} ({word.confidence:.0%})")
    return 2 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
