#!/usr/bin/env python3
"""Breaks Weft on purpose, and sees that a test fails: a line a mutation, exit code 1 when one survives.

  perf/mutations.py [NAME...] [--device] [--keep]

Works on a checkout of HEAD in build/mutations, so the tree itself is never changed; the first build takes some minutes. A mutation is one
piece of text in the place of another. Each is compiled, and the tests that should see it run, those with ranks on two; they pass without it.
Many small changes at random has tests/mutate.py. --device takes the mutations of the CUDA back end, in the preset fakecuda. --keep leaves the checkout for the next call.
"""
import argparse, collections, os, subprocess, sys, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TREE = os.path.join(ROOT, "build/mutations")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_PROC_BIND": "false", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
               "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
Mutation = collections.namedtuple("Mutation", "what file old new tests program", defaults=["test_training"])
HOST_MUTATIONS = {
    "reduce_scatter": Mutation("a reduce-scatter leaves out the last rank's term", "comm/host/host_channel_collectives.cpp", "ordered_sum(o.sources, out,",
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
BITS = "Precisions/Bits.*:Pipe.CheckpointsLoad*"
DEVICE_MUTATIONS = {
    "dropped_wait": Mutation("no stream waits for another", "comm/nccl/stream_timeline.cpp",
                             "CHECK_CUDA(cudaStreamWaitEvent(as_stream(stream_), as_event(native), 0));", "static_cast<void>(native);", BITS),
    "compute_wait": Mutation("kernels do not wait for collectives", "src/exec/compute_lane_cuda.cpp", "impl_->timeline.wait({&event, 1});",
                             "static_cast<void>(event);", BITS),
    "early_event": Mutation("an event that stands for a collective is never recorded", "comm/nccl/stream_timeline.cpp",
                            "CHECK_CUDA(cudaEventRecord(as_event(marks(last_).end), as_stream(stream_)));", "", "Nccl.*", "test_nccl"),
    "host_pointer": Mutation("a barrier's operand lies on the host", "comm/nccl/nccl_channel.cpp", "ncclAllReduce(token_, token_, 1,",
                             "ncclAllReduce(this, this, 1,", "Nccl.SubsetsOfRanks", "test_nccl"),
    "staging": Mutation("pinned memory is written again before an upload has read it", "kernels/memory.cpp",
                        "from = std::memcpy(static_cast<std::byte*>(pinned_) + used_, host, bytes);", "from = std::memcpy(pinned_, host, bytes);",
                        "Staging.*", "test_kernels"),
    "late_zeros": Mutation("memory is handed out before it is cleared", "kernels/memory.cpp", 'execution.fence("weft::memory::allocate");', "",
                           "Buffer.*:Copy.*", "test_kernels"),
    "leading_dimension": Mutation("a matrix' rows are given as its leading dimension", "kernels/matmul_cublaslt.cpp",
                                  "static_cast<std::uint64_t>(rows), columns));", "static_cast<std::uint64_t>(rows), std::max(rows, columns)));",
                                  "Matmul.LongSums*", "test_kernels"),
    "alignment": Mutation("every operand is taken for aligned to 16 bytes", "kernels/matmul_cublaslt.cpp",
                          "impl_->algorithm(alignment_of(a, b, c))", "impl_->algorithm(0 * alignment_of(a, b, c))", "Matmul.OperandsOfAnyAlignment",
                          "test_kernels"),
    "swapped_calls": Mutation("one rank makes the reduce-scatters of a group in the opposite order", "comm/nccl/nccl_channel.cpp",
                              "  reduce_all(deferred_);", "  if (rank() == 1) std::reverse(deferred_.begin(), deferred_.end());\n  reduce_all(deferred_);",
                              "Nccl.Groups", "test_nccl"),
    "peers_meet": Mutation("a rank goes on while others still read its memory", "comm/nccl/peer_sum.hpp", "inline constexpr int peer_steps = 3;",
                           "inline constexpr int peer_steps = 2;", "Nccl.*Peers*", "test_nccl"),
    "peers_place": Mutation("one rank reads another place of its peers' memory than the others", "comm/nccl/peer_memory.cpp", "what.in) - stretch->bytes.data()",
                            "what.in) - stretch->bytes.data() + 4 * rank_", "Nccl.*Peers*", "test_nccl"),
    "count": Mutation("one rank gathers a byte less than the others", "comm/nccl/nccl_channel.cpp",
                      "ncclAllGather(in, out, bytes, ncclUint8", "ncclAllGather(in, out, bytes - static_cast<std::size_t>(rank()), ncclUint8",
                      "Nccl.Gathers", "test_nccl"),
    "stream": Mutation("a gather goes to the legacy stream", "comm/nccl/nccl_channel.cpp",
                       "ncclAllGather(in, out, bytes, ncclUint8, comm_, stream_)", "ncclAllGather(in, out, bytes, ncclUint8, comm_, nullptr)", BITS),
    "unjoined": Mutation("a capture does not wait for the events of its own streams", "comm/nccl/stream_timeline.cpp",
                         "return captured_ends_[value - before_capture_ - 1].get();", "return nullptr;", "StreamGraph.*", "test_exec"),
    "team_barrier": Mutation("a team does not wait between two loops over a row", "kernels/lanes.hpp",
                             "void wait() const { member.team_barrier(); }", "void wait() const {}", "RmsNorm.*", "test_kernels"),
    "cudnn_strides": Mutation("cuDNN is told that heads follow one another as in [B, H, T, D]", "kernels/attention_cudnn_graph.hpp",
                              ".set_stride({layout.tokens * token, part_.head_dim, token, 1})",
                              ".set_stride({layout.tokens * token, layout.tokens * part_.head_dim, part_.head_dim, 1})", "Attention.EverySequenceLength", "test_kernels"),
}


def misplaced(mutations, tree):
    """A line for each mutation whose text does not stand once in its file of this tree."""
    lines = []
    for name, m in mutations.items():
        path, count = os.path.join(tree, m.file), 0
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                count = file.read().count(m.old)
        if count != 1:
            lines.append(f"{name}: {m.file} has {m.old!r} {count} times (once is right; change the list)")
    return lines


def call(command, seconds=None):
    done = subprocess.run(command, cwd=TREE, env=ENVIRONMENT, text=True, errors="replace", capture_output=True, stdin=subprocess.DEVNULL,
                          timeout=seconds)
    return done.returncode, done.stdout + done.stderr


def build(preset, chosen):
    status, said = call(["ninja", "-C", f"build/{preset}", *sorted({m.program for m in chosen.values()})])
    if status != 0:
        sys.exit(f"mutations.py: the build failed:\n{said[-3000:]}")


def fails(preset, program, tests):
    """Whether the tests fail; what hangs has failed, too."""
    try:
        launcher = ["mpirun", "-n", "2"] if program in ("test_training", "test_nccl") else []
        status, said = call([*launcher, f"build/{preset}/tests/{program}", f"--gtest_filter={tests}"], seconds=400)
    except subprocess.TimeoutExpired:
        return True, "did not end"
    if status == 0 and "[  PASSED  ]" not in said.replace("\x1b[0;32m", "").replace("\x1b[m", ""):
        sys.exit(f"mutations.py: {tests}: no test ran")
    first = next((line.strip() for line in said.splitlines() if "Failure" in line or "what():" in line or "error:" in line or "fakecuda:" in line), "")
    return status != 0, os.path.relpath(first, TREE) if first.startswith("/") else first


def check_out():
    """Makes a checkout of HEAD, or takes that of the last call. git says itself why it cannot."""
    if not os.path.exists(TREE):
        return subprocess.run(["git", "worktree", "add", "--quiet", "--detach", TREE, "HEAD"], cwd=ROOT).returncode == 0
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True, stdout=subprocess.PIPE)
    return head.returncode == 0 and subprocess.run(["git", "checkout", "--quiet", "--detach", "--force", head.stdout.strip()],
                                                   cwd=TREE).returncode == 0


def survivors(preset, chosen):
    """Tries the mutations; gives how many of them no test has seen."""
    if lines := misplaced(chosen, TREE):
        sys.exit("mutations.py: " + "\nmutations.py: ".join(lines))
    if not os.path.exists(os.path.join(TREE, f"build/{preset}/build.ninja")):
        status, said = call(["jobs/setup.sh", "--tests", "--preset", f"{preset}:test_training"])
        if status != 0:
            sys.exit(f"mutations.py: set-up failed:\n{said[-3000:]}")
    build(preset, chosen)
    for program, tests in sorted({(m.program, m.tests) for m in chosen.values()}):
        if (found := fails(preset, program, tests))[0]:
            sys.exit(f"mutations.py: {program} {tests} fails without any mutation: {found[1]}")
    survived = 0
    for name, m in chosen.items():
        path = os.path.join(TREE, m.file)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        begin = time.monotonic()
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace(m.old, m.new))
            build(preset, chosen)
            caught, where = fails(preset, m.program, m.tests)
        finally:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        survived += not caught
        print(f"{'caught' if caught else 'SURVIVED':8s} {name:15s} {m.what}; {m.tests}: {where} ({time.monotonic() - begin:.0f} s)", flush=True)
    print(f"{len(chosen) - survived} of {len(chosen)} mutations caught")
    return survived


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(HOST_MUTATIONS)}; with --device {', '.join(DEVICE_MUTATIONS)}")
    parser.add_argument("--device", action="store_true")
    parser.add_argument("--keep", action="store_true")
    a = parser.parse_args()
    preset, mutations = ("fakecuda", DEVICE_MUTATIONS) if a.device else ("cpu", HOST_MUTATIONS)
    if unknown := set(a.names) - set(mutations):
        parser.error(f"no mutation {', '.join(sorted(unknown))} (there are {', '.join(mutations)})")
    if not check_out():
        sys.exit(f"mutations.py: no checkout of HEAD in {TREE}")
    try:
        survived = survivors(preset, {name: mutations[name] for name in a.names or mutations})
    finally:
        if not a.keep:
            subprocess.run(["git", "worktree", "remove", "--force", TREE], cwd=ROOT)
    sys.exit(1 if survived else 0)


if __name__ == "__main__":
    main()
