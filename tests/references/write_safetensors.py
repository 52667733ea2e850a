"""save(path, tensors, metadata): a safetensors file from NumPy arrays, without the package."""

import json
import struct

TYPES = {"float32": "F32", "float64": "F64", "int32": "I32", "uint8": "U8", "bool": "BOOL"}


def save(path, tensors, metadata):
    header, offset = {"__metadata__": metadata}, 0
    for name, array in tensors.items():
        end = offset + array.nbytes
        header[name] = {"dtype": TYPES[array.dtype.name], "shape": array.shape,
                        "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(array.tobytes())
