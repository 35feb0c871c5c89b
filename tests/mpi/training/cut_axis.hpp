// What the tests of the axes that cut activations, tensor and context, have in common: meshes with such an
// axis, and what they compute against what one rank computes alone.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "support/curve.hpp"
#include "support/mpi_environment.hpp"

namespace weft::test {

/// The sizes of an axis over the ranks of this program.
std::vector<int> axis_sizes();

/// The meshes with an axis `name` of `size` ranks over the ranks of this program, in several orders.
std::vector<std::string> meshes_with(const std::string& name, int size);

/// Compares with what one rank computes alone, of which the axis changes the last digits. AdamW makes more of
/// them from step to step, because it divides by the size of a gradient.
void expect_near(const Curve& curve, const std::vector<std::string>& alone, double most);

/// Collective: holds the gradients of one step on each mesh against those of one rank, by the first moments
/// that the step leaves. Of each parameter the difference's norm may be `most` of the gradient's. `sets` are
/// keys of the small deck.
void expect_gradients_near(const std::vector<std::string>& sets, const std::vector<std::string>& meshes,
                           double most);
/// Collective: the same where parameters are bf16, and gradients are sent in bf16, on one rank, too.
void expect_bf16_gradients_near(std::vector<std::string> sets, const std::vector<std::string>& meshes);

/// Collective: holds the losses of a step and of a validation on each mesh, on documents of text, against
/// those of one rank.
void expect_text_near(const std::vector<std::string>& sets, const std::vector<std::string>& meshes);

/// Collective: each mesh starts from the same weights, and what one saves the first and the next load.
/// perf/checkpoints.py reshard has more pairs.
void expect_checkpoints_load(const std::vector<std::string>& sets, const std::vector<std::string>& meshes);

}  // namespace weft::test
