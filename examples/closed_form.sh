#!/usr/bin/env bash
# The closed form of a gradient, as a textbook would print it, and as code; then a derivation of one's own is judged.

gradcli derive "mean((X@w - y)**2)" --shapes "X: m n; w: n; y: m" --wrt w --no-steps
gradcli derive "x@A@x" --shapes "A: n n; x: n" --wrt x --answer "2*A@x" --quiet || echo "2*A@x is wrong: A is not symmetric"
