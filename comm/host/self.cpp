// The world of one rank without MPI: the same state machines without a transport, driven by the calling
// thread.
#include "base/check.hpp"
#include "base/log.hpp"
#include "comm/host/host_channel.hpp"
#include "comm/world.hpp"

namespace weft::comm {
namespace {

class SelfWorld final : public World {
 public:
  SelfWorld()
      : engine_({detail::Engine::Drive::caller, nullptr,
                 [this](const std::string& line, ExitCode code) { fail(line, code); }}) {
    connect();
  }
  ~SelfWorld() override { disconnect(); }

  int rank() const override { return 0; }
  int size() const override { return 1; }
  [[noreturn]] void abort(int code) override { end_all_ranks(code); }

 protected:
  std::unique_ptr<Channel> open_channel(const std::vector<int>&, Lane lane, std::string name,
                                        const ChannelOptions& options) override {
    return std::make_unique<detail::HostChannel>(
        engine_, detail::HostChannel::Setup{
                     0, 1, lane, std::move(name), options.chunk_bytes, {}, {}, nullptr, nullptr});
  }

 private:
  [[noreturn]] void fail(const std::string& line, ExitCode code) {
    log::write_error(line);
    abort(static_cast<int>(code));
  }

  detail::Engine engine_;
};

}  // namespace

std::unique_ptr<World> make_self_world() {
  return std::make_unique<SelfWorld>();
}

}  // namespace weft::comm
