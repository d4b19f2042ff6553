import os
import subprocess
import sys

CODE = """
import onnx.helper as h
from espnet_diverse.onnx_runtime import import_onnxruntime
onnxruntime = import_onnxruntime()
value = h.make_tensor_value_info("x", 1, [1])
graph = h.make_graph([h.make_node("Identity", ["x"], ["y"])], "g", [value], [h.make_tensor_value_info("y", 1, [1])])
model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
onnxruntime.InferenceSession(model.SerializeToString())
"""


def test_nothing_is_left_in_the_home_of_the_user(tmp_path):
    # Variables of test services would silence it, too.
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    subprocess.run([sys.executable, "-c", CODE], check=True, env=environment)
    assert [str(path) for path in tmp_path.rglob("*") if path.is_file()] == []
