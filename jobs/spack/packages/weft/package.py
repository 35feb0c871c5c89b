# Weft for Spack (jobs/README.md#spack). Written without a Spack at hand: nobody has run it yet.
from spack.package import *

try:  # Spack 1.0 and later; before, spack.package has them
    from spack_repo.builtin.build_systems.cmake import CMakePackage, generator
    from spack_repo.builtin.build_systems.cuda import CudaPackage
except ImportError:
    pass


class Weft(CMakePackage, CudaPackage):
    """Fully sharded training of Llama-class transformers from an input deck, with MPI, OpenMP and CUDA."""

    license("Apache-2.0")

    # There is no archive to fetch: `spack dev-build` takes the sources from the folder that it is called in.
    version("0.2.0")

    variant("mkl", default=False, when="~cuda", description="fp32 products by MKL on Intel processors without AMX")
    variant("cudnn", default=True, when="+cuda", description="Attention on tensor cores; needs cudnn_frontend")
    variant(
        "cudnn_frontend",
        default="none",
        values=lambda path: True,
        when="+cuda",
        description="Prefix of the headers of cuDNN's front end, as cmake/get_cudnn_frontend.sh prints it",
    )

    generator("ninja")
    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("ninja", type="build")

    depends_on("mpi@3:")
    depends_on("hdf5~mpi")
    depends_on("onednn cpu_runtime=omp", when="~cuda")
    depends_on("tomlplusplus")
    depends_on("cli11")
    depends_on("fmt")
    depends_on("spdlog")
    depends_on("nlohmann-json")
    depends_on("sentencepiece")
    depends_on("pcre2")
    depends_on("utf8proc")
    depends_on("xxhash")
    depends_on("zlib-api")
    depends_on("googletest", type=("build", "test"))

    depends_on("kokkos@4.7: +openmp +serial cxxstd=20")
    depends_on("kokkos ~cuda ~rocm", when="~cuda")
    depends_on("intel-oneapi-mkl@2021:", when="+mkl")

    with when("+cuda"):
        depends_on("cuda@12:")
        depends_on("nccl@2.19:")
        depends_on("kokkos +cuda +cuda_constexpr +wrapper")
        depends_on("kokkos@4.7.1:", when="^cuda@13:")  # earlier ones are patched by cmake/get_kokkos.sh
        depends_on("cudnn@9:", when="+cudnn")
        for arch in CudaPackage.cuda_arch_values:
            depends_on(f"kokkos cuda_arch={arch}", when=f"cuda_arch={arch}")

    conflicts("%gcc@:11", msg="Weft is C++20: GCC 12 or later")
    conflicts("cuda_arch=none", when="+cuda", msg="say for which GPU: cuda_arch=90 is Hopper")

    def cmake_args(self):
        args = [
            self.define_from_variant("WEFT_CUDA", "cuda"),
            self.define("WEFT_MKL", "ON" if self.spec.satisfies("+mkl") else "OFF"),
            self.define("WEFT_TESTS", self.run_tests),
            self.define("WEFT_ARCH", ""),  # Spack's compiler wrapper names the target
        ]
        if self.spec.satisfies("+mkl"):
            args.append(self.define("MKL_ROOT", self.spec["intel-oneapi-mkl"].prefix.mkl.latest))
        if self.spec.satisfies("+cudnn") and not self.spec.satisfies("cudnn_frontend=none"):
            args.append(self.define("cudnn_frontend_ROOT", self.spec.variants["cudnn_frontend"].value))
        return args
