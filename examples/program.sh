#!/usr/bin/env bash
# Runs a program as it is, and checks the gradient that it uses at values that it used; it is wrong once a link touches the floor.
# status: 1
set -o pipefail
cd "$(dirname "$0")" || exit
gradcli run chain.py 2>&1 |
  sed '/^             df/,/^  More:/d' # leave out the values and the modes
