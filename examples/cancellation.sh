#!/usr/bin/env bash
# Compares the modes where f cancels 8 digits: differences lose them, the rules do not; the bound says how many.
set -o pipefail
gradcli compare-modes "(1e8 + x**2) - 1e8" x=0.5 --modes certified,reverse,finite-difference --format csv |
  awk -F, '{ if (NR == 1) print $1, $4, $5; else printf "%s %.7f %.0e\n", $1, $4, $5 }'
