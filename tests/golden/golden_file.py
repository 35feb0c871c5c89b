"""Writing golden files: contiguous HDF5 datasets without time stamps, so that the same values give the same bytes."""
import h5py
import torch


def create(path):
    return h5py.File(path, "w", libver=("v110", "v110"))


def write(f, path, tensor):
    """fp32, fp64 and int32 as they are, int64 as int32; bf16 as its bits, in uint16."""
    t = tensor.detach().contiguous()
    if t.dtype == torch.int64:
        t = t.to(torch.int32)
    f.create_dataset(path, data=t.view(torch.uint16).numpy() if t.dtype == torch.bfloat16 else t.numpy(), track_times=False)


def write_attributes(group, values):
    """Numbers only, all as fp64: the reader has one accessor."""
    for key, value in values.items():
        group.attrs.create(key, float(value), dtype="f8")
