#!/usr/bin/env bash
# Checks the hand-written gradients of two Python functions: one of an array, one of a dict of parameters.
set -o pipefail
cd "$(dirname "$0")" || exit
gradcli check losses.py:focal --grad focal_grad --at "z=randn(8), y=ones(8)" --modes certified,reverse,fd | head -1
gradcli check losses.py:network --grad network_grad --at losses.py:network_point --modes certified,reverse,fd
