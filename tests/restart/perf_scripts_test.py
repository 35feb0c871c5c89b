#!/usr/bin/env python3
"""Tests what the scripts of perf/ do before and after they measure. WEFT: the program (default: build/cpu/weft)."""
import argparse, collections, contextlib, fnmatch, glob, io, itertools, json, math, os, re, select, shutil, signal, subprocess, sys, tarfile, tempfile, unittest
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "perf"))
import distances, hosts, memory, mutations, scaling  # noqa: E402
from trials import power, runs  # noqa: E402

DECK = os.path.join(ROOT, "inputs/bench_33m.toml")


def script(name, *arguments):
    return subprocess.run([sys.executable, os.path.join(ROOT, "perf", name), *arguments], cwd=ROOT, capture_output=True, text=True,
                          check=False)


class PeerOptionsTest(unittest.TestCase):
    def options(self, *sets, deck=DECK):
        found = hosts.peer_options(argparse.Namespace(deck=deck, set=list(sets), batch=4, steps=6))
        return dict(zip(found[::2], found[1::2], strict=True))

    def changed_deck(self, folder, *lines):
        with open(DECK, encoding="utf-8") as file:
            text = file.read()
        path = os.path.join(folder, "deck.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text + "".join(f"\n{line}" for line in lines) + "\n")
        return path

    def test_every_spelling_of_a_type_is_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            in_deck = self.changed_deck(folder, "[precision]", 'params = "bf16"', 'grad_wire = "bf16"')
            found = self.options(deck=in_deck)
            self.assertEqual((found["--dtype"], found["--reduce"]), ("bf16", "bf16"))
            for quote in ("", '"', "'"):
                sets = [f"precision.{key}={quote}bf16{quote}" for key in ("params", "grad_wire")]
                self.assertEqual(self.options(*sets), found)
            # What is said last holds.
            self.assertEqual(self.options("precision.params=bf16", "precision.params=f32"), self.options())
            self.assertEqual(self.options("precision.params=f32", "precision.grad_wire=f32", deck=in_deck), self.options())

    def test_the_shape_is_the_decks(self):
        self.assertEqual(self.options(), {
            "--dtype": "fp32", "--reduce": "fp32", "--tied": "0", "--dim": "512", "--layers": "8", "--heads": "8", "--kv_heads": "4",
            "--ffn": "1536", "--vocab": "8192", "--seq": "512", "--batch": "4", "--steps": "7", "--skip": "3"})
        for key, value in (("dim", 256), ("layers", 3), ("heads", 16), ("kv_heads", 2), ("ffn", 512), ("vocab", 1024)):
            self.assertEqual(self.options(f"model.{key}={value}"), self.options() | {f"--{key}": str(value)})
        self.assertEqual(self.options("data.seq=64"), self.options() | {"--seq": "64"})
        self.assertEqual(self.options("model.tie_embeddings=true"), self.options() | {"--tied": "1"})

    def test_what_pytorch_cannot_do_is_refused(self):
        for key, value in (("model.rope_theta", "10000"), ("model.norm_eps", "1e-6"), ("model.rope_scaling.factor", "8"),
                           ("optimizer.clip", "0"), ("precision.float8", '["layers.*"]'),
                           ("data.document_mask", "true")):
            others = ("data.synthetic=false", "data.train=tokens.bin") if key.startswith("data.") else ()
            with self.assertRaises(SystemExit, msg=key) as refusal:
                self.options("precision.params=bf16", *others, f"{key}={value}")
            self.assertIn(f"{key} is ", str(refusal.exception))


class HostsTest(unittest.TestCase):
    def test_several_ranks_a_host_have_no_peer(self):
        for names in (("peers", "1gbit"), ("pipe", "1gbit"), ("pipe", "1gbit", "ddpc")):
            done = script("hosts.py", *names, "--ranks-per-host", "2")
            self.assertEqual(done.returncode, 2, names)
            self.assertIn("--ranks-per-host 2: PyTorch has one process a host; leave it out", done.stderr)

    def test_pytorch_has_the_threads_of_weft(self):
        commands = []

        class Seen:
            a = argparse.Namespace(threads=3)

            def on(self, rate, options, command):
                commands.append(command)
                return '{"tok_s": 1.5}\n', {}

        self.assertEqual(hosts.peer_rate(Seen(), "1gbit", "fsdp2c-keep", "python", ["--dim", "64"]), 1.5)
        (command,) = commands
        self.assertEqual(command[command.index("--threads") + 1], "3")
        self.assertEqual(command[command.index("--reshard") + 1], "0")

    def test_every_mesh_of_the_ranks_is_measured(self):
        for ranks, per_host in ((2, 1), (4, 1), (4, 2), (6, 3), (8, 8)):
            found = collections.defaultdict(set)
            texts = hosts.arrangements(ranks, per_host, 2)
            self.assertEqual(len(texts), len(set(texts)))
            for text in texts:
                sizes = collections.Counter({axis: int(size) for axis, size in re.findall(r"(\w+) = (\d+)", text)})
                mesh = tuple(sizes[axis] or 1 for axis in ("replica", "pipe", "context", "tensor"))
                found[mesh].add(re.search("parallel.mode=([a-z0-9]+)", text)[1])
            expected = [(r, p, c, t) for r in range(1, ranks + 1) for p in range(1, ranks + 1) for c in range(1, ranks + 1)
                        for t in range(1, per_host + 1) if ranks % (r * p * c * t) == 0]
            self.assertEqual(sorted(found), sorted(expected))
            for (replica, pipe, context, tensor), modes in found.items():
                data = ranks // math.prod((replica, pipe, context, tensor))
                self.assertEqual("ddp" in modes, data * context > 1 and replica == 1)
                self.assertEqual("zero2" in modes, data * context > 1)


class DistancesTest(unittest.TestCase):
    def test_nan_is_the_largest_wherever_it_stands(self):
        self.assertEqual(distances.largest([1e-7, 3e-7, 2e-7]), 3e-7)
        for numbers in itertools.permutations((1e-7, math.nan, 2e-7)):
            self.assertFalse(distances.largest(numbers) <= 1e-5)

    def test_a_number_that_is_none_is_nan(self):
        self.assertEqual(distances.relative(3.0, 4.0), 0.25)
        self.assertEqual(distances.relative(-3.0, -4.0), 0.25)
        for found, expected in ((None, 1.0), (1.0, None), (None, None), (math.nan, 1.0), (1.0, math.nan)):
            self.assertTrue(math.isnan(distances.relative(found, expected)))


class ScalingTest(unittest.TestCase):
    def test_a_core_counts_once(self):
        with tempfile.TemporaryDirectory() as folder:
            for cpu, siblings in enumerate(("0,4", "1,5", "2-3", "2-3", "0,4", "1,5")):
                os.makedirs(f"{folder}/cpu{cpu}/topology")
                with open(f"{folder}/cpu{cpu}/topology/thread_siblings_list", "w", encoding="ascii") as file:
                    file.write(siblings + "\n")
            for cpus, cores in (({0, 1, 2, 3, 4, 5}, [0, 1, 2]), ({3, 4, 5}, [3, 4, 5]), ({0, 4}, [0]), ({4}, [4]), ({7, 8}, [7, 8])):
                self.assertEqual(scaling.first_of_each_core(cpus, folder), cores)

    def test_what_runs_beside_a_failure_is_ended(self):
        started, start = [], scaling.start
        commands = iter((["false"], ["sleep", "60"], ["sleep", "60"]))
        weft = scaling.Weft(None, None)
        with mock.patch.object(weft, "command", lambda ranks: (next(commands), "run")), \
             mock.patch.object(scaling, "start", lambda command: started.append(start(command)) or started[-1]):
            with self.assertRaisesRegex(RuntimeError, "false ended with 1"):
                weft.apart(3)
        self.assertEqual(len(started), 3)
        for process in started:
            self.assertIsNotNone(process.returncode)
            process.stdout.close()
            process.stderr.close()


class MemoryTest(unittest.TestCase):
    def ended(self, status, said):
        return subprocess.CompletedProcess(["job"], status, "", said)

    def test_only_want_of_memory_is_a_job_that_does_not_fit(self):
        refusal = "weft: error: deck.toml: not enough memory: the run needs 9.00 GiB on a rank; use more nodes\n"
        self.assertTrue(memory.fits(self.ended(0, ""), 0))
        self.assertFalse(memory.fits(self.ended(137, ""), 1))
        self.assertFalse(memory.fits(self.ended(2, refusal), 0))
        for status, said in ((1, ""), (2, "weft: error: deck.toml: model.dim: 3 is not even\n"), (137, ""), (76, "no sign of rank 1\n")):
            with self.assertRaisesRegex(SystemExit, f"job ended with {status}, and not for want of memory"):
                memory.fits(self.ended(status, said), 0)

    def test_the_words_are_those_of_the_refusal(self):
        with open(os.path.join(ROOT, "src/runtime/preflight.cpp"), encoding="utf-8") as file:
            self.assertIn("not enough memory: the run", file.read())

    def test_the_largest_is_found(self):
        for most in range(0, 40):
            self.assertEqual(memory.largest_that(lambda layers, most=most: layers <= most), most)

    def test_kills_are_counted_in_both_versions(self):
        group = object.__new__(memory.ControlGroup)
        with tempfile.TemporaryDirectory() as folder:
            group.events_file = os.path.join(folder, "events")
            for text in ("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", "low 0\nhigh 0\nmax 7\noom 4\noom_kill 3\noom_group_kill 0\n"):
                with open(group.events_file, "w", encoding="ascii") as file:
                    file.write(text)
                self.assertEqual(group.killed(), 3)

    def test_a_group_that_cannot_be_set_is_removed(self):
        def refuse(*_):
            raise OSError("no")

        with tempfile.TemporaryDirectory() as folder, mock.patch.object(memory.ControlGroup, "set", refuse):
            with self.assertRaisesRegex(OSError, "no"):
                memory.ControlGroup(1 << 30, folder)
            self.assertEqual(os.listdir(folder), [])


# What stands for Weft's launcher and for the peers' python. Each call adds a line to LOG, and those that FAILS names fail.
FAKE = """#!/usr/bin/env python3
import json, os, sys
name = os.path.basename(sys.argv[0])
if "-c" in sys.argv:  # setup.sh looks whether the packages are there
    sys.exit(0)
with open(os.environ["LOG"], "a+") as log:
    log.seek(0)
    number = sum(line.startswith(name) for line in log)
    log.write(name + "\\n")
if f"{name} {number}" in os.environ["FAILS"].split(","):
    sys.exit(134)
if name == "mpirun":
    (run,) = [x.removeprefix("run.dir=") for x in sys.argv if x.startswith("run.dir=")]
    os.makedirs(run)
    with open(run + "/metrics.jsonl", "w") as file:
        for step in range(3):
            file.write(json.dumps({"kind": "train", "step_s": 0.5, "rss_bytes": 1 << 20}) + "\\n")
else:
    print(json.dumps({"tok_s": 100.0, "rss_mib": 1}))
"""


class CompareTest(unittest.TestCase):
    def compare(self, fails="", **environment):
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(f"{folder}/bin")
            for name in ("mpirun", "python"):
                with open(f"{folder}/bin/{name}", "w", encoding="ascii") as file:
                    file.write(FAKE)
                os.chmod(f"{folder}/bin/{name}", 0o755)
            done = subprocess.run([sys.executable, os.path.join(ROOT, "perf/compare.py"), "ddpc", "--pairs", "1", "--steps", "3"],
                                  capture_output=True, text=True, check=False,
                                  env={**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}", "WEFT_PEERS_VENV": folder,
                                       "LOG": f"{folder}/log", "FAILS": fails, **environment})
            calls = collections.Counter()
            if os.path.exists(f"{folder}/log"):
                with open(f"{folder}/log", encoding="ascii") as file:
                    calls.update(file.read().split())
            return done, calls

    def test_both_sides_run(self):
        done, calls = self.compare()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(calls, {"mpirun": 3, "python": 4})
        self.assertIn("weft / ddpc", done.stdout)

    def test_weft_may_not_fail(self):
        for number in range(3):
            done, calls = self.compare(f"mpirun {number}")
            self.assertEqual(done.returncode, 1)
            self.assertEqual(calls["mpirun"], number + 1)
            self.assertIn("ended with 134", done.stderr)

    def test_a_peer_that_fails_runs_again_and_is_told(self):
        done, calls = self.compare("python 1,python 2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(calls["python"], 6)
        self.assertEqual(done.stderr.count("ended with 134; it runs again"), 2)
        done, calls = self.compare("python 1,python 2,python 3")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(calls["python"], 4)

    def test_the_reason_of_a_failed_setup_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/pip", "w", encoding="ascii") as file:
                file.write("")
            done, _ = self.compare(WEFT_PEERS_VENV=f"{folder}/pip/none")  # below a file no environment can be made
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"setup.sh: cannot make {folder}/pip/none", done.stderr)
        self.assertIn("compare.py: perf/peers/setup.sh ended with 1; its reason stands above", done.stderr)


class BreakdownTest(unittest.TestCase):
    """On a trace that is written here: a step of 12.5 ms."""

    def breakdown(self, *arguments):
        kernels = (("matmul", "layers.0.ffn", "forward", 1000, {"flops": 4_000_000_000, "bytes": 1_000_000}),
                   ("matmul", "layers.11.ffn", "forward", 3000, {"flops": 4_000_000_000, "bytes": 1_000_000}),
                   ("matmul", "layers.11.ffn", "backward", 2500, {"flops": 4_000_000_000, "bytes": 1_000_000}),
                   ("matmul_wgrad", "layers.11.ffn", "backward", 2000, {"flops": 6_000_000_000, "bytes": 4_000_000}),
                   ("matmul_wgrad", "layers.11.ffn", "backward", 1500, {"flops": 3_000_000_000, "bytes": 3_000_000}),
                   ("adamw", "layers.0.ffn", "update", 1200, {"bytes": 3_000_000}),
                   ("join", "loss", "update", 100, {"bytes": 0}))
        event = lambda name, path, phase, begin, length, more, row=0, rank=0: {
            "ph": "X", "name": name, "cat": phase, "pid": rank, "tid": row, "ts": begin, "dur": length, "args": {"path": path, "phase": phase, **more}}
        begins = itertools.accumulate((1200 + 1000, *(k[3] for k in kernels[1:])), initial=7)  # the lane waits once, for 1.2 ms
        events = [event(*k[:3], begin, *k[3:]) for k, begin in zip(kernels, begins)]
        events += [event("all_gather", "head", "forward", 0, 50_000, {"bytes": 9}, row=1), event("matmul", "head", "forward", 0, 50_000, {}, rank=1),
                   {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": "rank 0"}}]
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".json") as file:
            json.dump({"traceEvents": events}, file)
            file.flush()
            done = script("breakdown.py", "--trace", file.name, "--limits", "10", "1000", "4000", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def test_the_largest_spans_have_their_rates(self):
        head, names, *spans = self.breakdown("--spans", "6")
        self.assertEqual(head, "triad 10.0 GB/s, matmul 4000 GFLOP/s; a rank's step 12.5 ms")
        self.assertEqual(names, f"{'span':<28}{'module':<16}{'phase':<10} calls       ms  % step  GFLOP a call  TFLOP/s    GB/s")
        self.assertEqual([line.split() for line in spans[:6]], [line.split() for line in (
            "matmul       layers.*.ffn forward  2 4.00 32.0 4.000 2.000 0.5",
            "matmul       layers.*.ffn backward 1 2.50 20.0 4.000 1.600 0.4",
            "matmul_wgrad layers.*.ffn backward 1 2.00 16.0 6.000 3.000 2.0",
            "matmul_wgrad layers.*.ffn backward 1 1.50 12.0 3.000 2.000 2.0",
            "adamw        layers.*.ffn update   1 1.20 9.6              2.5",
            "join         loss         update   1 0.10 0.8")])
        self.assertEqual({len(line) for line in spans[:5]}, {len(names)})
        self.assertEqual(spans[6], "")
        self.assertEqual(self.breakdown("--spans", "2"), [head, names, *spans[:2], *spans[6:]])
        self.assertEqual(self.breakdown(), [head, *spans[7:]])

    def test_operations_are_added_up(self):
        _, _, *lines = self.breakdown()
        self.assertEqual([line.split() for line in lines], [line.split() for line in (
            "matmul       3 6.50 52.0 0.5 1846 3.00 46",
            "matmul_wgrad 2 3.50 28.0 2.0 2571 2.25 64",
            "adamw        1 1.20  9.6 2.5      0.30 25",
            "join         1 0.10  0.8 0.0      0.00  0",
            "waiting        1.20  9.6",
            "all kernels   11.30 90.4          5.55 49")])


class CompareKernelsTest(unittest.TestCase):
    """Both programs are fakes."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    # What bench says to compare_kernels.py, in the file that it is asked for.
    MEASURED = ("(out,) = [x.split('=', 1)[1] for x in sys.argv if x.startswith('--benchmark_out=')]",
                "json.dump({'benchmarks': [{'name': 'add/odd/f32/real_time', 'real_time': 1.5}]}, open(out, 'w'))")

    def command(self, *bench, torch=("print('{\"add/odd/f32\": 3.0}')",)):
        for name, lines in (("bench", bench), ("python", torch)):
            with open(f"{self.folder}/{name}", "w", encoding="ascii") as file:
                file.write("\n".join((f"#!{sys.executable}", "import json, sys, time", *lines)))
            os.chmod(f"{self.folder}/{name}", 0o755)
        return [sys.executable, os.path.join(ROOT, "perf/compare_kernels.py"), "--rounds", "1", "--models", "odd",
                "--bench", f"{self.folder}/bench", "--python", f"{self.folder}/python"]

    def test_a_line_comes_before_the_program_ends(self):
        for command in (self.command("print('add/odd/f32 1.5 ms', flush=True)", "time.sleep(600)"),
                        self.command(*self.MEASURED, torch=("print('add/odd/f32 1.5 ms', file=sys.stderr, flush=True)", "time.sleep(600)"))):
            with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
                try:
                    self.assertTrue(select.select([process.stderr], [], [], 60)[0], "no line came in a minute")
                    self.assertEqual(process.stderr.readline(), "add/odd/f32 1.5 ms\n")
                finally:
                    os.killpg(process.pid, signal.SIGKILL)

    def test_the_table_has_the_numbers_of_the_file(self):
        done = subprocess.run(self.command("print('add/odd/f32 2 ms')", *self.MEASURED), capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"add/odd/f32 +1\.500 +3\.000 +2\.00 ")
        self.assertEqual(done.stderr, "add/odd/f32 2 ms\n")  # PyTorch's line of JSON is no kernel's

    def test_what_the_program_said_is_told_where_it_fails(self):
        done = subprocess.run(self.command("print('some line')", "sys.exit('no device')"), capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"(?s)bench .* ended with 1:\nsome line\nno device\n")


class TorchKernelsTest(unittest.TestCase):
    """PyTorch is a mock, whose kernels take no time."""

    PROGRAM = """
import runpy, sys, unittest.mock
sys.modules |= {name: unittest.mock.MagicMock() for name in ("torch", "torch.nn", "torch.nn.functional")}
sys.argv = ["torch_kernels.py", "--seconds", "0", "--models", "odd", "33m"]
runpy.run_path("perf/peers/torch_kernels.py")
"""

    def test_each_kernel_is_told_as_it_comes(self):
        done = subprocess.run([sys.executable, "-c", self.PROGRAM], cwd=ROOT, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        (line,) = done.stdout.splitlines()
        found = json.loads(line)
        self.assertIn("matmul_gate_up_wgrad/33m/bf16", found)
        self.assertEqual(done.stderr.splitlines(), [f"PyTorch: {name:42}{milliseconds:10.3f} ms" for name, milliseconds in found.items()])


class CompareProductsTest(unittest.TestCase):
    """Weft's side is a fake, the system's oneDNN multiplies, and its program compares with sums of its own."""

    def test_every_product_has_a_line(self):
        probe = subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", "-x", "c++", "-", "-ldnnl", "-o", "/dev/null"], capture_output=True, text=True,
                               input="#include <oneapi/dnnl/dnnl.hpp>\nint main() {}\n", check=False)
        if probe.returncode != 0 and os.environ.get("WEFT_TEST_TOOLS") != "all":
            self.skipTest("the compiler finds no oneDNN by itself")
        with tempfile.TemporaryDirectory() as folder:
            names = [f"matmul_{what}{form}/odd/{kind}" for what in ("qkv", "proj", "gate_up", "down") for form in ("", "_dgrad", "_wgrad") for kind in ("f32", "bf16")]
            with open(f"{folder}/bench", "w", encoding="ascii") as file:
                file.write(f"#!{sys.executable}\nimport json, sys\n(out,) = [x.split('=', 1)[1] for x in sys.argv if x.startswith('--benchmark_out=')]\n"
                           f"json.dump({{'benchmarks': [{{'name': n + '/real_time', 'real_time': 1e9}} for n in {names}]}}, open(out, 'w'))\n")
            os.chmod(f"{folder}/bench", 0o755)
            done = script("compare_products.py", "--rounds", "1", "--seconds", "0", "--models", "odd", "--bench", f"{folder}/bench", "--onednn", "none")
        self.assertEqual(done.returncode, 0, done.stderr)
        header, _, *lines = done.stdout.splitlines()[2:]
        self.assertRegex(header, r"^\| product \| Weft \| oneDNN \d")
        self.assertEqual(sorted(line.split("|")[1].strip() for line in lines), sorted(n.removeprefix("matmul_") for n in names))
        for line in lines:  # any library is faster than a fake that takes days
            self.assertRegex(line, r"\| 0 \| [1-9]\d*: \*\*")


class GpuTest(unittest.TestCase):
    """A copy of gpu.sh in a tree of its own, whose programs and libraries are copies of a small program."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="a tree ")
        self.addCleanup(folder.cleanup)
        self.tree = folder.name
        for name in ("bin", "perf", "components", "data", "build/cuda/perf", "build/cuda/tests", "build/gpu"):
            os.makedirs(os.path.join(self.tree, name))
        shutil.copy(os.path.join(ROOT, "perf/gpu.sh"), f"{self.tree}/perf")
        some_program = shutil.which("strip")
        for name in ("weft", "perf/bench_kernels", *(f"tests/test_{t}" for t in (
                "kernels", "exec", "golden_ops", "transformers", "curve", "model", "nccl", "training"))):
            shutil.copy(some_program, f"{self.tree}/build/cuda/{name}")
        shutil.copy(some_program, f"{self.tree}/components/mca_btl_self.so")
        shutil.copy(some_program, f"{self.tree}/bin/mpirun")
        self.program("ompi_info", f'case $3 in pkglibdir) name=components ;; *) name=data ;; esac; echo "path:$3:{self.tree}/$name"')
        with open(f"{self.tree}/build/gpu/pack.txz", "w", encoding="ascii") as file:
            file.write("older")
        shutil.copy(some_program, f"{self.tree}/data/libother.so.1")
        self.program("ldd", f'echo "libother.so.1 => {self.tree}/data/libother.so.1 (0x0)"')

    def program(self, name, text):
        with open(f"{self.tree}/bin/{name}", "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        os.chmod(f"{self.tree}/bin/{name}", 0o755)

    def gpu(self, *arguments, **environment):
        return subprocess.run(["bash", f"{self.tree}/perf/gpu.sh", *arguments], capture_output=True, text=True, check=False,
                              env={**os.environ, "PATH": f"{self.tree}/bin:{os.environ['PATH']}", "WEFT_NCCL": "", **environment})

    def test_a_pack_is_whole(self):
        done = self.gpu("--pack")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(os.listdir(f"{self.tree}/build")), ["cuda", "gpu"])
        with tarfile.open(f"{self.tree}/build/gpu/pack.txz") as pack:
            names = pack.getnames()
        for name in ("weft", "tests/test_training", "perf/bench_kernels", "mpirun", "source_dir", "lib/openmpi/mca_btl_self.so", "lib/libother.so.1", "share"):
            self.assertIn("./" + name, names)

    def test_what_fails_makes_no_pack(self):
        for tool in ("strip", "cp", "ompi_info", "find", "xargs", "python3", "tar"):
            with open(f"{self.tree}/bin/ompi_info", encoding="ascii") as file:
                ompi_info = file.read()
            self.program(tool, "exit 1")
            done = self.gpu("--pack", WEFT_NCCL="libnccl.so.2" if tool == "python3" else "")
            os.remove(f"{self.tree}/bin/{tool}")
            self.program("ompi_info", ompi_info.split("\n", 1)[1])
            self.assertNotEqual(done.returncode, 0, tool)
            self.assertIn("gpu.sh: no pack was made", done.stderr, tool)
            self.assertEqual(sorted(os.listdir(f"{self.tree}/build")), ["cuda", "gpu"], tool)
            with open(f"{self.tree}/build/gpu/pack.txz", encoding="ascii") as file:
                self.assertEqual(file.read(), "older", tool)

    def test_a_part_that_is_none_is_told_at_once(self):
        self.program("nvidia-smi", "echo 'GPU 0: none' && touch '" + self.tree + "/asked'")
        done = self.gpu("train", "trian")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr, "gpu.sh: no part 'trian'; see the head of perf/gpu.sh\n")
        self.assertFalse(os.path.exists(f"{self.tree}/asked"))


# What stands for the programs on a GPU. `weft` trains as its deck's keys say; runs that OTHERS names have other losses, and those that FAILS names end
# with the last line of SAYS. `timeout` notes every command with its seconds, and ends those that match HANGS as if their time had ended. Tests of the
# programs that FAILING names fail; with blocking launches they are noted, and those fail that FAILING_ALONE names.
FAKE_WEFT = """
import json, os, sys
command, run = sys.argv[1], {}
if command == "plan":
    print("a run of it needs 39.72 GiB on a rank (state 32.24, arena 7.47)")
if command != "train":
    sys.exit()
sets = dict(x.split("=", 1) for x in sys.argv[3:] if x != "--set")
folder, name = sets["run.dir"], os.path.basename(sets["run.dir"])
if name in os.environ.get("FAILS", "").split():
    sys.exit(os.environ.get("SAYS", "no"))
os.makedirs(folder, exist_ok=True)
begin = 0
if sets.get("checkpoint.resume") == "auto" and os.path.exists(folder + "/saved"):
    begin = 3
    print("continues from step 3")
if sets["checkpoint.final"] == "true":
    open(folder + "/saved", "w").close()
if sets.get("schedule.cuda_graph") != "off":
    print("4 replays of a CUDA graph")
if "log.trace_step" in sets:
    with open(folder + "/trace.json", "w") as file:
        json.dump({"traceEvents": [{"ph": "X", "name": "matmul", "pid": 0, "tid": 0, "ts": 0, "dur": 1000, "args": {"path": "layers.3.ffn", "flops": 10**9}}]}, file)
loss = {"other": 8.0, "nan": None}.get(dict(x.split(":") for x in os.environ.get("OTHERS", "").split()).get(name), 9.0)
with open(folder + "/metrics.jsonl", "a") as file:
    for step in range(begin, int(sets["run.steps"])):
        file.write(json.dumps({"kind": "train", "step": step, "loss": loss, "grad_norm": 1.0, "tokens_per_s": 1.0, "mfu": 0.5,
                               "step_s": 0.5 if "precision.float8" in sets else 1.0}) + "\\n")
open(folder + "/log.txt", "w").close()
"""
FAKE_TIMEOUT = """
printf -v line '%s\\t' "${@:2}"
echo "$line" >>"$LOG"
if [[ -n ${HANGS:-} && $* =~ $HANGS ]]; then "${@:3}"; exit 124; fi
exec "${@:3}"
"""
FAKE_TESTS = """
name=${0##*/}
if [ -n "${CUDA_LAUNCH_BLOCKING:-}" ]; then
  echo "$name $*" >>"$LOG.blocking"
  echo "the reason"
  [[ " ${FAILING_ALONE:-} " != *" $name "* ]]
  exit
fi
echo "[==========] Running 3 tests from 1 test suite."
echo "[ RUN      ] Some.First"; echo "[       OK ] Some.First (5 ms)"
echo "[ RUN      ] Some.Second"; echo "${SECOND:-[  SKIPPED ] Some.Second (5 ms)}"
echo "[ RUN      ] Some.Third"
[[ " ${FAILING:-} " != *" $name "* ]]
"""


class GpuPartsTest(unittest.TestCase):
    """Parts of gpu.sh on fakes of all programs, in a tree of their own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="a tree ")
        self.addCleanup(folder.cleanup)
        self.tree = folder.name
        for name in ("bin", "perf", "inputs", "build/gpu/tests", "build/gpu/perf"):
            os.makedirs(f"{self.tree}/{name}")
        for name in ("gpu.sh", "distances.py", "breakdown.py"):
            shutil.copy(os.path.join(ROOT, "perf", name), f"{self.tree}/perf")
        self.program("build/gpu/weft", FAKE_WEFT, f"{sys.executable} -SE")
        self.program("bin/timeout", FAKE_TIMEOUT)
        self.program("bin/mpirun", 'shift 2; exec "$@"')
        self.program("bin/nvidia-smi", 'case "$*" in -L) echo "GPU 0: none" ;; *memory.total,*) echo "none, 1, 81559 MiB" ;; *) echo 81559 ;; esac')
        for name in ("tests/test_nccl", "tests/test_training", "tests/test_kernels", "perf/bench_kernels"):
            self.program(f"build/gpu/{name}", FAKE_TESTS)

    def program(self, name, text, interpreter="/bin/bash"):
        with open(f"{self.tree}/{name}", "w", encoding="ascii") as file:
            file.write(f"#!{interpreter}\n{text}\n")
        os.chmod(f"{self.tree}/{name}", 0o755)

    def part(self, name, *options, **environment):
        """Runs one part, behind options of gpu.sh: its exit status, what it said, its line of the summary, and the commands under a time limit, each with its seconds."""
        done = subprocess.run(["bash", f"{self.tree}/perf/gpu.sh", *options, name], capture_output=True, text=True, check=False,
                              env={**os.environ, "PATH": f"{self.tree}/bin:{os.environ['PATH']}", "OUT": f"{self.tree}/out",
                                   "WEFT_BUILD": "build/gpu", "LOG": f"{self.tree}/log", **environment})
        self.assertEqual(sorted(os.listdir(f"{self.tree}/out")), ["logs.tgz", "summary.txt"])  # few files come back from a machine that is lent
        with open(f"{self.tree}/out/summary.txt", encoding="utf-8") as file:
            summary = file.read()
        with open(f"{self.tree}/log", encoding="utf-8") as file:
            commands = [(int(seconds), *command) for seconds, *command in (line.rstrip("\t\n").split("\t") for line in file)]
        os.remove(f"{self.tree}/log")
        return done.returncode, done.stdout, summary, commands

    def alone(self, commands):
        """Of the tests that ran alone, all of which must have had blocking launches: ranks, program, test and seconds."""
        found = []
        for seconds, *command in commands:
            if command[-1].startswith("--gtest_filter="):
                ranks = int(command[2]) if command[0].endswith("mpirun") else None
                found.append((ranks, os.path.basename(command[-2]), command[-1].removeprefix("--gtest_filter="), seconds))
        with open(f"{self.tree}/log.blocking", encoding="utf-8") as file:
            self.assertEqual(sorted(file.read().splitlines()), sorted(f"{program} --gtest_filter={test}" for _, program, test, _ in found))
        os.remove(f"{self.tree}/log.blocking")
        return found

    @staticmethod
    def trained(commands):
        """By name of the run, in their order: ranks and keys. Of a run that was continued, the last."""
        runs_by_name = {}
        for _, *command in commands:
            if "train" in command:
                sets = dict(x.split("=", 1) for x in command[command.index("train") + 2:] if x != "--set")
                ranks = int(command[2]) if command[0].endswith("mpirun") else 1
                runs_by_name[os.path.basename(sets["run.dir"])] = (ranks, sets)
        return runs_by_name

    def test_each_axis_is_compared(self):
        status, said, summary, commands = self.part("axes")
        self.assertEqual(status, 0, said)
        self.assertRegex(summary, r"^axes +ok .* 24 of 24 comparisons ran, 0 failed\n$")
        found = self.trained(commands)
        seen = set()
        for name, (ranks, sets) in found.items():
            mesh = dict(re.findall(r"(\w+) = (\d+)", sets.get("parallel.mesh", "")))
            self.assertEqual(math.prod(map(int, mesh.values())), ranks, name)
            self.assertEqual(name.endswith("_off"), "schedule.cuda_graph" in sets, name)
            self.assertEqual("float8" in name, "precision.float8" in sets, name)
            self.assertEqual("documents" in name, sets.get("data.document_mask") == "true", name)
            seen |= {(ranks, axis, "precision.float8" in sets) for axis in mesh}
        for axis, float8 in itertools.product(("data", "tensor", "context", "pipe"), (False, True)):
            self.assertIn((2, axis, float8), seen)
        self.assertTrue({axis for ranks, axis, _ in seen if ranks == 4} >= {"data", "tensor", "context", "pipe"})
        self.assertEqual(found["tensor_continued"][1]["checkpoint.resume"], "auto")
        self.assertEqual({name for name in found if "_off" in name and "one" not in name},
                         {"tensor_bf16_off", "context_float8_off", "pipe_float8_off", "data_bf16_off"})

    def test_an_axis_that_fails_does_not_end_the_others(self):
        status, said, summary, commands = self.part("axes", FAILS="tensor_bf16", OTHERS="data_bf16:other pipe_float8:nan", HANGS="/context_bf16 ")
        self.assertEqual(status, 1)
        self.assertEqual(len(self.trained(commands)), 27)
        failed = {line.split(":")[0] for line in said.splitlines() if "FAILED" in line and ":" in line}
        self.assertEqual(failed, {"tensor_bf16", "context_bf16", "pipe_float8", "data_bf16", "tensor_continued", "data2_tensor_bf16", "tensor_bf16_off",
                                  "data2_context_bf16"})
        self.assertIn("24 of 24 comparisons ran, 8 failed", summary)
        for seconds, *command in commands:
            if command[0].endswith("mpirun"):
                self.assertLessEqual(seconds, 25)

    def test_an_nccl_with_one_rank_a_gpu_is_no_failure(self):
        status, said, summary, commands = self.part("axes", FAILS="tensor_bf16", SAYS="Duplicate GPU detected")
        self.assertEqual(status, 0, said)
        self.assertRegex(summary, "^axes +skipped .* this NCCL takes one rank a GPU")
        self.assertEqual([name for name, (ranks, _) in self.trained(commands).items() if ranks > 1], ["tensor_bf16"])
        status, said, summary, _ = self.part("axes", FAILS="context_bf16", SAYS="ncclInvalidUsage: invalid usage")
        self.assertEqual(status, 1)  # ranks share the GPU: tensor_bf16 ran
        self.assertIn("24 of 24 comparisons ran, 2 failed", summary)
        status, said, summary, commands = self.part("ranks", FAILS="two", SAYS="Duplicate GPU detected")
        self.assertEqual(status, 0, said)
        self.assertRegex(summary, "^ranks +skipped .* this NCCL takes one rank a GPU")
        self.assertEqual([command[2] for _, *command in commands if "tests" in command[-1]], ["1", "1"])

    def test_two_ranks_train_before_the_tests_share_the_time(self):
        status, said, summary, commands = self.part("ranks", HANGS="test_training")
        self.assertEqual(status, 0, said)
        self.assertEqual(list(self.trained(commands)), ["one", "two", "unmixed"])
        self.assertIn("two ranks: 1000.0 ms a step, 1 tokens/s, MFU 50.0 % of 989.4 TFLOP/s; with NCCL_GRAPH_MIXING_SUPPORT=0: 1000.0 ms", said)
        self.assertRegex(summary, r"^ranks +ok .* two ranks have the losses of one; no test failed\n$")
        tests = [(seconds, command[2], os.path.basename(command[-1])) for seconds, *command in commands[3:]]
        self.assertEqual([test[1:] for test in tests], [(n, name) for n in "241" for name in ("test_nccl", "test_training")])
        for i, (seconds, *_) in enumerate(tests):
            self.assertLessEqual(seconds * (len(tests) - i), 160)
            self.assertGreaterEqual(seconds * (len(tests) - i), 100)
        for n in "241":
            self.assertIn(f"test_training on {n} ranks: 2 of 3 tests ran, ended with 124\nits time ended in Some.Third\n", said)

    def test_what_fails_on_ranks_is_told(self):
        for verdict, tests, environment in (
                ("two ranks have the losses of one", "something failed", {"HANGS": "test_nccl"}),
                ("two ranks have the losses of one", "something failed", {"HANGS": "test_training", "SECOND": "[  FAILED  ] Some.Second (5 ms)"}),
                ("the losses of one and two ranks differ", "something failed", {"OTHERS": "two:other"}),
                ("two ranks do not train", "something failed", {"FAILS": "two"}),
                ("one rank does not train", "something failed", {"FAILS": "one"})):
            status, said, summary, commands = self.part("ranks", **environment)
            self.assertEqual(status, 1, said)
            self.assertRegex(summary, f"^ranks +FAILED .* {verdict}; {tests}\n$")
            self.assertEqual(sum("tests" in command[-1] for _, *command in commands), 6)

    # What a log says of ten failures. The test in which the fake ends, Some.Third, is an eleventh, behind them in the alphabet.
    FAILURES = "\n".join(f"[  FAILED  ] Some.Failure{i} (5 ms)" for i in range(10))

    def test_what_fails_on_ranks_runs_again_alone(self):
        status, said, summary, commands = self.part("ranks", FAILING="test_nccl", SECOND=self.FAILURES)
        self.assertEqual(status, 1, said)
        self.assertRegex(summary, "^ranks +FAILED .* two ranks have the losses of one; something failed\n$")
        found = self.alone(commands)
        self.assertEqual([test[:3] for test in found], [(n, "test_nccl", f"Some.Failure{i}") for n in (2, 4, 1) for i in range(8)])
        tests = [(int(command[2]), os.path.basename(command[3])) for _, *command in commands[3:]]
        order = [key for key, _ in itertools.groupby(tests)]
        self.assertEqual(order, [(n, name) for n in (2, 4, 1) for name in ("test_nccl", "test_training")])
        for i, (ranks, _, test, seconds) in enumerate(found):
            programs = 6 - 2 * (i // 8)  # that share the time, this one included
            self.assertLessEqual(seconds, max(10, 160 / programs / (8 - i % 8)), (ranks, test))
            self.assertGreaterEqual(seconds, 5, (ranks, test))
            self.assertIn(f"passes alone: test_nccl on {ranks} ranks {test}\n", said)

    def test_a_failure_alone_is_told(self):
        status, said, _, commands = self.part("ranks", FAILING="test_training", FAILING_ALONE="test_training", HANGS="filter=Some.Third",
                                              SECOND="[  FAILED  ] Some.Second/0, where GetParam() = 4 (5 ms)")
        self.assertEqual(status, 1, said)
        found = self.alone(commands)
        self.assertEqual([test[:3] for test in found], [(n, "test_training", test) for n in (2, 4, 1) for test in ("Some.Second/0", "Some.Third")])
        for ranks, program, test, seconds in found:
            self.assertIn(f"DOES NOT END ALONE in {seconds} s: {program} on {ranks} ranks {test}\n" if test == "Some.Third" else
                          f"FAILS ALONE: {program} on {ranks} ranks {test}\nthe reason\n", said)

    def test_no_failure_runs_again_without_time(self):
        text = self.script()
        self.assertEqual(text.count("part ranks 160 "), 1)
        with open(f"{self.tree}/perf/gpu.sh", "w", encoding="utf-8") as file:
            file.write(text.replace("part ranks 160 ", "part ranks 4 "))
        status, said, _, commands = self.part("ranks", FAILING="test_nccl", SECOND="[  FAILED  ] Some.Second (5 ms)")
        self.assertEqual(status, 1, said)
        self.assertFalse(os.path.exists(f"{self.tree}/log.blocking"))
        for ranks in (2, 4, 1):
            for test in ("Some.Second", "Some.Third"):
                self.assertIn(f"no time is left to run it alone: test_nccl on {ranks} ranks {test}\n", said)

    def test_what_fails_of_the_tests_runs_again_alone(self):
        for name in ("exec", "golden_ops", "transformers", "curve", "model"):
            self.program(f"build/gpu/tests/test_{name}", FAKE_TESTS)
        status, said, summary, commands = self.part("tests", FAILING="test_exec", FAILING_ALONE="test_exec", SECOND=self.FAILURES)
        self.assertEqual(status, 1, said)
        # Each log names eleven tests, of which eight run again; 16 processes share the programs' tests.
        self.assertRegex(summary, r"^tests +FAILED .* 128 failures\n$")
        found = collections.Counter((ranks, program) for ranks, program, _, _ in self.alone(commands))
        self.assertEqual(found, {(None, f"test_{name}"): 8 * shards for name, shards in (
            ("kernels", 6), ("exec", 1), ("golden_ops", 3), ("transformers", 1), ("curve", 1), ("model", 4))})
        self.assertEqual(said.count("passes alone: "), 120)
        self.assertIn("passes alone: test_curve Some.Failure0\n", said)
        self.assertEqual(said.count("FAILS ALONE: test_exec Some.Failure"), 8)

    def test_the_profile_lists_the_largest_spans(self):
        status, said, summary, _ = self.part("profile")
        self.assertEqual(status, 0, said)
        self.assertRegex(said, r"\nspan +module .*\nmatmul +layers\.\*\.ffn +1 +1\.00 +100\.0 +1\.000 +1\.000\n")
        self.assertRegex(summary, r"^profile +ok .* all kernels +1\.00 ")

    def test_float8_takes_turns_with_bf16(self):
        status, said, summary, commands = self.part("train")
        self.assertEqual(status, 0, said)
        found = self.trained(commands)
        self.assertEqual(list(found), ["graph_auto", "graph_off", *(f"{kind}.{turn}" for turn in "12" for kind in ("bf16", "rowwise", "tensorwise"))])
        shape = lambda sets: {key: value for key, value in sets.items() if not key.startswith(("precision.float8", "run.dir", "schedule"))}
        for name, (_, sets) in found.items():
            self.assertEqual(shape(sets), shape(found["graph_auto"][1]))
            self.assertEqual(sets.get("precision.float8_scales", "bf16"), name.split(".")[0] if "." in name else "bf16")
        self.assertIn("Float8 rowwise 2.000 times the tokens of bf16, Float8 tensorwise 2.000 times the tokens of bf16", said)

    def test_float8_that_does_not_train_is_a_failure(self):
        status, said, _, _ = self.part("train", FAILS="rowwise.1")
        self.assertEqual(status, 1, said)
        self.assertIn("cuda_graph=off: 1000.0 ms", said)

    def counted(self):
        """The kernels that ncu looks at, each with its benchmark."""
        return re.findall(r"(\w+):(\w+)", re.search(r"(?m)^counted=\((.*)\)$", self.script())[1])

    def have_ncu(self):
        """The dry run's ncu, and benchmarks on a fake device. LAUNCHES: how often each launches its kernel. BESIDE: it launches another instance, too."""
        shutil.copy(os.path.join(ROOT, "tests/support/gpu_tools/ncu"), f"{self.tree}/bin")
        kernels = "".join(f"*' --benchmark_filter=^{name}/'*) kernel=_ZN4weft{len(kernel)}{kernel} ;;\n" for name, kernel in self.counted())
        self.program("build/gpu/perf/bench_kernels", f"""
echo "$*" >>'{self.tree}/benchmarks'
case " $*" in
{kernels}esac
for ((i = 0; i < ${{LAUNCHES:-3}}; ++i)); do echo "${{kernel}}IfEE"; done >>"$FAKECUDA_KERNELS"
[ -z "${{BESIDE:-}}" ] || echo "${{kernel}}ItEE" >>"$FAKECUDA_KERNELS"
echo "the last line"
""")

    def test_ncu_looks_at_five_kernels(self):
        self.have_ncu()
        status, said, summary, _ = self.part("ncu")
        self.assertEqual(status, 0, said)
        self.assertRegex(summary, "^ncu +ok .* 5 of 5 kernels\n$")
        self.assertIn("adamw: Duration 2.29 ms; DRAM Throughput 92.81 %; Registers Per Thread 40 register/thread\n", said)
        with open(f"{self.tree}/benchmarks", encoding="ascii") as file:
            names = re.findall(r"--benchmark_filter=\^(\w+)/8b/bf16 ", file.read())
        self.assertEqual(len(names), 5)
        self.assertEqual(names, [name for name, _ in self.counted()])
        for name, kernel in self.counted():
            self.assertRegex(self.text_of("perf/bench_kernels.cpp"), rf'add(_elementwise)?\("{name}"')
            self.assertRegex(self.text_of("kernels/*.cpp"), rf"(?m)^struct {kernel} {{$")
            # Kernels of CUDA's objects are looked up there by the same word of their names.
            self.assertRegex(self.text_of("tests/device_code.py"), rf'(?m)^    "{kernel}": \(')

    def test_ncu_waits_for_no_limits(self):
        self.have_ncu()
        self.assertEqual(self.part("ncu")[0], 0)
        with open(f"{self.tree}/benchmarks", encoding="ascii") as file:
            runs = file.read().splitlines()
        self.assertEqual(len(runs), 5)
        for run in runs:
            self.assertRegex(run, "^--without_limits ")
        self.assertIn('"--without_limits"', self.text_of("perf/bench_kernels.cpp"))

    def test_a_kernel_that_ncu_does_not_find_is_a_failure(self):
        self.have_ncu()
        status, said, summary, _ = self.part("ncu", LAUNCHES="2")
        self.assertEqual(status, 1, said)
        self.assertRegex(summary, "^ncu +FAILED .* 0 of 5 kernels\n$")
        self.assertIn("adamw: FAILED: ncu ended with 0 and has no report of a third launch of a kernel with 'AdamStep' in its name:\nthe last line\n"
                      "2 launches, 2 of them of kernels whose names match 'AdamStep'\n==WARNING== No kernels were profiled.\n", said)
        status, said, _, _ = self.part("ncu", BESIDE="yes")
        self.assertEqual(status, 1, said)
        self.assertIn("'Join' matches 2 kernels, and is to match one: \n_ZN4weft4JoinIfEE\n_ZN4weft4JoinItEE\n", said)

    def test_kernels_that_ncu_has_no_time_for(self):
        self.have_ncu()
        status, said, summary, _ = self.part("ncu", HANGS="filter=.adamw")
        self.assertEqual(status, 0, said)
        self.assertRegex(said, r"\nadamw: not in its \d+ s; its last line: 3 launches, ")
        self.assertRegex(summary, "^ncu +ok .* 4 of 5 kernels, 1 not in their time\n$")
        status, said, summary, _ = self.part("ncu", HANGS="filter=")
        self.assertEqual(status, 1, said)
        self.assertRegex(summary, "^ncu +FAILED .* 0 of 5 kernels, 5 not in their time\n$")

    def test_in_the_dry_run_every_kernel_has_its_time(self):
        self.have_ncu()
        status, said, _, _ = self.part("ncu", "--dry-run")
        self.assertEqual(status, 0, said)
        with open(f"{self.tree}/benchmarks", encoding="ascii") as file:
            self.assertEqual(len(re.findall(r"=\^\w+/33m/bf16 ", file.read())), 5)
        status, said, summary, _ = self.part("ncu", "--dry-run", HANGS="filter=.adamw")
        self.assertEqual(status, 1, said)
        self.assertRegex(summary, "^ncu +FAILED .* 4 of 5 kernels, 1 not in their time\n$")

    def test_counters_that_are_not_permitted_are_no_failure(self):
        self.program("bin/ncu", "echo '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission'; exit 1")
        status, said, summary, _ = self.part("ncu")
        self.assertEqual(status, 0, said)
        self.assertRegex(summary, "^ncu +skipped .* this machine does not let ncu read counters\n$")
        self.program("bin/ncu", "exit 1")
        self.assertEqual(self.part("ncu")[0], 1)

    def test_the_sanitizer_has_every_group(self):
        shutil.copy(os.path.join(ROOT, "tests/support/gpu_tools/compute-sanitizer"), f"{self.tree}/bin")
        status, said, _, commands = self.part("sanitizer")
        self.assertEqual(status, 0, said)
        filters = [x.removeprefix("--gtest_filter=") for _, *command in commands for x in command if x.startswith("--gtest_filter=")]
        self.assertEqual(len(filters), 6)
        self.assertEqual(filters[::2], filters[1::2])
        tests = [f"{suite}.{test}" for suite, test in re.findall(r"(?m)^TEST\((\w+), (\w+)\)", self.text_of("tests/unit/kernels/*.cpp"))]
        patterns = [pattern for group in filters for pattern in re.split("[:-]", group)]
        for pattern in patterns:
            self.assertTrue(fnmatch.filter(tests, pattern), pattern)
        for test in ("Float8.RowsHaveScalesOfTheirOwn", "Sections.GradientsOfKeysAreAddedUpFromPieces", "Attention.PlacesMakeUpTheWhole",
                     "Attention.CudnnBackwardInPartsAtEachPlaceOfAContext"):
            self.assertIn(test, tests)
            self.assertTrue(any(fnmatch.fnmatch(test, pattern) for pattern in patterns), test)

    def test_the_calls_have_eight_minutes(self):
        head, code = self.script().split("set -uo pipefail", 1)
        told = {name: int(seconds) for name, seconds in re.findall(r"(?m)^#   (\w+)  +(?:.|\n#     )*?\((\d+)\)$", head)}
        limits = {name: int(seconds) for name, seconds in re.findall(r"\bpart (\w+) (\d+) run_", code)}
        self.assertEqual(told, limits)
        self.assertEqual(list(limits), re.search(r"\[ \$# -gt 0 \] \|\| parts=\((.*)\)", code)[1].split())
        calls = [call.split() for call in re.findall(r"`([a-z ]+ [a-z ]+)`", head)]
        self.assertEqual([name for call in calls for name in call], list(limits))
        self.assertEqual(len(calls), 3)
        for call in calls:
            self.assertLessEqual(sum(limits[name] for name in call), 460)

    @staticmethod
    def text_of(pattern):
        texts = []
        for path in sorted(glob.glob(os.path.join(ROOT, pattern))):
            with open(path, encoding="utf-8") as file:
                texts.append(file.read())
        return "\n".join(texts)

    def script(self):
        return self.text_of("perf/gpu.sh")


class PowerTest(unittest.TestCase):
    def test_a_place_has_its_real_name(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(f"{folder}/real")
            os.symlink("real", f"{folder}/link")
            with runs.Place(f"{folder}/link") as place:
                self.assertEqual(place.dir, os.path.realpath(place.dir))
                self.assertTrue(os.path.isdir(place.dir))

    def go(self, calls):
        arguments = argparse.Namespace(seed=1, ignore_syncs=(), states=10, resumes=0)
        with runs.Place() as place, contextlib.redirect_stdout(io.StringIO()) as said:
            with mock.patch.object(power, "traced", lambda _: calls(place)), mock.patch.object(runs, "curve", lambda _: {}), \
                 mock.patch.object(place, "trained", lambda *_: None):
                return power.Power(place, arguments).go(), said.getvalue()

    def test_a_trace_that_shows_nothing_is_a_failure(self):
        name = lambda path: "".join(f"\\x{byte:02x}" for byte in path.encode())
        mkdir = lambda path: (1, f'mkdir("{name(path)}", 0777) = 0')
        good, said = self.go(lambda place: [mkdir("/elsewhere/disk"), mkdir("/elsewhere/disk/runs")])
        self.assertFalse(good)
        self.assertIn("0 calls that change the disk and 0 checkpoints were seen", said)
        good, said = self.go(lambda place: [mkdir(place.path("disk/runs"))])
        self.assertFalse(good)
        self.assertIn("1 calls that change the disk and 0 checkpoints were seen", said)


class MutationsTest(unittest.TestCase):
    ALL = mutations.HOST_MUTATIONS | mutations.DEVICE_MUTATIONS

    def test_every_text_stands_once(self):
        self.assertEqual(len(self.ALL), len(mutations.HOST_MUTATIONS) + len(mutations.DEVICE_MUTATIONS))
        self.assertEqual(mutations.misplaced(self.ALL, ROOT), [])

    def test_a_text_that_is_gone_or_twice_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            for count, text in enumerate(("", "a line", "a line, a line")):
                with open(os.path.join(folder, "file.cpp"), "w", encoding="utf-8") as file:
                    file.write(text)
                lines = mutations.misplaced({"name": mutations.Mutation("", "file.cpp", "a line", "", "")}, folder)
                self.assertEqual(lines, [] if count == 1 else [
                    f"name: file.cpp has 'a line' {count} times (once is right; change the list)"])


if __name__ == "__main__":
    unittest.main()
