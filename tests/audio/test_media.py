import os
import sys

import numpy as np
import pytest
import soundfile
from references.converted_audio import encoded, level, run_ffmpeg

from espnet_diverse.audio import media
from espnet_diverse.audio.reading import inspect_audio, read_audio
from espnet_diverse.audio.resampling import RATE
from espnet_diverse.audio.sources import open_audio
from espnet_diverse.errors import DataError
from espnet_diverse.untrusted.output_limits import VARIABLE

MEDIA = ("m4a", "mp4", "mov", "webm", "mka", "aac", "wma", "avi", "flv", "wv")
STREAMS = ("ac3", "eac3", "m2ts", "mpg", "ts", "vob")  # any part of them is whole


@pytest.fixture(scope="module")
def recordings(tmp_path_factory, ffmpeg):
    """A folder with the same recording in every format that ffmpeg is needed for."""
    folder = tmp_path_factory.mktemp("media")
    (folder / "x.wav").write_bytes(encoded(2.0, 44_100, channels=2, format="WAV"))
    for suffix in (*MEDIA, *STREAMS):
        run_ffmpeg("-i", folder / "x.wav", folder / f"x.{suffix}")
    return folder


@pytest.mark.parametrize("suffix", (*MEDIA, *STREAMS))
def test_media_go_through_ffmpeg(recordings, suffix):
    samples, rate = read_audio(recordings / f"x.{suffix}")
    assert rate == RATE and len(samples) / RATE == pytest.approx(2.0, abs=0.15)
    assert np.argmax(np.abs(np.fft.rfft(samples))) * RATE / len(samples) == pytest.approx(440, abs=1)
    assert level(samples[4000:-4000]) == pytest.approx(0.5 / 2**0.5, rel=0.05)


@pytest.mark.usefixtures("ffmpeg")
@pytest.mark.parametrize("suffix", ["m4a", "webm", "mka", "wv"])
def test_both_channels_of_a_call_stay(tmp_path, suffix):
    time = np.arange(2 * RATE) / RATE
    call = 0.4 * np.sin(2 * np.pi * np.stack([440 * time, 880 * time], axis=1))
    soundfile.write(tmp_path / "x.wav", call, RATE)
    path = tmp_path / f"call.{suffix}"
    run_ffmpeg("-i", tmp_path / "x.wav", path)
    for channel, hertz in ((0, 440), (1, 880)):
        with open_audio(path, channel=channel) as audio:
            samples = audio.samples()
        assert np.argmax(np.abs(np.fft.rfft(samples))) * RATE / len(samples) == pytest.approx(hertz, abs=1)
    with open_audio(path) as audio:
        assert audio.duration == pytest.approx(2.0, abs=0.1) and len(audio.samples()) and audio.powers.differ


@pytest.mark.usefixtures("ffmpeg")
def test_six_channels_are_mixed_to_two(tmp_path):
    soundfile.write(tmp_path / "x.wav", np.full((RATE, 6), 0.1), RATE)
    run_ffmpeg("-i", tmp_path / "x.wav", "-c:a", "wavpack", tmp_path / "x.wv")
    assert inspect_audio(tmp_path / "x.wv").channels == 2


@pytest.mark.parametrize("suffix", MEDIA)
def test_truncated_media_are_refused(recordings, tmp_path, suffix):
    content = (recordings / f"x.{suffix}").read_bytes()
    path = tmp_path / f"truncated.{suffix}"
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=rf"^{path}: ffmpeg cannot read it as .* \(.*\); get it again") as caught:
        read_audio(path)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("ffmpeg")
@pytest.mark.parametrize("default", [0, 1])
def test_of_several_tracks_the_default_one_is_read_with_a_notice(tmp_path, caplog, default):
    tones = [("-f", "lavfi", "-i", f"sine={hertz}:duration=0.5") for hertz in (300, 900)]
    chosen = (f"-disposition:a:{1 - default}", "0", f"-disposition:a:{default}", "default")
    run_ffmpeg(*tones[0], *tones[1], "-map", "0", "-map", "1", *chosen, tmp_path / "x.mkv")
    samples, rate = read_audio(tmp_path / "x.mkv")
    hertz = np.argmax(np.abs(np.fft.rfft(samples))) * rate / len(samples)
    assert hertz == pytest.approx((300, 900)[default], abs=5)
    read_audio(tmp_path / "x.mkv")
    assert caplog.text.count(f"x.mkv: has 2 audio tracks, and number {default + 1} is read") == 1


@pytest.mark.parametrize("suffix", ["mka", "avi", "m4a"])
def test_of_tracks_of_different_length_the_first_may_be_the_shorter(recordings, tmp_path, suffix):
    path = tmp_path / f"two.{suffix}"
    tracks = ("-t", "1", "-i", recordings / "x.wav", "-i", recordings / "x.wav", "-map", "0:a", "-map", "1:a")
    run_ffmpeg(*tracks, *(() if suffix == "m4a" else ("-c:a", "pcm_s16le")), path)
    assert len(read_audio(path)[0]) / RATE == pytest.approx(1.0, abs=0.1)


@pytest.mark.usefixtures("ffmpeg")
def test_a_video_without_audio_is_named(tmp_path):
    make = ["-f", "lavfi", "-i", "testsrc=duration=0.2:size=32x32", "-c:v", "mpeg4", tmp_path / "x.mp4"]
    run_ffmpeg(*make)
    with pytest.raises(DataError, match=r"x\.mp4: ffmpeg cannot read it as MPEG-4 .* \(it has no audio track\)"):
        read_audio(tmp_path / "x.mp4")


def test_without_ffmpeg_the_remedy_is_named(tmp_path, monkeypatch):
    (tmp_path / "x.m4a").write_bytes(b"\0\0\0\x20ftypM4A ")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    message = (
        r"x\.m4a: is MPEG-4 \(m4a, mp4, mov\), which only ffmpeg reads, and no ffmpeg is installed; install ffmpeg or "
        r"espnet_diverse\[media\], or convert it elsewhere: ffmpeg -i X Y\.wav$"
    )
    with pytest.raises(DataError, match=message):
        read_audio(tmp_path / "x.m4a")


def test_ffmpeg_of_the_system_comes_first(tmp_path, monkeypatch):
    program = tmp_path / "ffmpeg"
    program.write_text("#!/bin/sh\necho '[error] out of order' >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    (tmp_path / "x.m4a").write_bytes(b"\0\0\0\x20ftypM4A ")
    with pytest.raises(DataError, match=r"x\.m4a: ffmpeg cannot read it as MPEG-4 .* \(out of order\); get it"):
        read_audio(tmp_path / "x.m4a")


def test_a_program_that_takes_too_long_is_ended(recordings, monkeypatch):
    monkeypatch.setattr(media, "MOST_SECONDS", 1e-6)
    with pytest.raises(DataError, match=r"x\.m4a: ffmpeg has not read it in 0 s; convert it: ffmpeg -i X Y\.wav$"):
        read_audio(recordings / "x.m4a")


def test_an_hour_of_silence_in_a_small_file_is_refused(tmp_path, ffmpeg, monkeypatch):
    path = tmp_path / "silence.mka"
    run_ffmpeg("-f", "lavfi", "-i", "anullsrc=r=16000:cl=mono", "-t", "3600", "-c:a", "flac", path)
    monkeypatch.setenv(VARIABLE, "50")
    with pytest.raises(DataError, match=rf"^{path}: holds more than 50 MB of samples; check it, or set {VARIABLE}"):
        read_audio(path)


def test_playlists_do_not_reach_ffmpeg(tmp_path):
    (tmp_path / "x.m4a").write_text("#EXTM3U\n#EXTINF:10,\n/etc/passwd\n#EXT-X-ENDLIST\n")
    with pytest.raises(DataError, match=r"x\.m4a: not readable as audio \(Format not recognised\)"):
        read_audio(tmp_path / "x.m4a")


@pytest.mark.parametrize("suffix", [*MEDIA, "mp3"])
def test_converted_audio_may_be_limited_in_duration(recordings, tmp_path, suffix):
    path = recordings / f"x.{suffix}"
    if suffix == "mp3":
        path = tmp_path / "joined.mp3"
        path.write_bytes(20 * encoded(2.0))
    with open_audio(path, at_most=1.0) as audio:
        assert 0.9 < audio.duration < (5.0 if suffix == "mp3" else 1.5)
    with open_audio(path) as audio:
        assert audio.duration == pytest.approx(40.0 if suffix == "mp3" else 2.0, rel=0.1)
