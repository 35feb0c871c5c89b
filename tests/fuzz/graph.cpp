// The fuzz target for the text form of graphs, and for the verifier, which checks what was read.
#include <stdexcept>
#include <string>

#include "fuzz.hpp"
#include "ir/text.hpp"
#include "ir/verify.hpp"

using namespace weft;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string input(fuzz::text_of(data, size));
  ir::Graph graph;
  if (fuzz::refused([&] { graph = ir::parse(input); })) return 0;
  const std::string printed = ir::print(graph);
  ir::Graph again;
  fuzz::require(!fuzz::refused([&] { again = ir::parse(printed); }), "a printed graph is a graph", printed);
  fuzz::require(ir::print(again) == printed, "a printed graph is the same graph", printed);
  fuzz::require(ir::diff(printed, printed).empty(), "a text is no other than itself", printed);
  ir::diff(input, printed);
  try {
    ir::verify(graph);
  } catch (const std::logic_error&) {  // the verifier says in this way that a graph is wrong
  }
  return 0;
}
