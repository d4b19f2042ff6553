"""Transcription of recordings of any length.

inputs          the recordings that a user names: files, folders, standard input, a list
recordings      many recordings through one search, in batches
segmentation    segments of speech; vad detects where there is speech
endpointing     utterances of a stream, found while they are spoken
streaming       partial and final texts of a stream
language_id     the language that is spoken
alignment       times and confidences of words
given_text      times of a given text, as json, TextGrid and ctm
result          segments of a transcript, and their words
transcript      the transcript of a recording
formats         the files that transcripts are written as
audio_progress  progress in seconds of audio
"""
