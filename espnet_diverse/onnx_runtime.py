"""ONNX Runtime without its telemetry.

Since 1.29 its builds for Linux and macOS send what they are used for to their maker and keep an identifier of the
machine in the user's cache folder, from when they are imported. The variable that forbids both is read then.
"""

import os
from types import ModuleType


def import_onnxruntime() -> ModuleType:
    """The package onnxruntime, silent unless the user has set ORT_DISABLE_TELEMETRY to something else.

    Raises:
        ImportError: It is not installed.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    return onnxruntime
