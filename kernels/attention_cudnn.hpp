// Internal: cuDNN's fused attention, prepared for one shape. It stands behind pointers, because the headers
// of cuDNN's front end take 20 s to compile.
#pragma once

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>

#include "kernels/attention.hpp"

namespace weft::kernels::cudnn {

/// The error that cuDNN has no kernel for a shape on this device; what() says why.
struct NotSupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// attention() for bf16 operands that are aligned to 16 bytes, without documents. Probabilities are rounded
/// to bf16 before they meet v. Construction needs the device, compiles for it (half a second for each run of
/// queries), and throws NotSupported. run() only enqueues, so that a CUDA graph can record it. Use it on one
/// thread at a time.
class Attention {
 public:
  explicit Attention(const AttentionShape& shape);
  /// For another place among ranks that share sequences than `first`, with no more scratch.
  Attention(const AttentionShape& shape, const Attention& first);
  ~Attention();
  Attention(const Attention&) = delete;
  Attention& operator=(const Attention&) = delete;

  /// Bytes of device memory that run() needs, 256-byte aligned.
  std::size_t scratch_bytes() const;
  void run(Space& space, const void* q, const void* k, const void* v, void* o, float* lse, void* scratch);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// attention_grad() under the same conditions, with cuDNN's deterministic algorithm unless the shape allows
/// another. On Hopper that one keeps the gradients of all scores in its workspace: B H times queries times
/// keys, in bf16. Where they are more than `most_workspace_bytes`, run() goes through the heads and sequences
/// part by part.
class AttentionBackward {
 public:
  AttentionBackward(const AttentionShape& shape, std::size_t most_workspace_bytes);
  /// For another place than `first`, in parts of the same size.
  AttentionBackward(const AttentionShape& shape, const AttentionBackward& first);
  ~AttentionBackward();
  AttentionBackward(const AttentionBackward&) = delete;
  AttentionBackward& operator=(const AttentionBackward&) = delete;

  /// What cuDNN needs. It is beyond the bound only where one head of one sequence needs more.
  std::size_t workspace_bytes() const;
  /// Bytes of device memory that run() needs, 256-byte aligned: the workspace, and pieces of the gradients of
  /// keys and values that are added up.
  std::size_t scratch_bytes() const;
  void run(Space& space, const AttentionGrad& grad);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// From here on kernels are compiled for a device that need not be here, by its properties as cuDNN writes
/// them (JSON; cuDNN 9.8 or later), `sm` 90 for compute capability 9.0: what they need can be looked at, and
/// run() fails. For tests. Throws NotSupported.
void compile_for(const std::string& properties, int sm);

}  // namespace weft::kernels::cudnn
