"""Download folders of converted corpora, one for each source."""

import hashlib
import os
from pathlib import Path

from espnet_diverse.data.characters import safe_name

_SHOWN = 40  # characters of a name that may take four bytes each


def converted_folder(kind: str, source: Path, target_dir: Path) -> Path:
    """The folder in `target_dir` for the converted `source`, such as hf_google_fleurs_de_de_1c8f5e0b92d4.

    Args:
        kind: Name of the corpus module.
        source: A file or folder, or another name.
        target_dir: Folder of downloads.

    Returns:
        An absolute path. Its digest is of the whole source, because sources may differ only in their parents.
    """
    exists = source.exists()
    path = source.resolve() if exists else source
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
    name = safe_name(path.name if exists else str(source))[:_SHOWN]
    return target_dir.absolute() / f"{kind}_{name}_{digest}"
