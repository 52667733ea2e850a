"""Writes safetensors_small.safetensors with the package `safetensors`, its version in the metadata.

Run in this folder with the packages safetensors (0.8 or later) and numpy.
"""

import numpy as np
import safetensors
from safetensors import TensorSpec, serialize_file

values = np.array([[0.5, -1.25, 3.0], [65504.0, -0.0, 2.0**-14]])
single = values.astype(np.float32)
brain = (single.view(np.uint32) >> 16).astype(np.uint16)  # NumPy has no bf16: its bits as uint16

tensors = {
    "half": (values.astype(np.float16), "float16"),
    "brain": (brain, "bfloat16"),
    "single": (single, "float32"),
    "double": (values, "float64"),
    "tokens": (np.array([0, 1, -50257], np.int64), "int64"),
    "bytes": (np.array([1, 2, 255], np.uint8), "uint8"),
    "scalar": (np.array(7.0, np.float32), "float32"),
    "empty": (np.zeros((0, 4), np.float32), "float32"),
    "größe": (np.array([True, False]), "bool"),
}

serialize_file(
    {
        name: TensorSpec(
            dtype=dtype, shape=array.shape, data_ptr=array.ctypes.data, data_len=array.nbytes
        )
        for name, (array, dtype) in tensors.items()
    },
    "safetensors_small.safetensors",
    {"package": f"safetensors {safetensors.__version__}", "numpy": np.__version__},
)
