#!/usr/bin/env python3
"""Makes many small changes of Weft's sources, one at a time, and tells which of them no test notices:

  tests/mutate.py [--count 200] [--seed 1] [--folder FOLDER]... [--workers 2] [--survivors FILE] [--goal PERCENT] [--keep]

Where: sources and headers of comm and of ten folders of src (FOLDERS), without what only a build with CUDA has. What: another comparison, another
operator of arithmetic or logic, a number that is one more, a condition that is negated, a statement that is left out; at random, from each folder in
proportion to its places.
All changes are compiled at once, each behind a question whether it is the one that WEFT_MUTANT names, in a copy of the tree in build/mutants; what
the compiler refuses is taken out. Each test runs once without a change, and notes which questions it asked. Then each change runs alone, against
those of its folder's tests that asked for it, the quick ones first, until one fails, passes again without the change, and fails once more with it: a
test that fails now and then catches nothing. More than five times its usual time is a failure, too. A change that no test asked for survives. Long
tests are dealt out to several that run alone.

Ends with a table; survivors stand in build/survivors.txt. Exit code 1: fewer were caught than --goal asks for. Hours on two cores; --minutes ends
it earlier, with those changes that were judged by then, which are a fair part of all. --keep begins with the tree and the build of the call before,
and goes on with its verdicts where the sources and the draw are the same; so a run of hours may be made in parts.
Changes that were made by hand, each with the test that must see it, has perf/mutations.py.
"""
import argparse, collections, concurrent.futures, hashlib, itertools, json, os, random, re, shutil, signal, subprocess, sys, tempfile, threading, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TREE = os.path.join(ROOT, "build/mutants")
BUILD = os.path.join(TREE, "build/cpu")
TRAINING = ["mpi.training.np2", "mpi.training.np4"]
COMMANDS = ["restart.commands.0", "restart.commands.1", "restart.commands.2"]
STARTS = ["restart.starts.0", "restart.starts.1"]
SURVIVAL = ["restart.survival.0", "restart.survival.1", "restart.survival.2"]
HANGS = ["restart.hangs.0", "restart.hangs.1", "restart.hangs.2"]
# Tests of more than a minute, and the number of parts that each is dealt out to.
PARTS = {"mpi.training.np2": 8, "mpi.training.np4": 12}
# The folders, and the tests of each.
FOLDERS = {
    "src/passes": ["unit.graph", "unit.pipe", "unit.search", "unit.exec", "unit.model", *TRAINING],
    "src/plan": ["unit.graph", "unit.search", "unit.exec", "unit.run_parts", *TRAINING, *COMMANDS],
    "comm": ["unit.pace", "unit.recorder", "unit.shared_segment", "mpi.comm_fake", "mpi.comm.np2", "mpi.comm.np3", "mpi.comm.np4", "mpi.training.np2", "mpi.watchdog.np3", *HANGS],
    "src/ckpt": ["unit.ckpt", "unit.hf", "mpi.training.np2", *STARTS, *SURVIVAL, "restart.trial_damage", "restart.trial_power", "restart.trial_faults_of_saves"],
    "src/exec": ["unit.exec", "unit.trace", "unit.model", *TRAINING, *COMMANDS],
    "src/train": ["unit.run_parts", "unit.model", *TRAINING, *COMMANDS, *STARTS, *SURVIVAL, *HANGS],
    "src/runtime": ["unit.run_parts", "unit.model", *TRAINING, *COMMANDS, *STARTS],
    "src/data": ["unit.data", "unit.run_parts", "unit.model", *COMMANDS, *STARTS],
    "src/hf": ["unit.hf", "golden.hugging_face", "mpi.training.np2", *COMMANDS],
    "src/io": ["unit.base", "unit.ckpt", "unit.hf", "unit.data", "unit.job", *COMMANDS, *STARTS, *SURVIVAL, "restart.trial_power", "restart.trial_faults_of_saves"],
    "src/job": ["unit.job", *COMMANDS, *STARTS, *SURVIVAL, *HANGS],
}
PROGRAMS = ["weft", "weft_faults", "test_graph", "test_pipe", "test_search", "test_exec", "test_trace", "test_model", "test_run_parts", "test_comm", "test_comm_fake", "test_pace", "test_recorder", "test_shared_segment",
            "test_ckpt", "test_hf", "test_hugging_face", "test_base", "test_data", "test_job", "test_training", "test_watchdog", "test_commands", "test_starts", "test_survival", "test_hangs"]
OTHER = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+": "-", "-": "+", "*": "+", "/": "*", "%": "/"}
OPERATOR = re.compile(r" (<=|>=|==|!=|&&|\|\||[-<>+*/%]) ")
NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.'])")
MOST = 65536  # numbers
# Answers whether the running mutant has this number, and notes the question in a file of MOST bytes that all processes of a test share.
QUESTION = """
#include <fcntl.h>
#include <sys/mman.h>
#include <cstdlib>
bool weft_mutant(int number) {
  static const int chosen = std::getenv("WEFT_MUTANT") ? std::atoi(std::getenv("WEFT_MUTANT")) : 0;
  static char* const asked = [] {
    const char* const name = std::getenv("WEFT_MUTANTS_ASKED");
    const int file = name && *name ? ::open(name, O_RDWR | O_CLOEXEC) : -1;
    void* const map = file < 0 ? MAP_FAILED : ::mmap(nullptr, %d, PROT_WRITE, MAP_SHARED, file, 0);
    return map == MAP_FAILED ? nullptr : static_cast<char*>(map);
  }();
  if (asked) asked[number] = 1;
  return number == chosen;
}
""" % MOST
# A change at a line of a file; `make` gives the new line for the mutant's number.
Mutant = collections.namedtuple("Mutant", "folder file line what make")


def changes(expression):
    """What an expression may become, each with a name."""
    if '"' in expression or "'" in expression or "[" in expression and "](" in expression:
        return
    for found in OPERATOR.finditer(expression):
        old = found[1]
        yield f"{old} becomes {OTHER[old]}", expression[:found.start(1)] + OTHER[old] + expression[found.end(1):]
    for found in NUMBER.finditer(expression):
        yield f"{found[0]} becomes {int(found[0]) + 1}", expression[:found.start()] + str(int(found[0]) + 1) + expression[found.end():]


def depths(text):
    """How many brackets are open behind each character."""
    return list(itertools.accumulate((c in "([{") - (c in ")]}") for c in text))


def balanced(text):
    open_ones = [0, *depths(text)]
    return min(open_ones) == 0 and open_ones[-1] == 0


def has_loose_comma(text):
    """Whether a comma stands outside of brackets: "a = 0, b = 1"."""
    return any(c == "," and depth == 0 for c, depth in zip(text, depths(text)))


def places(line, before):
    """The changes of a line: pairs of a name and a function from the mutant's number to the new line."""
    indent, code = re.match(r"(\s*)(.*)", line.split("  // ")[0].rstrip()).groups()
    # Only whole statements: the line before ends one, or opens a block. A constant of the compiler's cannot ask which mutant runs.
    if not code or code.startswith(("//", "#", "constexpr", "static constexpr", "inline constexpr")) or not re.search(r"[;{})]$|^$|else$", re.sub(r"\s*//.*", "", before).rstrip()):
        return
    chosen = lambda new, old: lambda n: f"(weft_mutant({n}) ? ({new}) : ({old}))"
    if found := re.fullmatch(r"((?:\} else )?if |while )\((.*)\)( \{| [^{}]*;)?", code):
        head, condition, rest = found.groups()
        if balanced(condition) and not re.search(r";| = |constexpr", condition):
            for what, new in [*changes(condition), ("the condition is negated", f"!({condition})")]:
                yield what, lambda n, f=chosen(new, condition): f"{indent}{head}({f(n)}){rest or ''}"
    elif found := re.fullmatch(r"(for \([^;]*; )([^;]*)(;.*)", code):
        head, condition, rest = found.groups()
        for what, new in changes(condition):
            yield what, lambda n, f=chosen(new, condition): f"{indent}{head}{f(n)}{rest}"
    elif found := re.fullmatch(r"(return )([^{};]+);", code):
        for what, new in changes(found[2]):
            yield what, lambda n, f=chosen(new, found[2]): f"{indent}return {f(n)};"
    elif found := re.fullmatch(r"([^=(){};]+ [-+*|&]?= )([^{};]+);", code):
        head, value = found.groups()
        if balanced(value) and not has_loose_comma(value):
            for what, new in changes(value):
                yield what, lambda n, f=chosen(new, value): f"{indent}{head}{f(n)};"
        if re.fullmatch(r"[\w.\->\[\]:]+ [-+*|&]?= ", head):
            yield "left out", lambda n: f"{indent}{{ if (!weft_mutant({n})) {code} }}"
    elif re.fullmatch(r"[A-Za-z_][\w.:\->\[\]]*\(.*\);|(\+\+|--)[\w.\->\[\]]+;", code) and balanced(code) and not (
            code.startswith(("static_assert", "return", "throw", "WEFT_")) or re.match(r"[A-Z]\w*[a-z]\w*\(", code)):  # a constructor's declaration
        yield "left out", lambda n: f"{indent}{{ if (!weft_mutant({n})) {code} }}"


def files_of(*folders):
    """The tree's files that git tracks or would track, below some folders or all."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *folders], cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted(f for f in listed.stdout.split("\0") if f and os.path.exists(os.path.join(ROOT, f)))


def sources(folder):
    return [f for f in files_of(folder) if f.endswith((".cpp", ".hpp")) and not f.endswith("_cuda.cpp") and "/nccl/" not in f]


def is_member(lines, i):
    """Whether a line declares a member of a class: it stands in what `struct`, `class` or `union` opened, in the layout of clang-format."""
    indent = len(lines[i]) - len(lines[i].lstrip())
    opened = next((line for line in reversed(lines[:i]) if line.strip() and len(line) - len(line.lstrip()) < indent and not line.lstrip().startswith(("public:", "private:", "protected:", "//", "#"))), "")
    return bool(re.match(r"\s*(struct|class|union)\b.*\{$", opened))


def find(folder):
    """All places of a folder: file, line and its changes. Initial values of members are left out, for most are set before anything reads them."""
    for file in sources(folder):
        with open(os.path.join(ROOT, file)) as text:
            lines = text.read().split("\n")
        for i, line in enumerate(lines):
            if (found := list(places(line, lines[i - 1] if i else ""))) and not is_member(lines, i):
                yield file, i, found


def draw(a):
    drawn, lot = [], random.Random(a.seed)
    all_places = {folder: list(find(folder)) for folder in a.folder}
    total = sum(map(len, all_places.values()))
    for folder, found in all_places.items():
        for file, line, options in lot.sample(found, min(len(found), round(a.count * len(found) / total))):
            what, make = lot.choice(options)
            drawn.append(Mutant(folder, file, line, what, make))
    lot.shuffle(drawn)  # so that the first verdicts of a run that is cut speak for all folders
    return drawn, total


def call(command, **more):
    return subprocess.run(command, cwd=TREE, text=True, errors="replace", capture_output=True, stdin=subprocess.DEVNULL, **more)


def write(drawn):
    """The tree's files with the mutants in them."""
    by_file = collections.defaultdict(list)
    for number, mutant in drawn.items():
        by_file[mutant.file].append((number, mutant))
    for file in {f for folder in FOLDERS for f in sources(folder)}:
        with open(os.path.join(ROOT, file)) as text:
            lines = text.read().split("\n")
        for number, mutant in by_file[file]:
            lines[mutant.line] = mutant.make(number)
        new, path = "\n".join(lines), os.path.join(TREE, file)
        with open(path) as old:
            if old.read() == new:
                continue
        with open(path, "w") as out:
            out.write(new)


def build(drawn):
    """Compiles, and takes out what the compiler refuses."""
    while True:
        write(drawn)
        done = call(["ninja", "-C", BUILD, "-k", "0", *PROGRAMS])
        if done.returncode == 0:
            return
        at = lambda what: set(re.findall(re.escape(TREE) + r"/((?:src|comm)/[\w./]+\.[ch]pp):(\d+):\d+: " + what, done.stdout))
        bad = []
        for refused in at("(?:fatal )?error"), at("note"):
            bad = bad or [n for n, m in drawn.items() if (m.file, str(m.line + 1)) in refused]
        if not bad:  # the error shows where a changed constant is used, or a class whose members' defaults were changed
            failed = set(re.findall(r"/((?:src|comm)/[\w./]+\.[ch]pp):\d+", done.stdout))
            bad = [n for n, m in drawn.items() if m.file in failed]
        if not bad:
            sys.exit("mutate.py: the build fails without a mutant's fault:\n" + done.stdout[-4000:])
        for n in bad:
            del drawn[n]


def commands():
    """Each test of CTest: its parts, and of each its command, environment and folder."""
    tests = json.loads(call(["ctest", "--test-dir", BUILD, "--show-only=json-v1"], check=True).stdout)["tests"]
    found = {}
    for test in tests:
        properties = {p["name"]: p["value"] for p in test["properties"]}
        environment = dict(v.split("=", 1) for v in properties.get("ENVIRONMENT", []))
        if "command" not in test:  # its program is not built
            continue
        parts = PARTS.get(test["name"], 1)
        found[test["name"]] = {}
        for part in range(parts):
            name, shard = test["name"], {}
            if parts > 1:
                name, shard = f"{name} {part + 1}/{parts}", {"GTEST_TOTAL_SHARDS": str(parts), "GTEST_SHARD_INDEX": str(part)}
            found[test["name"]][name] = (test["command"], environment | shard, properties["WORKING_DIRECTORY"])
    return found


def run_test(test, number, seconds, asked=""):
    """Whether the test passes. Jobs of Open MPI beside each other must not share a directory."""
    command, environment, folder = test
    session = f"/tmp/weft_mutants_{threading.get_native_id()}"
    process = subprocess.Popen(command, cwd=folder, start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env={**os.environ, **environment, "OMPI_MCA_orte_tmpdir_base": session, "WEFT_MUTANT": str(number), "WEFT_MUTANTS_ASKED": asked,
                                    "GTEST_FAIL_FAST": "0" if "mpi" in os.path.basename(command[0]) else "1"})
    try:
        return process.wait(timeout=seconds) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        for kind in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, kind)
                time.sleep(1 if kind == signal.SIGTERM and process.poll() is None else 0)
            except ProcessLookupError:
                break
        process.wait()


def run_unchanged(name, test):
    """The seconds of a test without a change, and the numbers that it asked for."""
    with tempfile.NamedTemporaryFile() as asked:
        asked.write(bytes(MOST))
        asked.flush()
        begin = time.monotonic()
        if not run_test(test, 0, 900, asked.name):
            sys.exit(f"mutate.py: {name} fails without a mutant")
        seconds = time.monotonic() - begin
        asked.seek(0)
        return seconds, [n for n, byte in enumerate(asked.read()) if byte]


class Kept:
    """What has been found out, a line of JSON each, in a file beside the build: for the next call with --keep."""

    def __init__(self, drawn, a):
        sources_now = hashlib.sha256(repr([(m.file, m.line, m.what) for m in drawn.values()] + [a.seed, a.folder]).encode())
        for file in {f: None for folder in FOLDERS for f in sources(folder)}:
            with open(os.path.join(ROOT, file), "rb") as text:
                sources_now.update(text.read())
        self.file, self.tests, self.verdicts = os.path.join(TREE, "verdicts.jsonl"), {}, {}
        lines = []
        if os.path.exists(self.file):
            with open(self.file) as text:
                lines = [json.loads(line) for line in text if line.endswith("\n")]  # the last may have been cut
        if lines and lines[0] == sources_now.hexdigest():
            for kind, key, *found in lines[1:]:
                (self.tests if kind == "test" else self.verdicts)[key] = found
        else:
            lines = [sources_now.hexdigest()]
        with open(self.file, "w") as text:
            text.writelines(json.dumps(line) + "\n" for line in lines)

    def add(self, *found):
        with open(self.file, "a") as text:
            text.write(json.dumps(found) + "\n")


def set_up():
    """A copy of the tree, configured, in which WEFT_MUTANT chooses a mutant."""
    shutil.rmtree(TREE, ignore_errors=True)
    os.makedirs(TREE)
    for file in files_of():
        os.makedirs(os.path.dirname(os.path.join(TREE, file)), exist_ok=True)
        shutil.copy2(os.path.join(ROOT, file), os.path.join(TREE, file))
    with open(os.path.join(TREE, "mutant.hpp"), "w") as header:
        header.write("#pragma once\nbool weft_mutant(int number);\n")
    with open(os.path.join(TREE, "src/base/text.cpp"), "a") as base:
        base.write(QUESTION)
    kokkos = call(["cmake/get_kokkos.sh"], check=True).stdout.strip()
    launcher = ["-D", "CMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    configured = call(["cmake", "--preset", "cpu", "-D", f"Kokkos_ROOT={kokkos}", "-D", f"CMAKE_CXX_FLAGS=-include {TREE}/mutant.hpp -w", *launcher])
    if configured.returncode != 0:
        sys.exit(f"mutate.py: {configured.stderr[-2000:]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", action="append", choices=FOLDERS)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--survivors", help="a file for the list of survivors", default=os.path.join(ROOT, "build/survivors.txt"))
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--goal", type=float, default=0, metavar="PERCENT")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    a = parser.parse_args()
    end = time.monotonic() + 60 * a.minutes
    os.environ |= {"CCACHE_BASEDIR": TREE, "CCACHE_NOHASHDIR": "1", "CCACHE_SLOPPINESS": "pch_defines,time_macros"}  # as jobs/setup.sh
    a.folder = a.folder or list(FOLDERS)
    mutants, total = draw(a)
    drawn = dict(enumerate(mutants, 1))
    print(f"{len(drawn)} of {total} places", flush=True)
    if not (a.keep and os.path.exists(BUILD)):
        set_up()
    kept = Kept(drawn, a)
    build(drawn)
    print(f"{len(drawn)} of them compile, {len(kept.verdicts)} of them are judged", flush=True)
    all_tests, tests, usual, asked = commands(), {}, {}, {}
    for name in dict.fromkeys(t for folder in a.folder for t in FOLDERS[folder]):
        tests |= all_tests[name]
        for part in all_tests[name]:
            if part not in kept.tests:
                kept.tests[part] = run_unchanged(part, tests[part])
                kept.add("test", part, *kept.tests[part])
            usual[part], asked[part] = kept.tests[part]
            print(f"{part:28s} {usual[part]:6.1f} s, asked for {len(asked[part])}", flush=True)

    def judge(item):
        number, m = item
        if number in kept.verdicts:
            return m.folder, *kept.verdicts[number]
        if time.monotonic() > end:
            return None
        limit = lambda t: 5 * usual[t] + 20
        able = sorted((part for t in FOLDERS[m.folder] for part in all_tests[t] if number in asked[part]), key=usual.get)
        passes = lambda test, number: run_test(tests[test], number, limit(test))
        by = next((t for t in able if not passes(t, number) and passes(t, 0) and not passes(t, number)), None)
        with open(os.path.join(ROOT, m.file)) as text:
            said = f"{m.file}:{m.line + 1}: {m.what}: {text.read().splitlines()[m.line].strip()}"
        print(f"{'caught by ' + by if by else 'SURVIVES' if able else 'NOT RUN':28s} {said}", flush=True)
        kept.add("change", number, by, said)
        return m.folder, by, said

    with concurrent.futures.ThreadPoolExecutor(a.workers) as pool:
        found = [verdict for verdict in pool.map(judge, drawn.items()) if verdict]
    print(f"{len(found)} of {len(drawn)} were judged")
    with open(a.survivors, "w") as out:
        out.writelines(text + "\n" for _, by, text in found if not by)
    print("\n| folder | mutants | caught | share |\n|---|---:|---:|---:|")
    for folder in [*a.folder, "all"]:
        of_folder = [by for f, by, _ in found if folder in (f, "all")]
        caught = sum(by is not None for by in of_folder)
        print(f"| {folder} | {len(of_folder)} | {caught} | {100 * caught / max(1, len(of_folder)):.0f} % |")
    sys.exit(caught < a.goal / 100 * len(found))


main()
