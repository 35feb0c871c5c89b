#!/usr/bin/env bash
# Draws RUN_DIR/loss.png from RUN_DIR/metrics.jsonl: training loss (each step, and smoothed) and validation loss over steps.
#
#   jobs/plot_loss.sh RUN_DIR
#
# On a terminal it also shows the curve: as a picture where the terminal says that it takes sixels, else drawn with characters (braille
# dots in a UTF-8 locale, ASCII in others). Elsewhere, and on a terminal that is "dumb", only the path is printed.
set -euo pipefail
run=${1:?usage: jobs/plot_loss.sh RUN_DIR}
metrics=$run/metrics.jsonl
[ -s "$metrics" ] || { echo "plot_loss: no metrics in $metrics (weft train writes them); give the run's directory" >&2; exit 1; }

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# Each line is one flat object; the columns are step, loss and centred mean. A resumed run repeats steps: the
# last value counts. A loss that is no number is null, and left out.
select_kind() {
  awk -v kind="$1" '
    function value(name, text) {
      if (!match($0, "\"" name "\": *[^,}]*")) return ""
      text = substr($0, RSTART, RLENGTH); sub(/^[^:]*: */, "", text); gsub(/"/, "", text)
      return text
    }
    value("kind") == kind && value("loss") != "null" { step = value("step") + 0; if (!(step in loss)) order[++count] = step; loss[step] = value("loss") + 0 }
    END {
      half = int(count / 60)
      for (i = 1; i <= count; ++i) {
        first = i > half ? i - half : 1; last = i + half < count ? i + half : count
        sum = 0; for (j = first; j <= last; ++j) sum += loss[order[j]]
        printf "%d %.9g %.9g\n", order[i], loss[order[i]], sum / (last - first + 1)
      }
    }' "$metrics"
}
select_kind train >"$dir/train"
select_kind valid >"$dir/valid"
[ -s "$dir/train" ] || { echo "plot_loss: $metrics has no lines of kind \"train\" with a loss" >&2; exit 1; }

last_step=$(tail -n 1 "$dir/train" | cut -d' ' -f1)
last_valid=$(tail -n 1 "$dir/valid" | cut -d' ' -f2)
title=$(basename "$(cd "$run" && pwd)")
[ -z "$last_valid" ] || title+=$(printf ': validation loss %.3f nats a token' "$last_valid")
# For gnuplot's single quotes. Between double quotes it would run what stands in backticks in a directory's name.
quoted_title=${title//\'/\'\'}

# plot_to TERMINAL OUTPUT
plot_to() {
  local curves="'$dir/train' using 1:2 with lines lw 1 lc rgb '#b8cbe4' title 'training, each step', \
        '$dir/train' using 1:3 with lines lw 2.5 lc rgb '#1f4e9c' title 'training, smoothed'"
  [ ! -s "$dir/valid" ] || curves+=", '$dir/valid' using 1:2 with linespoints lw 2.5 pt 7 ps 1.2 lc rgb '#d1495b' title 'validation'"
  gnuplot <<PLOT
set terminal $1
set output '$2'
set title '$quoted_title' noenhanced font ',15'
set xlabel 'step'
set ylabel 'loss (nats a token)'
set border 3 lc rgb '#555555'
set tics nomirror out textcolor rgb '#333333'
set grid lc rgb '#e4e4e4' lw 1
set key top right spacing 1.3 noenhanced
set offsets graph 0, graph 0, graph 0.03, graph 0.03
set xrange [0:$last_step]
plot $curves
PLOT
}

# Whether the terminal takes sixels: 4 is among the numbers with which it answers "which terminal are you?" (ESC [ c). One that
# does not answer is waited for during half a second.
takes_sixels() {
  local saved answer=
  saved=$(stty -g <&3 2>/dev/null) || return 1
  stty -echo -icanon <&3
  printf '\033[c' >&3
  IFS= read -r -t 0.5 -dc answer <&3 || true  # with -d bash sets min and time of stty itself
  stty "$saved" <&3
  case ";${answer#*\?};" in *";4;"*) return 0 ;; *) return 1 ;; esac
}

# draw_characters COLUMNS: draws the smoothed loss in dots, of which a character has two by four, and validations as o.
draw_characters() {
  LC_ALL=C awk -v columns="$1" -v rows=14 -v title="$title" '
    function dot(x, y) { dots[int(x / 2), int(y / 4), x % 2, y % 4] = 1 }
    function height(loss) { return int((top - loss) / (top - bottom) * (4 * rows - 1) + 0.5) }
    function column(step) { return int((step - first) / (last - first) * (2 * wide - 1) + 0.5) }
    function character(c, r,   bits) {
      if ((c, r) in mark) return "o"
      bits = 1 * dots[c, r, 0, 0] + 2 * dots[c, r, 0, 1] + 4 * dots[c, r, 0, 2] + 64 * dots[c, r, 0, 3] \
           + 8 * dots[c, r, 1, 0] + 16 * dots[c, r, 1, 1] + 32 * dots[c, r, 1, 2] + 128 * dots[c, r, 1, 3]
      return bits == 0 ? " " : sprintf("%c%c%c", 226, 160 + int(bits / 64), 128 + bits % 64)
    }
    { loss = FILENAME ~ /train$/ ? $3 : $2 }
    NR == 1 { top = bottom = loss }
    loss > top { top = loss } loss < bottom { bottom = loss }
    FILENAME ~ /train$/ { step[++n] = $1; smooth[n] = loss; next }
    { valid_step[++m] = $1; valid[m] = loss }
    END {
      wide = columns - 12; first = step[1]; last = step[n]
      if (last == first) last = first + 1
      if (top == bottom) top = bottom + 1
      for (i = 1; i <= n; ++i) {
        x = column(step[i]); y = height(smooth[i])
        if (i == 1) { x0 = x; y0 = y }
        for (c = x0; c <= x; ++c) {  # down to where the next dot begins, so that steep pieces have no gaps
          to = x == x0 ? y : y0 + int((y - y0) * (c - x0) / (x - x0) + (y > y0 ? 0.5 : -0.5))
          from = c == x0 ? y0 : before
          for (d = from < to ? from : to; d <= (from < to ? to : from); ++d) dot(c, d)
          before = to
        }
        x0 = x; y0 = y
      }
      for (i = 1; i <= m; ++i) mark[int(column(valid_step[i]) / 2), int(height(valid[i]) / 4)] = 1
      printf "\n  %s\n\n", title
      for (r = 0; r < rows; ++r) {
        label = r == 0 || r == rows - 1 || r == int(rows / 2) ? sprintf("%8.3f", top - (top - bottom) * r / (rows - 1)) : "        "
        line = label " \342\224\202"
        for (c = 0; c < wide; ++c) line = line character(c, r)
        sub(/ +$/, "", line)
        print line
      }
      line = "         \342\224\224"
      for (c = 0; c < wide; ++c) line = line "\342\224\200"
      print line
      printf "%10s%-*d%*d\n", "", int(wide / 2), first, wide - int(wide / 2), last
      printf "          loss in nats a token over steps: training, smoothed%s\n\n", (m > 0 ? "; o validation" : "")
    }' "$dir/train" "$dir/valid"
}

show() {
  local columns
  columns=$(stty size <&3 2>/dev/null | cut -d' ' -f2) || columns=
  [ "${columns:-0}" -ge 40 ] || columns=80
  [ "$columns" -le 100 ] || columns=100
  if command -v gnuplot >/dev/null && takes_sixels && plot_to "sixelgd size 800,480 font 'DejaVu Sans,11'" "$dir/sixels" 2>/dev/null; then
    cat "$dir/sixels"
    return
  fi
  case ${LC_ALL:-${LC_CTYPE:-${LANG:-}}} in
    *[Uu][Tt][Ff]-8* | *[Uu][Tt][Ff]8*) draw_characters "$columns" ;;
    *) if command -v gnuplot >/dev/null; then plot_to "dumb size $columns,24" "$dir/text" && cat "$dir/text"; fi ;;
  esac
}

if [ -t 1 ] && [ "${TERM:-dumb}" != dumb ]; then show 3>&1; fi
if ! command -v gnuplot >/dev/null; then
  echo "plot_loss: gnuplot is not installed, no picture (Debian: gnuplot-nox)"
  exit 0
fi
plot_to "pngcairo size 1100,680 font 'DejaVu Sans,13' background rgb '#ffffff'" "$dir/loss.png"
mv "$dir/loss.png" "$run/loss.png"  # RUN_DIR may have quotes in its name
echo "loss curve: $run/loss.png"
