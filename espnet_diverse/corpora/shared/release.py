"""Download the files of a release and unpack them in one folder; a failed call leaves no partial folder."""

import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from espnet_diverse.corpora.shared.download import download
from espnet_diverse.data.files.atomic_files import staged_directory
from espnet_diverse.untrusted.tar_files import unpack
from espnet_diverse.untrusted.zip_files import unzip


def fetch_release(urls: Mapping[str, str | None], corpus_dir: Path) -> Path:
    """Download files into `corpus_dir`; archives (tar, tgz, zip) are unpacked there.

    Args:
        urls: Address of each file and its md5 checksum, or None if none is published.
        corpus_dir: Output folder; archives are downloaded to its parent.

    Returns:
        `corpus_dir`; an earlier complete download is reused.

    Raises:
        DataError: A file cannot be downloaded or unpacked.
    """
    if corpus_dir.is_dir():
        return corpus_dir
    fetched = [
        download(url, corpus_dir.parent / PurePosixPath(urlsplit(url).path).name, md5) for url, md5 in urls.items()
    ]
    with staged_directory(corpus_dir) as staging:
        for file in fetched:
            if file.suffix == ".zip":
                unzip(file, staging)
            elif file.suffix in (".tar", ".tgz") or ".tar." in file.name:
                unpack(file, staging, f"unpack {file.name}")
            else:
                shutil.copyfile(file, staging / file.name)
    return corpus_dir
