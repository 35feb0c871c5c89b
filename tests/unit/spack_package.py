#!/usr/bin/env python3
"""Reads jobs/spack/packages/weft/package.py where there is no Spack, and holds it to the table of jobs/setup.sh and
to CMake's options and version. What Spack makes of it is not tested."""
import collections, contextlib, os, re, sys, types, unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# What the package calls otherwise, or does not ask for: compilers are Spack's, and pip and make serve the scripts.
OTHERWISE = {"gcc": "cxx", "openmpi": "mpi", "zlib": "zlib-api", "gmake": None, "py-pip": None}


def read(path):
    with open(os.path.join(ROOT, path)) as file:
        return file.read()


class Package:
    """Spack's base classes: what a package defines, as it defines it."""

    run_tests, cuda_arch_values = False, ("80", "90")

    def define(self, name, value):
        return name

    def define_from_variant(self, name, variant):
        return name


class Everything:
    """A spec with all variants."""

    variants = collections.defaultdict(lambda: types.SimpleNamespace(value="/somewhere"))

    def satisfies(self, text):
        return not text.endswith("=none")

    def __getitem__(self, name):
        mkl = types.SimpleNamespace(latest="/somewhere")
        return types.SimpleNamespace(prefix=types.SimpleNamespace(mkl=mkl))


def load():
    """The class Weft, and what was asked of Spack: lists of arguments by the directive's name."""
    said = collections.defaultdict(list)
    spack = types.ModuleType("spack.package")
    for name in ("license", "version", "variant", "generator", "depends_on", "conflicts"):
        setattr(spack, name, lambda *words, name=name, **more: said[name].append((words, more)))
    spack.when = lambda spec: contextlib.nullcontext()
    spack.CMakePackage, spack.CudaPackage = Package, type("CudaPackage", (), {"cuda_arch_values": ("80", "90")})
    sys.modules.update({"spack": types.ModuleType("spack"), "spack.package": spack})
    space = {}
    exec(compile(read("jobs/spack/packages/weft/package.py"), "package.py", "exec"), space)
    return space["Weft"], said


class SpackPackage(unittest.TestCase):
    def setUp(self):
        self.weft, self.said = load()

    def test_asks_for_what_the_setup_script_asks_for(self):
        asked = {re.match(r"[\w-]+", words[0])[0] for words, _ in self.said["depends_on"]}
        table = read("jobs/setup.sh").split("<<'TABLE'\n")[1].split("\nTABLE")[0]
        specs = {line.split("|")[2].split("~")[0].split()[0] for line in table.splitlines() if line.split("|")[2]}
        self.assertGreater(len(specs), 10)
        wanted = {OTHERWISE.get(spec, spec) for spec in specs} - {None}
        self.assertEqual(wanted - asked, set())
        self.assertIn("kokkos", asked)

    def test_sets_what_cmake_knows(self):
        package = self.weft()
        package.spec = Everything()
        options = package.cmake_args()
        self.assertGreater(len(options), 4)
        text = read("CMakeLists.txt") + read("cmake/weft_mkl.cmake") + read("cmake/weft_cudnn.cmake")
        for option in options:
            self.assertRegex(text, rf"\b{option}\b")

    def test_has_the_version_of_cmake(self):
        version = re.search(r"project\(weft VERSION (\S+)", read("CMakeLists.txt"))[1]
        self.assertIn(((version,), {}), self.said["version"])
        self.assertIn(f"dev-build weft@{version} ", read("jobs/README.md"))


if __name__ == "__main__":
    unittest.main()
