#!/usr/bin/env bash
# From nothing to text sampled from a transformer you trained, in 5 to 8 minutes on two cores:
#
#   jobs/quickstart.sh [--set table.key=value]...
#
# Sets this machine up, builds Weft, makes tokens of a dictionary of English, trains inputs/quickstart.toml with fsdp over 2 ranks,
# draws the loss curve and prints text from the model. What is already there is not made again. Arguments go to `weft train`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

data=runs/data
weft=build/cpu/weft
# step HEADING: also notes what the step before it took.
previous='' began=0 times=''
step() {
  [ -z "$previous" ] || times+="${times:+, }$previous $((SECONDS - began)) s"
  previous=${1#*/* } began=$SECONDS
  printf '\n== %s\n' "$1"
}

step "1/6 set-up and build"
jobs/setup.sh --quickstart --preset cpu:weft

step "2/6 text"
text=$data/gcide.txt
[ -s "$text" ] || jobs/get_text.sh

step "3/6 tokens"
model=$data/quickstart.model
if [ -s "$model" ] && [ -s $data/quickstart.train.bin ] && [ -s $data/quickstart.valid.bin ]; then
  echo "already there: $model, $data/quickstart.{train,valid}.bin"
else
  echo "learning a SentencePiece model of 4096 pieces, and turning the text into them"
  "$weft" data tokenize --separator '\n\n\n' --tokenizer sentencepiece --vocab 4096 --model "$model" \
    --train $data/quickstart.train.bin --valid $data/quickstart.valid.bin "$text"
fi

run=$("$weft" deck inputs/quickstart.toml "$@" | sed -n '/^\[run\]/,/^$/s/^dir = "\(.*\)"$/\1/p')
step "4/6 training"
jobs/launch.sh -n 2 -- "$weft" train inputs/quickstart.toml "$@"

step "5/6 loss curve"
jobs/plot_loss.sh "$run"

step "6/6 samples"
for prompt in "The sea is" "Music, n."; do
  jobs/launch.sh -n 1 -- "$weft" sample --checkpoint "$run/checkpoints/latest" --tokenizer "$model" --prompt "$prompt"
done

step "done"
printf 'took %d min %d s: %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$times"
printf 'The run is in %s: metrics.jsonl, loss.png, checkpoints/. The deck is inputs/quickstart.toml.\n' "$run"
