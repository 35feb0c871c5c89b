#include "plan/picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/quoted.hpp"
#include "base/text.hpp"
#include "plan/offsets.hpp"
#include "plan/picture_blocks.hpp"
#include "plan/report.hpp"

namespace weft::plan {
namespace {

constexpr double left = 110, width = 1070, right = left + width;
constexpr double lanes_top = 72, lane_height = 38, lane_pitch = 46;
constexpr double memory_below = 52, memory_height = 300;                      ///< below the lanes
constexpr double holders_below = 42, holder_pitch = 17, holders_height = 96;  ///< below the memory
constexpr double narrowest = 2.5;  ///< pixels that two rectangles take together, at least
constexpr std::size_t holders_named = 5;

// The picture uses attributes, not a style sheet, because small viewers know no CSS.
constexpr const char* head =
    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1200\" height=\"{0}\" viewBox=\"0 0 1200 {0}\" "
    "font-family=\"sans-serif\" font-size=\"12\">\n"
    "<rect width=\"1200\" height=\"{0}\" fill=\"white\"/>\n";
constexpr const char *waiting = "#d00", *row = "#f2f2f2", *state = "#d0d0d0", *live = "#9ecae9";

const char* colour_of(ir::Phase phase) {
  switch (phase) {
    case ir::Phase::forward: return "#4c78a8";
    case ir::Phase::backward: return "#e39a3b";
    case ir::Phase::update: return "#54a24b";
  }
  return "";
}

constexpr const char* dashed = "stroke=\"#b00\" stroke-dasharray=\"6 4\"";

enum class Anchor : std::uint8_t { start, middle, end };
std::string_view name_of(Anchor anchor) {
  return anchor == Anchor::start ? "start" : anchor == Anchor::middle ? "middle" : "end";
}

std::string time_text(double seconds) {
  if (seconds >= 1000) return fmt::format("{:.0f} s", seconds);
  if (seconds >= 1) return fmt::format("{:.4g} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.4g} ms", 1e3 * seconds) : fmt::format("{:.4g} us", 1e6 * seconds);
}

/// The lanes that have a row: three always, the others where the plan has something on them.
std::vector<Lane> lanes_of(const machine::LaneTimes& times) {
  std::vector<Lane> lanes;
  for (const Lane lane : all_lanes)
    if (lane <= Lane::reduce || !times.spans[lane].empty()) lanes.push_back(lane);
  return lanes;
}

class Picture {
 public:
  Picture(const Plan& plan, const machine::LaneTimes& times, std::string_view name)
      : plan_(plan),
        times_(times),
        name_(name),
        per_second_(times.end > 0 ? width / times.end : 0),
        state_(persistent_bytes(plan)),
        highest_(std::max<double>(1, 1.06 * static_cast<double>(state_ + plan.peak_bytes()))),
        lanes_(lanes_of(times)),
        lanes_bottom_(lanes_top + lane_pitch * static_cast<double>(lanes_.size())),
        memory_top_(lanes_bottom_ + memory_below),
        memory_bottom_(memory_top_ + memory_height),
        holders_top_(memory_bottom_ + holders_below) {}

  std::string draw() {
    add(head, holders_top_ + holders_height);
    draw_title();
    draw_legend();
    for (std::size_t place = 0; place < lanes_.size(); ++place) draw_lane(lanes_[place], place);
    draw_axis(lanes_bottom_);
    draw_memory();
    draw_axis(memory_bottom_);
    draw_holders();
    return text_ + "</svg>\n";
  }

 private:
  double x(double seconds) const { return left + per_second_ * seconds; }
  double y(double bytes) const { return memory_bottom_ - (memory_bottom_ - memory_top_) * bytes / highest_; }
  double y(std::int64_t bytes) const { return y(static_cast<double>(bytes)); }

  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }
  void label(double at_x, double at_y, std::string_view text, Anchor anchor = Anchor::start) {
    add("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", at_x, at_y, name_of(anchor),
        xml_escaped(text));
  }
  void line(double x1, double y1, double x2, double y2, const char* attributes = "stroke=\"#999\"") {
    add("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1, x2, y2, attributes);
  }
  /// Draws a bar from one time to another in the row at `top`.
  void bar(const char* colour, double start, double end, double top, const std::string& tooltip) {
    add("<rect fill=\"{}\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\"><title>{}</title></rect>\n",
        colour, x(start), top, std::max(0.3, per_second_ * (end - start)), lane_height, xml_escaped(tooltip));
  }

  void draw_title() {
    const int ranks = plan_.graph.mesh().world();
    add("<text x=\"{}\" y=\"26\" font-size=\"16\" font-weight=\"bold\">{}</text>\n", left,
        xml_escaped(fmt::format("{} on {} rank{}: step {} predicted, peak {} a rank", name_, ranks,
                                ranks == 1 ? "" : "s", time_text(times_.end),
                                bytes_text(state_ + plan_.peak_bytes()))));
    label(left, 46,
          fmt::format("busy: compute {}, gather {}, reduce {}", time_text(times_.busy[Lane::compute]),
                      time_text(times_.busy[Lane::gather]), time_text(times_.busy[Lane::reduce])) +
              of_other_axes(times_.busy, "replica") +
              fmt::format("; exposed: gathers {}, reductions {}", time_text(times_.exposed[Lane::gather]),
                          time_text(times_.exposed[Lane::reduce])) +
              of_other_axes(times_.exposed, "sums"));
  }
  /// The seconds of the axes that a plan may have beside data.
  std::string of_other_axes(const PerLane<double>& seconds, std::string_view of_replicas) const {
    std::string text;
    const auto add_where = [&](bool there, std::string_view name, double sum) {
      if (there) text += fmt::format(", {} {}", name, time_text(sum));
    };
    const Mesh& mesh = plan_.graph.mesh();
    add_where(mesh.size(replica_axis) > 1, of_replicas, seconds[Lane::replica]);
    add_where(mesh.size(tensor_axis) > 1, "tensor", of_tensor_lanes(seconds));
    add_where(mesh.size(context_axis) > 1, "context", seconds[Lane::context]);
    add_where(mesh.size(pipe_axis) > 1, "stages", of_pipe_lanes(seconds));
    return text;
  }

  void draw_legend() {
    double at = 860;
    for (const auto& [colour, text] :
         std::array<std::pair<const char*, const char*>, 4>{{{colour_of(ir::Phase::forward), "forward"},
                                                             {colour_of(ir::Phase::backward), "backward"},
                                                             {colour_of(ir::Phase::update), "update"},
                                                             {waiting, "exposed"}}}) {
      add("<rect fill=\"{}\" x=\"{}\" y=\"16\" width=\"11\" height=\"11\"/>\n", colour, at);
      label(at + 16, 26, text);
      at += 84;
    }
  }

  void draw_lane(Lane lane, std::size_t place) {
    const double top = lanes_top + lane_pitch * static_cast<double>(place);
    const double shortest = per_second_ > 0 ? narrowest / per_second_ : 0;
    add("<g id=\"lane-{}\">\n<rect fill=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n",
        weft::name_of(lane), row, left, top, width, lane_height);
    label(left - 10, top + 0.6 * lane_height, weft::name_of(lane), Anchor::end);
    for (const Block& block : blocks_of(plan_, times_, lane, shortest))
      bar(colour_of(block.phase), block.start, block.end, top, tooltip(block, lane));
    if (lane == Lane::compute)
      for (const Stretch& s : waiting_of(plan_, times_, shortest))
        bar(waiting, s.start, s.end, top,
            fmt::format("waits {} for {}, until {}", time_text(s.waited), weft::name_of(s.lane),
                        time_text(s.end)));
    text_ += "</g>\n";
  }

  static std::string tooltip(const Block& b, Lane lane) {
    std::string what(b.first);
    if (b.last != b.first) what += fmt::format(" to {}", b.last);
    if (b.instructions == 1) what = fmt::format("{} {}", b.op, what);
    std::string text = fmt::format("{} {}: {} from {}", ir::name_of(b.phase), what,
                                   time_text(b.end - b.start), time_text(b.start));
    if (lane != Lane::compute) text += ", " + bytes_text(b.bytes);
    if (b.instructions > 1)
      text += fmt::format(", {} {}", b.instructions,
                          lane == Lane::compute     ? "kernels"
                          : is_between_stages(lane) ? "messages"
                                                    : "collectives");
    return text;
  }

  /// Draws five to ten ticks, at multiples of 1, 2 or 5 times a power of ten.
  void draw_axis(double at_y) {
    line(left, at_y, right, at_y);
    if (times_.end <= 0) return;
    double step = std::pow(10, std::floor(std::log10(times_.end / 5)));
    for (const double factor : {5.0, 2.0})
      if (times_.end / (factor * step) >= 5) {
        step *= factor;
        break;
      }
    for (int i = 0; i * step <= times_.end; ++i) {
      line(x(i * step), at_y, x(i * step), at_y + 5);
      label(x(i * step), at_y + 18, i == 0 ? "0" : time_text(i * step), Anchor::middle);
    }
  }

  void draw_memory() {
    text_ += "<g id=\"memory\">\n";
    draw_bytes_axis();
    add("<rect fill=\"{}\" x=\"{}\" y=\"{:.1f}\" width=\"{}\" height=\"{:.1f}\"/>\n", state, left, y(state_),
        width, memory_bottom_ - y(state_));
    constexpr auto columns = static_cast<std::size_t>(width);
    add("<polygon fill=\"{}\" points=\"{},{:.1f}", live, left, y(state_));
    const std::vector<std::int64_t> bytes = live_bytes_over_time(plan_, times_, columns);
    for (std::size_t i = 0; i < columns; ++i)
      add(" {},{:.1f}", left + 0.5 + static_cast<double>(i), y(state_ + bytes[i]));
    add(" {},{:.1f}\"/>\n", right, y(state_));
    label(left + 6, y(state_) + (y(state_) > memory_bottom_ - 16 ? -4 : 14),
          fmt::format("state {}", bytes_text(state_)));
    const double arena = y(state_ + plan_.peak_bytes());
    line(left, arena, right, arena, dashed);
    label(right, arena - 5,
          fmt::format("state and arena ({}): {}", bytes_text(plan_.peak_bytes()),
                      bytes_text(state_ + plan_.peak_bytes())),
          Anchor::end);
    if (!plan_.buffers.empty()) draw_peak();
    text_ += "</g>\n";
  }

  void draw_bytes_axis() {
    label(left, memory_top_ - 8, "memory of a rank");
    double step = 1;
    while (highest_ / step > 7) step *= 2;
    for (int i = 0; i * step <= highest_; ++i) {
      const double bytes = i * step;
      line(left - 5, y(bytes), left, y(bytes));
      label(left - 8, y(bytes) + 4, bytes_text(static_cast<std::int64_t>(bytes)), Anchor::end);
    }
  }

  void draw_peak() {
    const std::int64_t place = live_peak_place(plan_.buffers);
    const double at = x(times_of_places(plan_, times_)[static_cast<std::size_t>(place)]);
    const double top = y(state_ + plan_.live_bytes);
    line(at, top, at, memory_bottom_, dashed);
    add("<circle id=\"peak\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"#b00\"/>\n", at, top);
    const bool is_right = at > left + 0.6 * width;
    label(at + (is_right ? -8 : 8), top + 18,
          fmt::format("peak: {} live, {}", bytes_text(plan_.live_bytes), place_text(plan_, place)),
          is_right ? Anchor::end : Anchor::start);
  }

  void draw_holders() {
    if (plan_.buffers.empty()) return;
    const std::vector<Holder> held = holders_at(plan_, live_peak_place(plan_.buffers));
    text_ += "<g id=\"holders\">\n";
    label(left, holders_top_, fmt::format("largest of {} buffers in the arena at the peak", held.size()));
    for (std::size_t i = 0; i < std::min(holders_named, held.size()); ++i) {
      const double at = holders_top_ + holder_pitch * static_cast<double>(i + 1);
      label(left + 10, at, held[i].name);
      label(left + 450, at, bytes_text(held[i].bytes), Anchor::end);
      const double share = static_cast<double>(held[i].bytes) / static_cast<double>(held[0].bytes);
      add("<rect x=\"{}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"9\" fill=\"{}\"/>\n", left + 465, at - 9,
          std::max(1.0, 600 * share), live);
    }
    text_ += "</g>\n";
  }

  const Plan& plan_;
  const machine::LaneTimes& times_;
  std::string_view name_;
  double per_second_;   ///< pixels
  std::int64_t state_;  ///< bytes of the state
  double highest_;      ///< bytes at the memory's upper edge
  std::vector<Lane> lanes_;
  double lanes_bottom_, memory_top_, memory_bottom_, holders_top_;
  std::string text_;
};

}  // namespace

std::string picture(const Plan& plan, const machine::LaneTimes& times, std::string_view name) {
  return Picture(plan, times, name).draw();
}

}  // namespace weft::plan
