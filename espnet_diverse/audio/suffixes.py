"""Suffixes of recordings, for searches in folders; how a file is read depends on its content alone."""

_DIRECT = "wav wave flac mp3 mp2 mpga ogg oga opus sph nist aif aiff aifc au snd caf w64 rf64"
_VIDEO = "mp4 m4v mov f4v 3gp 3gpp 3g2 webm mkv wmv asf avi flv m2ts mpg mpeg vob"
_CONVERTED = f"{_VIDEO} m4a m4b m4r 3ga weba mka aac wma amr awb ac3 eac3 wv"
_SHARED = "ts mts"
_OTHER = "ape dff dsf dss dts gsm mpc mxf ogv ra rm rmvb shn spx tak tta voc vox"


def _set(names: str) -> frozenset[str]:
    return frozenset(f".{name}" for name in names.split())


DIRECT = _set(_DIRECT)
"""Suffixes of formats that libsndfile reads."""
SUFFIXES = DIRECT | _set(_CONVERTED)
"""Suffixes of all formats that are read; ffmpeg converts the others."""
SHARED = _set(_SHARED)
"""Suffixes of recordings and of other kinds of files: MPEG transport streams, and TypeScript."""
OTHER = _set(_OTHER)
"""Suffixes of recordings that are not read, or not always."""
READABLE = "wav, flac, mp3, ogg, opus, sph, m4a, mp4, webm and more"
"""Formats that are read, for messages."""
TO_CONVERT = "convert it: ffmpeg -i X Y.wav"
"""Advice about other recordings, for messages."""
