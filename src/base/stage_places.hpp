// Which rank of a pipe has which stage.
#pragma once

namespace weft {

/// The stages, in the order of the model, pass a pipe's ranks once for each of a rank's stages (its chunks).
struct StagePlaces {
  int ranks = 1;
  /// Whether every second pass goes backwards, from the last rank to the first, so that a rank follows itself
  /// where the direction changes. Otherwise the first rank follows the last.
  bool folded = false;

  int chunk(int stage) const { return stage / ranks; }
  /// The rank's place on the pipe.
  int place(int stage) const {
    const int at = stage % ranks;
    return goes_back(chunk(stage)) ? ranks - 1 - at : at;
  }
  int stage(int place, int chunk) const {
    return chunk * ranks + (goes_back(chunk) ? ranks - 1 - place : place);
  }
  /// Whether the chunks of that number lie from the last rank to the first.
  bool goes_back(int chunk) const { return folded && chunk % 2 == 1; }
};

}  // namespace weft
