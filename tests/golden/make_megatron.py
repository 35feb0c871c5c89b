"""Writes tests/golden/tokens/megatron_*.bin and .idx with Megatron-LM's own writer, for tests/unit/data/import_test.cpp.

The documents' tokens are bytes and, behind those that end with it, 256 (`weft data tokenize --tokenizer byte`). Takes PyTorch and megatron-core (0.16.1
was used), of which only one file is read:

  python3 -m pip download --no-deps megatron-core==0.16.1 && unzip megatron_core*.whl && PYTHONPATH=. python3 tests/golden/make_megatron.py
"""
import importlib.util, os, sys
from unittest import mock

import numpy
import torch

# What that file imports of its package is for storage elsewhere.
for name in ("megatron", "megatron.core", "megatron.core.datasets", "megatron.core.datasets.object_storage_utils", "megatron.core.msc_utils", "megatron.core.utils"):
    sys.modules[name] = mock.MagicMock()
sys.modules["megatron.core.msc_utils"].MultiStorageClientFeature.is_enabled.return_value = False
sys.modules["megatron.core.datasets.object_storage_utils"].is_object_storage_path.return_value = False
path = next(p for p in (os.path.join(d, "megatron/core/datasets/indexed_dataset.py") for d in sys.path) if os.path.exists(p))
spec = importlib.util.spec_from_file_location("indexed_dataset", path)
indexed_dataset = importlib.util.module_from_spec(spec)
spec.loader.exec_module(indexed_dataset)

folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokens")
END = 256
DOCUMENTS = [[b"One sentence. ", b"Another."], [b"two\n"], [b"\xc3\xa9t\xc3\xa9"], [b"a", b"", b"b"]]
for name, dtype, with_end in ("megatron_u16", numpy.uint16, True), ("megatron_i32", numpy.int32, False):
    builder = indexed_dataset.IndexedDatasetBuilder(os.path.join(folder, name + ".bin"), dtype=dtype)
    for sentences in DOCUMENTS:
        sequences = [list(s) for s in sentences]
        if with_end:
            sequences[-1].append(END)
        builder.add_document(torch.tensor(sum(sequences, [])), [len(s) for s in sequences])
    builder.finalize(os.path.join(folder, name + ".idx"))
