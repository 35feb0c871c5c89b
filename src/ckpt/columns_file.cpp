#include "ckpt/columns_file.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/check.hpp"
#include "ckpt/hdf5.hpp"

namespace weft::ckpt {
namespace {

using namespace detail;

constexpr std::int64_t header_bytes = 1 << 16;

void write(hid_t file, const std::string& name, hid_t stored, hid_t given, std::size_t rows,
           const void* values) {
  const hsize_t extent = rows;
  const Hid space(CHECK_HDF5(name, H5Screate_simple(1, &extent, nullptr)));
  const Hid set(
      CHECK_HDF5(name, H5Dcreate2(file, name.c_str(), stored, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)));
  if (rows > 0) CHECK_HDF5(name, H5Dwrite(set, given, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
}

struct Writer {
  hid_t file;
  const std::string& name;

  void operator()(const std::vector<double>& values) const {
    write(file, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, values.size(), values.data());
  }
  void operator()(const std::vector<std::string>& values) const {
    std::vector<const char*> texts;
    for (const std::string& value : values) texts.push_back(value.c_str());
    const Hid type(CHECK_HDF5(name, H5Tcopy(H5T_C_S1)));
    CHECK_HDF5(name, H5Tset_size(type, H5T_VARIABLE));
    CHECK_HDF5(name, H5Tset_cset(type, H5T_CSET_UTF8));
    write(file, name, type, type, texts.size(), texts.data());
  }
};

}  // namespace

void write_columns(const std::string& path, const std::vector<ColumnData>& columns) {
  const std::string temporary = path + ".tmp";
  try {
    io::File out(temporary, io::File::Open::create);
    {
      const auto lock = lock_hdf5();
      ScratchFile scratch(header_bytes, 1);
      for (const ColumnData& column : columns) std::visit(Writer{scratch.id(), column.name}, column.values);
      scratch.finish(out);
    }
    out.sync();
    out.close();
    WEFT_SYSTEM(std::rename(temporary.c_str(), path.c_str()) == 0,
                "cannot rename {} to {} ({}); see to its file system", temporary, path, std::strerror(errno));
  } catch (...) {
    std::remove(temporary.c_str());  // the error that is on its way says more than one of this
    throw;
  }
}

}  // namespace weft::ckpt
