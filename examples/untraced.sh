#!/usr/bin/env bash
# Checks the gradient of a function that numerical integration, which is C code, computes.
set -o pipefail
cd "$(dirname "$0")" || exit
gradcli check losses.py:arc --grad arc_grad a=1.5 --modes reverse,fd
