#!/usr/bin/env python3
"""Breaks Weft on purpose, and sees that a test fails: a line a mutation, exit code 1 when one survives.

  perf/mutations.py [NAME...] [--keep]

Works on a checkout of HEAD in build/mutations, so the tree itself is never changed; the first build takes some minutes. A mutation is one
piece of text in the place of another. Each is compiled, and the tests that should see it run on two ranks; they pass without it.
--keep leaves the checkout for the next call.
"""
import argparse, collections, os, subprocess, sys, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TREE = os.path.join(ROOT, "build/mutations")
PROGRAM = "build/cpu/tests/test_training"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_PROC_BIND": "false", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
               "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
Mutation = collections.namedtuple("Mutation", "what file old new tests")
MUTATIONS = {
    "reduce_scatter": Mutation("a reduce-scatter leaves out the last rank's term", "comm/host/collectives.cpp", "ordered_sum(o.sources, out,",
                               "ordered_sum(std::span(o.sources).first(o.sources.size() - 1), out,", "Tensor.GradientsAreThoseOfOneRank"),
    "vocabulary": Mutation("all ranks of a tensor axis take their part of the vocabulary for the first", "src/exec/shapes.hpp",
                           "? vocab * tensor_rank : 0;", "? 0 * vocab * tensor_rank : 0;", "Tensor.GradientsAreThoseOfOneRank"),
    "chunks": Mutation("a rank of a pipe runs its stages in each other's place", "src/passes/interleave.cpp",
                       "place_.at({Work::forward, node.round, node.chunk})",
                       "place_.at({Work::forward, node.round, options_.sizes.chunks - 1 - node.chunk})", "Pipe.EveryScheduleHasTheSameBits"),
    "border": Mutation("stages are cut one layer later than they are balanced for, but not by all ranks", "src/compile/stages.cpp",
                       "model::first_unit_of_layer(static_cast<std::size_t>(layer))",
                       "model::first_unit_of_layer(static_cast<std::size_t>(layer + pipe_rank))", "Pipe.EveryScheduleHasTheSameBits"),
    "twin": Mutation("a tied table adds its own gradient twice instead of that of the other stage", "src/passes/update.cpp",
                     "unit.path, {sum, other},", "unit.path, {sum, sum},", "Pipe.TiedEmbeddingsAreOneTable"),
    "norm_of_stages": Mutation("each stage of a pipe clips by its own norm", "src/passes/shard.cpp",
                               "if (pipe_ranks_ > 1) squares", "if (pipe_ranks_ > 1000) squares", "Pipe.EveryModeHasTheSameBits"),
    "norm_of_tensor": Mutation("each rank of a tensor axis clips by its own norm", "src/passes/update.cpp",
                               "if (graph_.mesh().size(tensor_axis) > 1)\n      limbs", "if (graph_.mesh().size(tensor_axis) > 1000)\n      limbs",
                               "Tensor.MeshesModesAndSchedules*"),
    "copies": Mutation("neighbours with the same heads of keys and values do not add their gradients up", "src/passes/update.cpp",
                       "if (unit.copies == 1) return;", "if (unit.copies >= 1) return;", "Tensor.*"),
}


def call(command, seconds=None):
    done = subprocess.run(command, cwd=TREE, env=ENVIRONMENT, text=True, errors="replace", capture_output=True, stdin=subprocess.DEVNULL,
                          timeout=seconds)
    return done.returncode, done.stdout + done.stderr


def build():
    status, said = call(["ninja", "-C", "build/cpu", "test_training"])
    if status != 0:
        sys.exit(f"mutations.py: the build failed:\n{said[-3000:]}")


def fails(tests):
    """Whether the tests fail; what hangs has failed, too."""
    try:
        status, said = call(["mpirun", "-n", "2", PROGRAM, f"--gtest_filter={tests}"], seconds=400)
    except subprocess.TimeoutExpired:
        return True, "did not end"
    if status == 0 and "[  PASSED  ]" not in said.replace("\x1b[0;32m", "").replace("\x1b[m", ""):
        sys.exit(f"mutations.py: {tests}: no test ran")
    first = next((line.strip() for line in said.splitlines() if "Failure" in line or "what():" in line or "error:" in line), "")
    return status != 0, os.path.relpath(first, TREE) if first.startswith("/") else first


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MUTATIONS))
parser.add_argument("--keep", action="store_true")
a = parser.parse_args()
if unknown := set(a.names) - set(MUTATIONS):
    parser.error(f"no mutation {', '.join(sorted(unknown))} (there are {', '.join(MUTATIONS)})")
chosen = {name: MUTATIONS[name] for name in a.names or MUTATIONS}
if not os.path.exists(TREE):
    subprocess.run(["git", "worktree", "add", "--detach", TREE, "HEAD"], cwd=ROOT, check=True, capture_output=True)
else:
    subprocess.run(["git", "checkout", "--detach", "--force", subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True, capture_output=True, check=True).stdout.strip()],
                   cwd=TREE, check=True, capture_output=True)
if not os.path.exists(os.path.join(TREE, "build/cpu/build.ninja")):
    status, said = call(["jobs/setup.sh", "--tests", "--preset", "cpu:test_training"])
    if status != 0:
        sys.exit(f"mutations.py: set-up failed:\n{said[-3000:]}")
build()
for tests in sorted({m.tests for m in chosen.values()}):
    if (found := fails(tests))[0]:
        sys.exit(f"mutations.py: {tests} fails without any mutation: {found[1]}")
survived = 0
for name, m in chosen.items():
    path = os.path.join(TREE, m.file)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if text.count(m.old) != 1:
        sys.exit(f"mutations.py: {name}: {m.file} has {m.old!r} {text.count(m.old)} times (once is right; change the list)")
    begin = time.monotonic()
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(m.old, m.new))
        build()
        caught, where = fails(m.tests)
    finally:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    survived += not caught
    print(f"{'caught' if caught else 'SURVIVED':8s} {name:15s} {m.what}; {m.tests}: {where} ({time.monotonic() - begin:.0f} s)", flush=True)
print(f"{len(chosen) - survived} of {len(chosen)} mutations caught")
if not a.keep:
    subprocess.run(["git", "worktree", "remove", "--force", TREE], cwd=ROOT, check=True, capture_output=True)
sys.exit(1 if survived else 0)
