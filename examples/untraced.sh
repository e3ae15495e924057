#!/usr/bin/env bash
# Checks the gradient of a function that converts its input to fractions, in the standard library.
set -o pipefail
cd "$(dirname "$0")" || exit
gradcli check losses.py:spread --grad spread_grad 'x=[1, 2.5, 0.3]' --modes reverse,fd
