#!/usr/bin/env python3
"""Looks at the device's code of a CUDA build where there is no device, and prints a table of its kernels:

  tests/device_code.py [BUILD]        (default: build/cuda)

It disassembles the objects of weft_kernels_device and weft_comm_device and fails where a kernel keeps numbers
in local memory, where a block of it would have more registers or shared memory than a multiprocessor gives one,
and where it does not load and store by 16 bytes all that WIDE says. Every kernel stands in a table below.

cuobjdump and nvdisasm are those of the PATH or of the CUDA toolkit, else those of PyPI, which are kept in
${WEFT_CACHE:-~/.cache/weft}. The exit code is 77, with a line, where there are none to be had.
"""
import json, os, re, shlex, shutil, subprocess, sys
from collections import Counter

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# They read objects of their own version of CUDA and of older ones.
WHEELS = ["nvidia-cuda-cuobjdump==13.5.37", "nvidia-cuda-nvdisasm==13.5.37"]

REGISTERS = 65536  # of a multiprocessor, each of 32 bits; a thread is given them in eights
SHARED = 48 * 1024  # bytes that a block may have without asking; 1 KiB of them is CUDA's own

# What a thread loads and stores of a packet (kernels/packets.hpp) in accesses of 16 bytes: T and U are the types
# of the kernel's template, F is fp32, H is bf16, E is a type of one byte. So eight elements of bf16 are one access,
# and eight of fp32 are two; where there is a type of one byte, a packet is sixteen elements. Another number may stand
# behind. The same kernel has narrow accesses, too, for rows that are no whole packets.
WIDE = {
    "Gather": ("T", "T T"),  # of the embedding; stores a row, or zeros
    "SumRows": ("T", "U U"),  # the embedding's gradient; stores a sum, or zeros
    "RmsNormForward": ("T T T T U", "T T"),  # x, branch, their sum, it again, w; the sum, y
    "BackwardInRegisters": ("T T U T", "T F"),  # each turn: x, dy, w, what it adds; dx, part of dw
    "Rotate": ("T F", "T"),  # rope: x and the table
    "Split": ("T F T F T", "T T T"),  # q, k and v
    "Join": ("T F T F T", "T T T"),
    "SwigluForward": ("T T", "T"),
    "SwigluBackward": ("T T T", "T T"),
    "Add": ("T T", "T"),
    "Cast": ("T", "U"),
    "CrossEntropyForward": ("T", ""),  # the largest and the sum of one read
    "Part": ("T", ""),  # the same over a part of the vocabulary
    "CrossEntropyBackward": ("T", "T"),
    "AccumulateGrad": ("T F T", "F F"),  # added, or in place of what was there
    "sum_slices": ("U T", "U"),  # what is added to, a rank's slice
    "sum_peers": ("U T", "U"),  # the same, from another rank's memory
    "SumPackets": ("H H", "H"),  # what is added to, a piece
    "CopyPackets": ("T", "T"),
    "Largest": ("T", ""),
    "QuantizeRun": ("F", "E"),
    "QuantizeRows": ("T", "U"),
    "QuantizeTensor": ("T", "U"),
    "DequantizeRows": ("T", "H"),
    "AdamStep": ("F F F F", "F F F", 4),  # elements at a time, or eight beside a copy in bf16
}

# The others, and why they are not.
NARROW = {
    "RmsNormBackward": "rows that BackwardInRegisters does not take",
    "Copy": "rows that are no whole packets",
    "Sum": "the same",
    "AddBlocks": "neighbouring threads read neighbouring columns of fp32",
    "AddGroups": "the same",
    "ListRows": "lists that are followed",
    "CountNonfinite": "runs only to find where a bad number began",
    "RunHash": "runs only where a run is asked for hashes",
    "SumSquaresByLanes": "neighbouring threads read neighbouring elements of fp32",
    "Carry": "a few numbers",
    "ClipScale": "a few numbers",
    "ReduceTotals": "a few numbers",
    "Repeat": "one scale",
    "Scales": "a scale for each operand",
    "ScaleOf": "one scale",
    "TransposeBytes": "reads and writes eight bytes in each of eight rows",
    "SumChunk": "a number for each row of the logits",
    "SumChunks": "a few numbers",
    "JoinParts": "a few numbers for each row of the logits",
    "TeamForward": "attention without tensor cores, for what cuDNN does not serve",
    "QueryGrad": "the same",
    "KeyValueGrad": "the same",
    "Delta": "the same",
    "ViewCopy": "Kokkos' own",
    "ViewFill": "Kokkos' own",
    "ViewValueFunctor": "Kokkos' own",
}

# The threads of a block where the kernel is not compiled for a number of them: the line of the source that says it.
# For kernels over a range (RangePolicy) Kokkos asks the driver for a block that their registers allow.
BLOCKS = {
    "SumSquaresByLanes": ("kernels/sum_squares.cpp", r"static constexpr int team = (\d+), chunks_at_once"),
    "TeamForward": ("kernels/attention_team.cpp", r"constexpr int team_size = runs_on_host \? 1 : (\d+);"),
    "QueryGrad": ("kernels/attention_team.cpp", r"constexpr int team_size = runs_on_host \? 1 : (\d+);"),
    "KeyValueGrad": ("kernels/attention_team.cpp", r"constexpr int team_size = runs_on_host \? 1 : (\d+);"),
}

FUNCTION = re.compile(r" Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")
BOUNDS = re.compile(r"^\.nv\.info\.(\S+)$|EIATTR_MAX_THREADS\s+Format:\s+\S+\s+Value:\s+(\S+) (\S+) (\S+)",
                    re.MULTILINE)
# "@!P0 LDG.E.128.CONSTANT R4, ..."; LD and ST are of any memory.
ACCESS = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?(LD|ST)G?\.E\b(\S*)")


def find_tools():
    """The folder that has both programs."""
    cache = os.environ.get("WEFT_CACHE") or os.path.expanduser("~/.cache/weft")
    cache = os.path.join(cache, "cuobjdump-" + WHEELS[0].split("==")[1])
    installed = shutil.which("cuobjdump")
    folders = [os.path.dirname(installed)] if installed else []
    folders.append(os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin"))
    folders.append(os.path.join(cache, "nvidia/cu13/bin"))

    def has_both(folder):
        return all(os.access(os.path.join(folder, tool), os.X_OK) for tool in ("cuobjdump", "nvdisasm"))

    if not any(map(has_both, folders)):
        part = f"{cache}.{os.getpid()}.part"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", part, *WHEELS]
        if subprocess.run(pip, stdout=subprocess.DEVNULL).returncode == 0:
            shutil.rmtree(cache, ignore_errors=True)
            os.rename(part, cache)
        shutil.rmtree(part, ignore_errors=True)
    for folder in filter(has_both, folders):
        return folder
    print("no cuobjdump and nvdisasm in the CUDA toolkit, and none to be had from PyPI")
    sys.exit(77)


def objects_of(build):
    with open(os.path.join(build, "compile_commands.json")) as file:
        entries = [entry for entry in json.load(file) if "_device.dir/" in entry["command"]]
    objects = []
    for entry in entries:
        words = shlex.split(entry["command"])
        objects.append(os.path.join(entry["directory"], words[words.index("-o") + 1]))
    for target in ("weft_kernels_device", "weft_comm_device"):
        if not any(f"/{target}.dir/" in name and os.path.exists(name) for name in objects):
            sys.exit(f"device_code: {build} has no objects of {target}; build it by the preset `cuda`, with nvcc")
    return objects


def template_arguments(text):
    """`text` behind a "<": the arguments up to the ">" that closes it, and the rest."""
    arguments, begin, depth = [], 0, 0
    for at, letter in enumerate(text):
        if letter in "<(":
            depth += 1
        elif depth > 0 and letter in ">)":
            depth -= 1
        elif depth == 0 and letter in ",>":
            arguments.append(text[begin:at].strip())
            begin = at + 1
            if letter == ">":
                return arguments, text[begin:]
    return arguments, ""


def name_of(demangled):
    """The kernel's functor, or function, without its namespaces, and the arguments of its template."""
    text = re.sub(r"\(anonymous namespace\)::|_GLOBAL__N_\w+::", "", demangled)
    text = re.sub(r"^void ", "", text)
    while True:
        head, _, behind = text.partition("<")
        arguments = template_arguments(behind)[0] if behind else []
        name = head.split("(")[0].split("::")[-1].strip()
        # Kokkos' launchers, and the loops of kernels/lanes.hpp.
        if not re.fullmatch(r"cuda_parallel_launch_\w+|Parallel(For|Reduce)|Combined\w+|On(Team|Stretch)", name):
            return name, arguments
        text = arguments[0]


class Kernel:
    def __init__(self, mangled, registers, stack, shared, local):
        self.mangled = mangled
        self.registers, self.shared = int(registers), int(shared)
        self.local = max(int(stack), int(local))
        self.block, self.loads, self.stores = None, Counter(), Counter()

    def take_name(self, demangled):
        self.name, self.arguments = name_of(demangled)
        self.over_range = "RangePolicy<" in demangled
        of = [argument.removeprefix("weft::") for argument in self.arguments]
        self.label = self.name + (f"<{', '.join(of)}>" if of and not any("::" in name for name in of) else "")
        if self.block is None and self.name in BLOCKS:
            path, pattern = BLOCKS[self.name]
            with open(os.path.join(ROOT, path)) as file:
                found = re.search(pattern, file.read())
            if not found:
                sys.exit(f"device_code: {path} has no line like `{pattern}`; say in BLOCKS what {self.name}'s block is")
            self.block = int(found[1])

    def narrower_than(self, loads, stores, packet=None):
        """Which accesses of 16 bytes these operands would have, and the kernel has not."""
        size_of = {"float": 4, "weft::bf16": 2, "weft::e4m3": 1, "weft::e5m2": 1}
        size = {"F": 4, "H": 2, "E": 1}
        size.update((letter, size_of.get(argument)) for letter, argument in zip("TU", self.arguments))
        bytes_of = [[size[letter] for letter in operands.split()] for operands in (loads, stores)]
        turns = int(self.arguments[-1]) if self.arguments and self.arguments[-1].isdigit() else 1
        turns *= packet or (16 if 1 in bytes_of[0] + bytes_of[1] else 8)
        for what, has, sizes in zip(("loads", "stores"), (self.loads[16], self.stores[16]), bytes_of):
            if has < (wanted := turns * sum(sizes) // 16):
                yield f"has {has} {what} of 16 bytes, not {wanted}; see WIDE in tests/device_code.py"

    def mistakes(self):
        if self.local:
            yield f"keeps {self.local} bytes a thread in local memory; give a thread less to hold"
        if self.block is None and not self.over_range:
            yield "has a block of unknown size; launch it with LaunchBounds, or name its block in BLOCKS"
        if self.block and (taken := (self.registers + 7) // 8 * 8 * self.block) > REGISTERS:
            yield f"wants {taken} registers for a block of {self.block}, and there are {REGISTERS}"
        if self.shared > SHARED:
            yield f"wants {self.shared} bytes of shared memory, and a block has {SHARED}"
        if self.name in WIDE:
            yield from self.narrower_than(*WIDE[self.name])
        elif self.name not in NARROW:
            yield "stands in no table of tests/device_code.py; WIDE says what it loads, or NARROW why it is narrow"


def output_of(command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def kernels_of(path, tools):
    def run(*options):
        environment = dict(os.environ, PATH=tools + os.pathsep + os.environ["PATH"])
        return output_of([os.path.join(tools, "cuobjdump"), *options, path], env=environment)

    kernels = {found[0]: Kernel(*found) for found in FUNCTION.findall(run("--dump-resource-usage"))}
    kernel = None
    for section, *block in BOUNDS.findall(run("--dump-elf")):
        if section:
            kernel = kernels[section]
        else:
            kernel.block = int(block[0], 16) * int(block[1], 16) * int(block[2], 16)
    for line in run("--dump-sass").splitlines():
        if "Function : " in line:
            kernel = kernels[line.split()[-1]]
        elif found := ACCESS.match(line):
            width = re.search(r"\.[US]?(8|16|64|128)\b", found[2])
            counts = kernel.loads if found[1] == "LD" else kernel.stores
            counts[int(width[1]) // 8 if width else 4] += 1
    return kernels


def main():
    build = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build/cuda")
    tools, kernels = find_tools(), {}
    for path in objects_of(build):
        of_object = kernels_of(path, tools)
        if not of_object:
            sys.exit(f"device_code: {path} has no kernel that cuobjdump can read")
        kernels.update(of_object)
    names = output_of(["c++filt"], input="\n".join(kernels))
    for kernel, name in zip(kernels.values(), names.splitlines()):
        kernel.take_name(name)

    widths, mistakes = (1, 2, 4, 8, 16), []
    heads = [f"{what:>12}" + "".join(f"{width:4}" for width in widths[1:]) for what in ("loads of 1", "stores of 1")]
    print(f"{'kernel':30} {'registers':>9} {'block':>6} {'shared':>6}", *heads, "bytes")
    for kernel in sorted(kernels.values(), key=lambda kernel: kernel.label):
        counts = ["".join(f"{has[width] or '.':>4}" for width in widths) for has in (kernel.loads, kernel.stores)]
        size = f"{kernel.registers:9} {kernel.block or 'driver':>6} {kernel.shared:6}"
        print(f"{kernel.label:30} {size}         {'         '.join(counts)}")
        mistakes += [f"{kernel.label} {what}" for what in kernel.mistakes()]
    found = {kernel.name for kernel in kernels.values()}
    for name in sorted({*WIDE, *NARROW, *BLOCKS} - found):
        mistakes.append(f"{name} stands in a table of tests/device_code.py, and is no kernel")
    for mistake in mistakes:
        print("device_code: FAILED:", mistake)
    print(f"device_code: {len(kernels)} kernels, {len(mistakes)} mistakes")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
