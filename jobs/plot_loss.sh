#!/usr/bin/env bash
# Draws RUN_DIR/loss.png from RUN_DIR/metrics.jsonl: training loss (each step, and smoothed) and validation loss over steps.
#
#   jobs/plot_loss.sh RUN_DIR
set -euo pipefail
run=${1:?usage: jobs/plot_loss.sh RUN_DIR}
metrics=$run/metrics.jsonl
[ -s "$metrics" ] || { echo "plot_loss: no metrics in $metrics (weft train writes them) give the run's directory" >&2; exit 1; }
command -v gnuplot >/dev/null || { echo "plot_loss: gnuplot is not installed, no picture (Debian: gnuplot-nox)"; exit 0; }

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# Each line is one flat object; the columns are step, loss and centred mean. A resumed run repeats steps: the
# last value counts.
select_kind() {
  awk -v kind="$1" '
    function value(name, text) {
      if (!match($0, "\"" name "\": *[^,}]*")) return ""
      text = substr($0, RSTART, RLENGTH); sub(/^[^:]*: */, "", text); gsub(/"/, "", text)
      return text
    }
    value("kind") == kind { step = value("step") + 0; if (!(step in loss)) order[++count] = step; loss[step] = value("loss") + 0 }
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
[ -s "$dir/train" ] || { echo "plot_loss: $metrics has no lines of kind \"train\"" >&2; exit 1; }

curves="'$dir/train' using 1:2 with lines lw 1 lc rgb '#b8cbe4' title 'training, each step', \
        '$dir/train' using 1:3 with lines lw 2.5 lc rgb '#1f4e9c' title 'training, smoothed'"
[ ! -s "$dir/valid" ] || curves+=", '$dir/valid' using 1:2 with linespoints lw 2.5 pt 7 ps 1.2 lc rgb '#d1495b' title 'validation'"
last=$(tail -n 1 "$dir/valid" 2>/dev/null | cut -d' ' -f2)
title=$(basename "$(cd "$run" && pwd)")
[ -z "$last" ] || title+=$(printf ': validation loss %.3f nats a token' "$last")

gnuplot <<PLOT
set terminal pngcairo size 1100,680 font 'DejaVu Sans,13' background rgb '#ffffff'
set output '$run/loss.png'
set title "$title" noenhanced font ',15'
set xlabel 'step'
set ylabel 'loss (nats a token)'
set border 3 lc rgb '#555555'
set tics nomirror out textcolor rgb '#333333'
set grid lc rgb '#e4e4e4' lw 1
set key top right spacing 1.3 noenhanced
set offsets graph 0, graph 0, graph 0.03, graph 0.03
set xrange [0:$(tail -n 1 "$dir/train" | cut -d' ' -f1)]
plot $curves
PLOT
echo "loss curve: $run/loss.png"
