// cuDNN: its graphs computed operation by operation, from the dimensions and strides that their tensors
// declare. Descriptors are kept as they are set, and read when a plan runs.
//
// Operations, modes and types that Weft's graphs do not have end the process. Attributes that no operation
// here reads are kept and ignored.
#include <cudnn.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "fakecuda/device.hpp"

namespace {

using fakecuda::fail;

struct Descriptor {
  cudnnBackendDescriptorType_t type;
  std::map<int, std::vector<std::byte>> values;  ///< what is no descriptor
  std::map<int, std::vector<std::shared_ptr<const Descriptor>>> descriptors;
  bool finalized = false;

  bool has(int attribute) const { return values.count(attribute) > 0 || descriptors.count(attribute) > 0; }
  template <class T>
  std::vector<T> all(int attribute) const {
    const auto found = values.find(attribute);
    if (found == values.end()) return {};
    std::vector<T> list(found->second.size() / sizeof(T));
    std::memcpy(list.data(), found->second.data(), list.size() * sizeof(T));
    return list;
  }
  template <class T>
  T one(int attribute, T otherwise) const {
    const auto found = values.find(attribute);
    if (found != values.end() && found->second.size() >= sizeof(T))
      std::memcpy(&otherwise, found->second.data(), sizeof(T));
    return otherwise;
  }
  const Descriptor& part(int attribute) const {
    const auto found = descriptors.find(attribute);
    if (found == descriptors.end() || found->second.size() != 1)
      fail("cuDNN: attribute " + std::to_string(attribute) + " is not one descriptor");
    return *found->second.front();
  }
};
/// What a cudnnBackendDescriptor_t points to.
using Owned = std::shared_ptr<Descriptor>;
Owned& owned(cudnnBackendDescriptor_t descriptor) {
  return *static_cast<Owned*>(descriptor);
}

std::size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE: return 8;
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR: return 1;
    case CUDNN_TYPE_FRACTION: return 16;
    default: return 4;  // enumerations, 32-bit numbers
  }
}

struct Handle {
  int device;
  cudaStream_t stream = nullptr;
};

/// A tensor of four dimensions, as it was declared.
struct Declared {
  explicit Declared(const Descriptor& d)
      : id(d.one<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID, -1)),
        dims(d.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS)),
        strides(d.all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES)),
        type(d.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT)),
        alignment(d.one<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 16)),
        is_virtual(d.one<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL, false)),
        by_value(d.one<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE, false)) {
    dims.insert(dims.begin(), 4 - dims.size(), 1);
    strides.insert(strides.begin(), 4 - strides.size(), 0);
  }
  std::size_t elements() const { return static_cast<std::size_t>(dims[0] * dims[1] * dims[2] * dims[3]); }
  /// Elements from the first to the last.
  std::int64_t extent() const {
    std::int64_t last = 0;
    for (std::size_t d = 0; d < 4; ++d) last += (dims[d] - 1) * strides[d];
    return last + 1;
  }
  std::int64_t id;
  std::vector<std::int64_t> dims, strides;
  cudnnDataType_t type;
  std::int64_t alignment;
  bool is_virtual, by_value;
};

std::size_t size_of(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_FLOAT:
    case CUDNN_DATA_INT32: return 4;
    case CUDNN_DATA_BFLOAT16: return 2;
    case CUDNN_DATA_BOOLEAN: return 1;
    default: fail("cuDNN: data type " + std::to_string(type) + " is used by no graph of Weft");
  }
}

float rounded(float x, cudnnDataType_t type) {
  return type == CUDNN_DATA_BFLOAT16 ? weft::to_float(weft::to_bf16(x)) : x;
}

float load(const std::byte* p, cudnnDataType_t type, std::int64_t i) {
  switch (type) {
    case CUDNN_DATA_FLOAT: return reinterpret_cast<const float*>(p)[i];
    case CUDNN_DATA_INT32: return static_cast<float>(reinterpret_cast<const std::int32_t*>(p)[i]);
    case CUDNN_DATA_BFLOAT16: return weft::to_float(reinterpret_cast<const weft::bf16*>(p)[i]);
    default: fail("cuDNN: data type " + std::to_string(type) + " is used by no graph of Weft");
  }
}
void store(std::byte* p, cudnnDataType_t type, std::int64_t i, float x) {
  if (type == CUDNN_DATA_FLOAT)
    reinterpret_cast<float*>(p)[i] = x;
  else
    reinterpret_cast<weft::bf16*>(p)[i] = weft::to_bf16(x);
}

/// Calls f(index, number of the element) for all indices in row-major order.
template <class F>
void for_each(const std::vector<std::int64_t>& dims, const F& f) {
  std::size_t n = 0;
  std::int64_t at[4];
  for (at[0] = 0; at[0] < dims[0]; ++at[0])
    for (at[1] = 0; at[1] < dims[1]; ++at[1])
      for (at[2] = 0; at[2] < dims[2]; ++at[2])
        for (at[3] = 0; at[3] < dims[3]; ++at[3]) f(at, n++);
}
std::int64_t offset(const std::int64_t (&at)[4], const std::vector<std::int64_t>& strides) {
  return at[0] * strides[0] + at[1] * strides[1] + at[2] * strides[2] + at[3] * strides[3];
}

using Operations = std::vector<std::shared_ptr<const Descriptor>>;

const Operations& operations_of(const Descriptor& plan) {
  const Descriptor& engine =
      plan.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).part(CUDNN_ATTR_ENGINECFG_ENGINE);
  return engine.part(CUDNN_ATTR_ENGINE_OPERATION_GRAPH).descriptors.at(CUDNN_ATTR_OPERATIONGRAPH_OPS);
}

/// Whether a graph has a product that is too large to be computed here.
bool is_too_large(const Operations& operations) {
  return std::any_of(operations.begin(), operations.end(), [](const auto& operation) {
    if (operation->type != CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) return false;
    const Declared a(operation->part(CUDNN_ATTR_OPERATION_MATMUL_ADESC)),
        c(operation->part(CUDNN_ATTR_OPERATION_MATMUL_CDESC));
    return static_cast<double>(c.elements()) * static_cast<double>(a.dims[3]) > fakecuda::largest_product();
  });
}

/// The run of a plan: the values of its tensors by their ids, row-major.
class Run {
 public:
  Run(const Descriptor& plan, const Descriptor& pack) : operations_(operations_of(plan)) {
    const auto ids = pack.all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const auto pointers = pack.all<std::byte*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    for (std::size_t i = 0; i < ids.size(); ++i) memory_[ids[i]] = pointers[i];
    for (const auto& operation : operations_)
      for (const auto& [name, list] : operation->descriptors)
        for (const auto& part : list)
          if (part->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR) check(Declared(*part));
  }

  void compute() {
    if (is_too_large(operations_)) return leave_nans();
    for (const auto& operation : operations_) switch (operation->type) {
        case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: multiply(*operation); break;
        case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: pointwise(*operation); break;
        case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: reduce(*operation); break;
        case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR: reshape(*operation); break;
        default: fail("cuDNN: operation " + std::to_string(operation->type) + " is in no graph of Weft");
      }
  }

 private:
  struct Values {
    std::vector<std::int64_t> dims;
    std::vector<float> list;
    /// The value at an index of a tensor that it is spread over: a dimension of 1 is repeated, and a head of
    /// keys serves several heads of queries.
    float at(const std::int64_t (&index)[4], const std::vector<std::int64_t>& whole) const {
      std::int64_t n = 0;
      for (std::size_t d = 0; d < 4; ++d) n = n * dims[d] + index[d] / (whole[d] / dims[d]);
      return list[static_cast<std::size_t>(n)];
    }
  };

  /// What a kernel would be given: memory of the device, aligned as it was declared.
  void check(const Declared& t) {
    if (t.is_virtual) return;
    const auto found = memory_.find(t.id);
    if (found == memory_.end()) fail("cuDNN: tensor " + std::to_string(t.id) + " has no memory");
    if (t.by_value) {
      constants_[t.id] =
          load(found->second, t.type, 0);  // the host may change it as soon as the call returns
      return;
    }
    const std::string name = "tensor " + std::to_string(t.id);
    fakecuda::refuse_host_memory("cudnnBackendExecute", name.c_str(), found->second,
                                 static_cast<std::size_t>(t.extent()) * size_of(t.type));
    if (reinterpret_cast<std::uintptr_t>(found->second) % static_cast<std::uintptr_t>(t.alignment) != 0)
      fail("cuDNN: " + name + " of " + std::to_string(t.elements()) + " elements of type " +
           std::to_string(t.type) + " is not aligned to the " + std::to_string(t.alignment) +
           " bytes that it was declared with");
  }

  void leave_nans() {
    for (const auto& operation : operations_)
      for (const int result : {CUDNN_ATTR_OPERATION_MATMUL_CDESC, CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
                               CUDNN_ATTR_OPERATION_REDUCTION_YDESC, CUDNN_ATTR_OPERATION_RESHAPE_YDESC}) {
        if (!operation->has(result)) continue;
        const Declared t(operation->part(result));
        if (!t.is_virtual)
          std::memset(memory_.at(t.id), 0xff, static_cast<std::size_t>(t.extent()) * size_of(t.type));
      }
  }

  Values read(const Descriptor& descriptor) {
    const Declared t(descriptor);
    const auto known = values_.find(t.id);
    if (known != values_.end()) {
      if (known->second.dims != t.dims)
        fail("cuDNN: tensor " + std::to_string(t.id) + " is declared twice, with other dimensions");
      return known->second;
    }
    if (t.is_virtual) fail("cuDNN: tensor " + std::to_string(t.id) + " is read before an operation made it");
    Values v{t.dims, std::vector<float>(t.elements())};
    if (t.by_value)
      v.list.assign(v.list.size(), constants_.at(t.id));
    else
      for_each(t.dims, [&](const auto& at, std::size_t n) {
        v.list[n] = load(memory_.at(t.id), t.type, offset(at, t.strides));
      });
    return v;
  }
  void write(const Descriptor& descriptor, std::vector<float> list) {
    const Declared t(descriptor);
    if (list.size() != t.elements())
      fail("cuDNN: tensor " + std::to_string(t.id) + " has another size than what is put there");
    for (float& x : list) x = rounded(x, t.type);
    if (!t.is_virtual)
      for_each(t.dims, [&](const auto& at, std::size_t n) {
        store(memory_.at(t.id), t.type, offset(at, t.strides), list[n]);
      });
    values_[t.id] = {t.dims, std::move(list)};
  }

  void multiply(const Descriptor& op) {
    const Values a = read(op.part(CUDNN_ATTR_OPERATION_MATMUL_ADESC)),
                 b = read(op.part(CUDNN_ATTR_OPERATION_MATMUL_BDESC));
    const Declared c(op.part(CUDNN_ATTR_OPERATION_MATMUL_CDESC));
    const std::int64_t m = c.dims[2], n = c.dims[3], k = a.dims[3];
    if (a.dims[2] != m || b.dims[2] != k || b.dims[3] != n || c.dims[1] % a.dims[1] != 0 ||
        c.dims[1] % b.dims[1] != 0)
      fail("cuDNN: a product's dimensions do not fit");
    std::vector<float> out(c.elements());
    for (std::int64_t batch = 0; batch < c.dims[0]; ++batch)
      for (std::int64_t head = 0; head < c.dims[1]; ++head) {
        const auto part = [&](const Values& v) {
          return v.list.data() +
                 ((batch / (c.dims[0] / v.dims[0])) * v.dims[1] + head / (c.dims[1] / v.dims[1])) *
                     v.dims[2] * v.dims[3];
        };
        const float *left = part(a), *right = part(b);
        float* to = out.data() + (batch * c.dims[1] + head) * m * n;
        for (std::int64_t i = 0; i < m; ++i)
          for (std::int64_t p = 0; p < k; ++p)
            for (std::int64_t j = 0; j < n; ++j) to[i * n + j] += left[i * k + p] * right[p * n + j];
      }
    write(op.part(CUDNN_ATTR_OPERATION_MATMUL_CDESC), std::move(out));
  }

  void pointwise(const Descriptor& op) {
    const Descriptor& how = op.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const auto mode = how.one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_IDENTITY);
    const auto axis = static_cast<std::size_t>(how.one<std::int64_t>(CUDNN_ATTR_POINTWISE_AXIS, 0));
    const Declared y(op.part(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
    const bool index = mode == CUDNN_POINTWISE_GEN_INDEX;
    const Values x = index ? Values{} : read(op.part(CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
    const Values b = op.has(CUDNN_ATTR_OPERATION_POINTWISE_BDESC)
                         ? read(op.part(CUDNN_ATTR_OPERATION_POINTWISE_BDESC))
                         : Values{};
    const Values t = op.has(CUDNN_ATTR_OPERATION_POINTWISE_TDESC)
                         ? read(op.part(CUDNN_ATTR_OPERATION_POINTWISE_TDESC))
                         : Values{};
    std::vector<float> out(y.elements());
    for_each(y.dims, [&](const auto& at, std::size_t n) {
      const float p = index ? 0 : x.at(at, y.dims);
      const float q = b.list.empty() ? 0 : b.at(at, y.dims);
      switch (mode) {
        case CUDNN_POINTWISE_IDENTITY: out[n] = p; break;
        case CUDNN_POINTWISE_ADD: out[n] = p + q; break;
        case CUDNN_POINTWISE_SUB: out[n] = p - q; break;
        case CUDNN_POINTWISE_MUL: out[n] = p * q; break;
        case CUDNN_POINTWISE_DIV: out[n] = p / q; break;
        case CUDNN_POINTWISE_EXP: out[n] = std::exp(p); break;
        case CUDNN_POINTWISE_LOG: out[n] = std::log(p); break;
        case CUDNN_POINTWISE_GEN_INDEX: out[n] = static_cast<float>(at[axis]); break;
        case CUDNN_POINTWISE_CMP_GE: out[n] = p >= q ? 1 : 0; break;
        case CUDNN_POINTWISE_CMP_GT: out[n] = p > q ? 1 : 0; break;
        case CUDNN_POINTWISE_CMP_LE: out[n] = p <= q ? 1 : 0; break;
        case CUDNN_POINTWISE_CMP_LT: out[n] = p < q ? 1 : 0; break;
        case CUDNN_POINTWISE_BINARY_SELECT: out[n] = t.at(at, y.dims) != 0 ? p : q; break;
        default: fail("cuDNN: pointwise mode " + std::to_string(mode) + " is in no graph of Weft");
      }
    });
    write(op.part(CUDNN_ATTR_OPERATION_POINTWISE_YDESC), std::move(out));
  }

  void reduce(const Descriptor& op) {
    const auto how = op.part(CUDNN_ATTR_OPERATION_REDUCTION_DESC)
                         .one<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_REDUCE_TENSOR_ADD);
    if (how != CUDNN_REDUCE_TENSOR_ADD && how != CUDNN_REDUCE_TENSOR_MAX)
      fail("cuDNN: this reduction is in no graph of Weft");
    const Values x = read(op.part(CUDNN_ATTR_OPERATION_REDUCTION_XDESC));
    const Declared y(op.part(CUDNN_ATTR_OPERATION_REDUCTION_YDESC));
    std::vector<float> out(y.elements(), how == CUDNN_REDUCE_TENSOR_ADD ? 0 : -INFINITY);
    for_each(x.dims, [&](const auto& at, std::size_t n) {
      std::int64_t to = 0;
      for (std::size_t d = 0; d < 4; ++d) to = to * y.dims[d] + at[d] / (x.dims[d] / y.dims[d]);
      float& sum = out[static_cast<std::size_t>(to)];
      sum = how == CUDNN_REDUCE_TENSOR_ADD ? sum + x.list[n] : std::max(sum, x.list[n]);
    });
    write(op.part(CUDNN_ATTR_OPERATION_REDUCTION_YDESC), std::move(out));
  }

  /// The same memory, seen with other dimensions and strides.
  void reshape(const Descriptor& op) {
    const Declared from(op.part(CUDNN_ATTR_OPERATION_RESHAPE_XDESC)),
        to(op.part(CUDNN_ATTR_OPERATION_RESHAPE_YDESC));
    const Values x = read(op.part(CUDNN_ATTR_OPERATION_RESHAPE_XDESC));
    std::vector<float> seen(static_cast<std::size_t>(from.extent())), out(to.elements());
    if (to.extent() > from.extent()) fail("cuDNN: a reshape reads what is not there");
    for_each(from.dims, [&](const auto& at, std::size_t n) {
      seen[static_cast<std::size_t>(offset(at, from.strides))] = x.list[n];
    });
    for_each(to.dims, [&](const auto& at, std::size_t n) {
      out[n] = seen[static_cast<std::size_t>(offset(at, to.strides))];
    });
    write(op.part(CUDNN_ATTR_OPERATION_RESHAPE_YDESC), std::move(out));
  }

  Operations operations_;
  std::map<std::int64_t, std::byte*> memory_;
  std::map<std::int64_t, float> constants_;
  std::map<std::int64_t, Values> values_;
};

/// What a plan says that it wants, as much as its largest tensor between operations, unless these are too
/// large to be computed. Nothing is kept there, but the place must be given all the same.
std::int64_t workspace_bytes(const Descriptor& plan) {
  std::int64_t most = 16;
  if (is_too_large(operations_of(plan))) return most;
  for (const auto& operation : operations_of(plan))
    for (const auto& [name, list] : operation->descriptors)
      for (const auto& part : list)
        if (part->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR && Declared(*part).is_virtual)
          most = std::max(most, static_cast<std::int64_t>(2 * Declared(*part).elements()));
  return most;
}

}  // namespace

std::size_t cudnnGetVersion() {
  return 92000;  // from 9.21 on softmax is an operation of its own; before, a graph has it as operations that
                 // this file knows
}
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS ? "success" : "cuDNN's status of the preset fakecuda";
}
void cudnnGetLastErrorString(char* text, std::size_t bytes) {
  if (bytes > 0) text[0] = '\0';
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = reinterpret_cast<cudnnHandle_t>(new Handle{fakecuda::current_device(), nullptr});
  fakecuda::count_object("handles of cuDNN", 1);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete reinterpret_cast<Handle*>(handle);
  fakecuda::count_object("handles of cuDNN", -1);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  reinterpret_cast<Handle*>(handle)->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  *stream = reinterpret_cast<Handle*>(handle)->stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  auto made = std::make_shared<Descriptor>();
  made->type = type;
  *descriptor = new Owned(std::move(made));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete &owned(descriptor);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  owned(descriptor)->finalized = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count,
                                       const void* elements) {
  Descriptor& d = *owned(descriptor);
  if (d.finalized) return CUDNN_STATUS_NOT_INITIALIZED;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const auto* list = static_cast<const cudnnBackendDescriptor_t*>(elements);
    auto& kept = d.descriptors[name];
    kept.clear();
    for (std::int64_t i = 0; i < count; ++i) {
      if (!owned(list[i])->finalized) return CUDNN_STATUS_NOT_INITIALIZED;
      kept.push_back(owned(list[i]));
    }
    return CUDNN_STATUS_SUCCESS;
  }
  const auto* bytes = static_cast<const std::byte*>(elements);
  d.values[name].assign(bytes, bytes + static_cast<std::size_t>(count) * size_of(type));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, std::int64_t requested,
                                       std::int64_t* count, void* elements) {
  const Descriptor& d = *owned(descriptor);
  std::int64_t given = 0;
  if (d.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR && name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    given = 1;  // one engine serves every graph
    if (requested > 0) {
      Descriptor engine{CUDNN_BACKEND_ENGINE_DESCRIPTOR, {}, {}, true};
      engine.descriptors[CUDNN_ATTR_ENGINE_OPERATION_GRAPH] =
          d.descriptors.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
      Descriptor& configuration = *owned(*static_cast<cudnnBackendDescriptor_t*>(elements));
      configuration.descriptors[CUDNN_ATTR_ENGINECFG_ENGINE] = {
          std::make_shared<const Descriptor>(std::move(engine))};
      configuration.finalized = true;
    }
  } else if (d.type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR && name == CUDNN_ATTR_ENGINECFG_ENGINE) {
    given = 1;
    if (requested > 0) *owned(*static_cast<cudnnBackendDescriptor_t*>(elements)) = d.part(name);
  } else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
    given = 1;
    *static_cast<std::int64_t*>(elements) = workspace_bytes(d);
  } else if (name == CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED) {
    given = 1;
    *static_cast<std::int32_t*>(elements) = 0;
  } else if (name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX) {
    given = 1;
    *static_cast<std::int64_t*>(elements) = 0;
  }
  if (count != nullptr) *count = given;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  const Handle& h = *reinterpret_cast<Handle*>(handle);
  if (h.device != fakecuda::current_device())
    fail("cudnnBackendExecute: the handle belongs to another device");
  const Descriptor& operands = *owned(pack);
  auto* workspace = operands.one<std::byte*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, nullptr);
  const auto bytes = static_cast<std::size_t>(workspace_bytes(*owned(plan)));
  fakecuda::refuse_host_memory("cudnnBackendExecute", "the workspace", workspace, bytes);
  const Run run(*owned(plan), operands);
  const cudaError_t error = fakecuda::enqueue_call(h.stream, "a graph of cuDNN", [run, workspace, bytes] {
    std::memset(workspace, 0xff, bytes);
    Run(run).compute();
  });
  return error == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}
