#!/usr/bin/env python3
"""Measures `weft data tokenize` with a tokenizer.json beside the Python package `tokenizers`, each on one core, in alternation:

    perf/tokenize_speed.py TOKENIZER_JSON TEXT [--weft build/cpu/weft] [--pairs 5]

TEXT is UTF-8, and \\n\\n\\n stands between its documents, as in what jobs/get_text.sh makes. The first pair warms up and is not counted. Weft's time
is that of the whole command: it also loads the tokenizer, reads the text and writes the token file. The library's is that of encode_batch() on
documents that are in memory. The ids must be the same. Needs numpy and tokenizers."""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ |= {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}  # before the library is there

import numpy as np  # noqa: E402
import tokenizers  # noqa: E402

HEADER = 256  # bytes; docs/data.md


def weft_ids(command, out):
    began = time.perf_counter()
    subprocess.run([*command, "--train", out], check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - began
    header = np.fromfile(out, "<u8", 32)
    size = int(np.fromfile(out, "<u4", 4)[3])
    ids = np.fromfile(out, f"<u{size}", int(header[3]), offset=HEADER)
    end = int(np.fromfile(out, "<i4", 14)[13])
    return seconds, ids, end


def library_ids(tokenizer, documents):
    began = time.perf_counter()
    made = tokenizer.encode_batch(documents)
    return time.perf_counter() - began, [one.ids for one in made]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer")
    parser.add_argument("text")
    parser.add_argument("--weft", default="build/cpu/weft")
    parser.add_argument("--pairs", type=int, default=5)
    args = parser.parse_args()
    core = sorted(os.sched_getaffinity(0))[0]
    os.sched_setaffinity(0, {core})
    with open(args.text, newline="", encoding="utf-8") as file:
        documents = [document for document in file.read().split("\n\n\n") if document]
    megabytes = os.path.getsize(args.text) / 1e6
    tokenizer = tokenizers.Tokenizer.from_file(args.tokenizer)
    command = [args.weft, "data", "tokenize", args.text, "--separator", "\\n\\n\\n", "--tokenizer", args.tokenizer]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for pair in range(args.pairs + 1):
            ours, ids, end = weft_ids(command, os.path.join(folder, "t.bin"))
            theirs, expected = library_ids(tokenizer, documents)
            if pair > 0:
                rows.append((megabytes / ours, megabytes / theirs))
                print(f"weft {rows[-1][0]:7.2f} MB/s   tokenizers {rows[-1][1]:7.2f} MB/s   {theirs / ours:5.2f} times as fast", flush=True)
    flat = np.array([i for document in expected for i in [*document, *([] if document[-1:] == [end] else [end])]])
    same = np.array_equal(flat, ids)
    weft, library = (statistics.median(column) for column in zip(*rows))
    print(f"median: weft {weft:.2f} MB/s, tokenizers {tokenizers.__version__} {library:.2f} MB/s, {weft / library:.2f} times as fast; "
          f"{len(ids)} ids, {'the same' if same else 'NOT THE SAME'}")
    sys.exit(0 if same else 1)


main()
