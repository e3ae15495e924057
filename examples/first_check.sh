#!/usr/bin/env bash
# Checks the gradient of a formula at one point, to see by how many independent ways it is confirmed.
gradcli check "x**2*y + 3*x" x=2 y=5
