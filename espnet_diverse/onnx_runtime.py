"""ONNX Runtime without its telemetry.

Since 1.29 its builds for Linux and macOS send usage data and keep an identifier of the machine in the user's cache
folder. Both begin with the import, which reads the environment variable that turns them off.
"""

import os
from types import ModuleType


def import_onnxruntime() -> ModuleType:
    """Import onnxruntime with telemetry off, unless the user has set ORT_DISABLE_TELEMETRY.

    Raises:
        ImportError: It is not installed.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    return onnxruntime
