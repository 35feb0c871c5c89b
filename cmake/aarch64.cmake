# Builds for aarch64 on another processor, against the Debian in WEFT_SYSROOT; qemu-user runs the tests (tests/builds.sh aarch64).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_SYSROOT "$ENV{WEFT_SYSROOT}")
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR "qemu-aarch64;-L;${CMAKE_SYSROOT}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)  # Kokkos is not in the system's root

# Compiler wrappers of MPI and HDF5 would run on that processor.
set(libraries "${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu")
set(MPI_SKIP_COMPILER_WRAPPER TRUE)
set(CMAKE_DISABLE_FIND_PACKAGE_PkgConfig TRUE)
set(MPI_CXX_LIB_NAMES mpi)
set(MPI_mpi_LIBRARY "${libraries}/openmpi/lib/libmpi.so")
set(MPI_CXX_HEADER_DIR "${libraries}/openmpi/include")
set(HDF5_ROOT "${libraries}/hdf5/serial")
