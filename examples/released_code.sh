#!/usr/bin/env bash
# Checks a derivative in a released package: that of the Frank copula's generator in statsmodels 0.15.0 has its sign flipped.
# status: 1
set -o pipefail
cd "$(dirname "$0")" || exit
gradcli check copula.py:generator --grad generator_slope t=0.3 |
  sed -n '1p; /Likely/,/corrected/p' # the verdict and the mistake
