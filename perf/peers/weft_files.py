"""Reads what Weft writes: token files (docs/data.md) and the weights and deck of a checkpoint (docs/checkpoints.md)."""
import mmap
import pathlib
import struct
import tomllib

import h5py
import numpy as np
import torch

from llama import Shape, weft_path

HEADER = struct.Struct("<8sIIQQQQIiQQQQQQ")


class TokenFile:
    def __init__(self, path):
        with open(path, "rb") as f:
            data = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
        (magic, version, size, self.vocab, self.tokens, _documents, _text_bytes, _tokenizer, _end, _hash, tokens_at, _documents_at,
         bytes_at, file_bytes, _body) = HEADER.unpack_from(data)
        if magic != b"WEFTTOK\n" or version != 1 or file_bytes != len(data):
            raise SystemExit(f"{path}: not a whole token file of version 1; make it with: weft data tokenize")
        self.ids = np.frombuffer(data, {2: "<u2", 4: "<u4"}[size], self.tokens, tokens_at)
        self.bytes_of_id = np.frombuffer(data, "<u2", self.vocab, bytes_at).astype(np.int64)

    def windows(self, seq):
        return (self.tokens - 1) // seq

    def window(self, w, seq):
        """seq + 1 tokens: inputs are all but the last, targets all but the first."""
        return torch.from_numpy(self.ids[w * seq : w * seq + seq + 1].astype(np.int64))

    def target_bytes(self, windows, seq):
        """Bytes of text that the targets of the first `windows` windows stand for."""
        return int(self.bytes_of_id[self.ids[1 : windows * seq + 1]].sum())


def one_file(value, key):
    paths = [value] if isinstance(value, str) else value
    if len(paths) != 1:
        raise SystemExit(f"{key}: this peer reads one token file, the deck names {len(paths)}")
    return TokenFile(paths[0])


def tensors_of(file, group):
    # From format 3 on these two kinds of matrices are stored [in, out]; PyTorch's are [out, in].
    in_first = (".wo", ".w2") if file.attrs["format_version"] >= 3 else ()
    return {name: torch.from_numpy(np.ascontiguousarray(data[...].T if name.endswith(in_first) else data[...], np.float32))
            for name, data in file[group].items()}


def first_moments(path):
    """{module path: exp_avg} of a checkpoint directory."""
    with h5py.File(pathlib.Path(path) / "index.h5") as f:
        return tensors_of(f, "optimizer/exp_avg")


def open_checkpoint(path):
    """Deck and {module path: tensor} of a checkpoint directory. index.h5 shows each tensor whole."""
    # A virtual dataset whose source is missing reads as zeros: a matrix of zeros means that files were moved apart.
    with h5py.File(pathlib.Path(path) / "index.h5") as f:
        deck = tomllib.loads(str(f.attrs["deck"].decode() if isinstance(f.attrs["deck"], bytes) else f.attrs["deck"]))
        weights, step = tensors_of(f, "model"), int(f.attrs["step"])
    zeros = [name for name, value in weights.items() if not value.any()]
    if zeros:
        raise SystemExit(f"{path}: {zeros[0]} is all zeros; are the shard files beside index.h5?")
    return deck, weights, step


def shape_of(deck):
    m = deck["model"]
    scaling = m.get("rope_scaling", {"factor": 1})
    return Shape(dim=m["dim"], layers=m["layers"], heads=m["heads"], kv_heads=m["kv_heads"], ffn=m["ffn"], vocab=m["vocab"],
                 seq=deck["data"]["seq"], rope_theta=m["rope_theta"], norm_eps=m["norm_eps"], tied=m["tie_embeddings"],
                 rope_scaling=scaling if scaling["factor"] > 1 else None)


def load_weights(model, weights):
    parameters = {weft_path(name): p for name, p in model.named_parameters()}
    if parameters.keys() != weights.keys():
        raise SystemExit(f"the checkpoint holds another model; only one side has: {sorted(parameters.keys() ^ weights.keys())}")
    with torch.no_grad():
        for name, p in parameters.items():
            p.copy_(weights[name])
