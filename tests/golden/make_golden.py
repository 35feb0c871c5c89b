"""Makes the golden files next to it, by hand: python make_golden.py [ops curve transformers hugging_face]. Needs the packages of perf/peers/setup.sh.
The files are committed; the values come from PyTorch and transformers, the versions stand in the file's attributes."""
import importlib
import pathlib
import sys

import h5py
import torch
import transformers

from golden_file import create


def main():
    torch.use_deterministic_algorithms(True)
    for name in sys.argv[1:] or ("ops", "curve", "transformers", "hugging_face"):
        path = pathlib.Path(__file__).with_name(name + ".h5")
        with create(path) as f:
            for module in (torch, transformers, h5py):
                f.attrs[module.__name__] = str(module.__version__)
            importlib.import_module("make_" + name).make(f)
        print(f"{path}: {path.stat().st_size} bytes")


main()
