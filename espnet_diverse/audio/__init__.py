"""Reading and writing recordings: one reader for training and transcription.

    reading.open_file       a file, opened: its header, its samples in blocks, parts of it, a check of all of it
    reading.read_audio      samples and rate of a file, or of one segment of it
    reading.read_at         samples of a file, or of one segment of it, at a given rate
    reading.inspect_audio   the header of a file
    sources.open_audio      a path, a stream, standard input or an array as checked blocks of one rate
    live.open_live          a file, a FIFO or standard input as blocks while they come
    features.read_features  features of an entry of feats.scp
    speech_synthesis        speech by espeak-ng, for synthetic corpora
    writing.write_audio     samples as 16-bit wav or flac
    writing.ArkWriter       samples as flac in an ark
    resampling.resample     samples from any rate to another, with a speed factor
    segments.Segment        a part of a recording

Samples are float32 in [-1, 1); the channels of a recording are averaged. A rate that is not given is 16 kHz.
`reading` chooses the decoder of a file:

    libsndfile      wav, flac, mp3, ogg, opus, sph and more: header checks and decoding
    media           m4a, mp4, webm, wma, amr and aac, and files that `truncation` reports; converted by ffmpeg
    ark             entries of Kaldi's arks, such as wav.1.ark:1234
    truncation      files that libsndfile does not read to their end: lengths that are missing or wrong, joined files;
                    pages and streams of ogg

No reader trusts the length in a header: memory grows with the samples that a file actually holds.
"""

RATE = 16_000
"""The usual rate of prepared audio and of models in Hz; `runs.audio_rate` reads the rate of a model."""
RATES = (1000, 768_000)
"""The least and the greatest rate in Hz. A damaged header can hold any, and 1 Hz resampled would fill the memory."""
