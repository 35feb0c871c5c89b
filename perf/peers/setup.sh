#!/bin/bash
# Makes the peers' Python environment: PyTorch, torchtitan (for SimpleFSDP), torchao (for Float8), transformers and h5py, which also make the golden files.
# WEFT_PEERS_VENV is where it lives (default: $HOME/.cache/weft/peers); one that works already is left as it is.
# Prints the path of its python.
set -euo pipefail
venv=${WEFT_PEERS_VENV:-$HOME/.cache/weft/peers}
works() { "$venv/bin/python" -c 'import torch, h5py, transformers, torchao, torchtitan.experiments.graph_trainer.simple_fsdp' >/dev/null 2>&1; }
if ! works; then
  python3 -m venv "$venv" || { echo "setup.sh: cannot make $venv (on Debian: apt-get install python3-venv)" >&2; exit 1; }
  "$venv/bin/pip" install --quiet torch==2.15.0 torchtitan==0.3.0 torchao==0.18.0 transformers h5py numpy >&2
  works || { echo "setup.sh: $venv does not import torchtitan's SimpleFSDP; see: $venv/bin/python -c 'import torchtitan.experiments.graph_trainer.simple_fsdp'" >&2; exit 1; }
fi
echo "$venv/bin/python"
