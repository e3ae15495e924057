#!/usr/bin/env bash
# Walks through backpropagation by hand-sized numbers: forward values, local partials, and how adjoints are summed.
gradcli trace "v3 = x1 + x2; v3 * x1" x1=3 x2=4
