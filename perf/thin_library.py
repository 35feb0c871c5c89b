#!/usr/bin/env python3
"""Cuts device code out of a shared library of CUDA, so that it packs well: all but one architecture's, and what only a linker reads.

  perf/thin_library.py LIBRARY OUT --keep 90

The code becomes zeros; sizes and addresses stay. The layout of a fat binary: a header (magic 0xba55ed50, its own length at 6, that of
what follows at 8), then entries (kind at 0, the header's length at 4, the payload's at 8, the architecture at 28).
"""
import argparse, struct

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("library")
parser.add_argument("out")
parser.add_argument("--keep", type=int, required=True, help="the compute capability times ten")
a = parser.parse_args()
with open(a.library, "rb") as file:
    data = bytearray(file.read())
sections, = struct.unpack_from("<Q", data, 0x28)
size_of_section, count, names = struct.unpack_from("<HHH", data, 0x3A)


def section(index):
    name, _kind, _flags, _address, offset, size = struct.unpack_from("<IIQQQQ", data, sections + index * size_of_section)
    return name, offset, size


strings = section(names)[1]
kept = 0
for i in range(count):
    name, at, size = section(i)
    title = data[strings + name:data.index(0, strings + name)].decode()
    if title not in (".nv_fatbin", "__nv_relfatbin"):
        continue
    end = at + size
    while at < end:
        magic, _version, header, length = struct.unpack_from("<IHHQ", data, at)
        if magic != 0xBA55ED50:  # padding
            at += 8
            continue
        entry, at = at + header, at + header + length
        while entry < at:
            _kind, _version, header, length = struct.unpack_from("<HHIQ", data, entry)
            architecture, = struct.unpack_from("<I", data, entry + 28)
            if title == ".nv_fatbin" and architecture == a.keep:
                kept += length
            else:
                data[entry + header:entry + header + length] = bytes(length)
            entry += header + length
if kept == 0:
    raise SystemExit(f"thin_library.py: {a.library} has no code of sm_{a.keep}")
with open(a.out, "wb") as file:
    file.write(data)
