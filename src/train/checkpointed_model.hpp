// Takes a checkpoint's model over the ranks, for the commands that compute with it and do not train it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ckpt/manifest.hpp"
#include "deck/deck.hpp"
#include "exec/executor.hpp"
#include "runtime/session.hpp"

namespace weft::train {

/// Collective: the checkpoint at `path`, which names one, or a directory of many (then it is the newest whole
/// one). Throws Error where there is none.
ckpt::Manifest choose_checkpoint(const std::string& path, comm::World& world);

/// How many ranks hold one copy of a layer between them. Throws Error(bad_input) where `ranks` is no multiple
/// of it.
int group_size(int tensor, int context, int ranks);

/// Collective: binds the session's only plan, and takes the parameters that it has from the checkpoint.
/// `make_plan` is collective, and is called again where the session gives up a team (Session::reserve). Sets
/// `executor` before anything else can fail, so that an error can be told before the executor is taken down.
void load_model(runtime::Session& session, const Deck& deck, const ckpt::Manifest& manifest,
                const std::function<plan::Plan()>& make_plan, std::unique_ptr<exec::Executor>& executor);

}  // namespace weft::train
