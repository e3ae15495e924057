#!/usr/bin/env bash
# Checks a gradient that forgets the 1/n of a mean over n rows, to learn which mistake it is; wrong is status 1.
# status: 1
set -o pipefail
cd "$(dirname "$0")" || exit
gradcli check "cross_entropy(z, y)" --grad "z = softmax(z, axis=-1) - y" \
  --at "z=@data/logits.csv, y=@data/labels.csv" --modes certified,reverse,finite-difference |
  sed '/^  f = /d; /^  mode /,/^$/d' # leave out the value and the table of modes
