"""Compares every dataset of a checkpoint's index, as h5py reads it, with raw fp32 files ROLE.PARAMETER in a directory."""
import os
import sys

import h5py
import numpy

index, expected_dir = sys.argv[1:]
with h5py.File(index) as f:
    groups = {"master": f["model"], "exp_avg": f["optimizer/exp_avg"], "exp_avg_sq": f["optimizer/exp_avg_sq"]}
    equal = 0
    for role, group in groups.items():
        for name, dataset in group.items():
            expected = numpy.fromfile(os.path.join(expected_dir, f"{role}.{name}"), dtype="<f4")
            assert dataset.is_virtual and dataset.dtype == expected.dtype, name
            assert numpy.array_equal(dataset[...].ravel(), expected), f"{role} {name}"
            equal += 1
    assert f.attrs["seed"] == 0xFEDCBA9876543210 and f.attrs["mode"] == "fsdp" and "ünïcode" in f.attrs["deck"]
    assert f.attrs["sample"] == 96 and f.attrs["world"] == 3 and f.attrs["format_version"] == 3
    assert f.attrs["saved_at"].endswith("Z") and f.attrs["git_hash"] == "abc123" and f.attrs["tokens"] == 12 * 4096
    print(f"{equal} datasets are equal, step {f.attrs['step']}")
