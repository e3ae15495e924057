#!/usr/bin/env bash
# Checks the gradients of a linear layer by matrix, input and bias, at data from files and at drawn numbers.
set -o pipefail
cd "$(dirname "$0")" || exit
loss="sum((W@x + b)**2)"
claim="r = 2*(W@x + b); W = outer(r, x), x = W.T@r, b = r"
gradcli check "$loss" --grad "$claim" --at "W=@data/W.csv, x=@data/x.json, b=@data/b.csv" --modes cert,rev,fd |
  sed -n 1,4p # the verdict, the value and the point
gradcli check "$loss" --grad "$claim" --shapes "W: 5 4; x: 4; b: 5" --modes cert,rev,fd |
  grep "^point" # three points are drawn, the same ones each time
