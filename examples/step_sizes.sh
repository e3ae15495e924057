#!/usr/bin/env bash
# The best step of forward and central differences, and the digits there, in 113 bits, where nothing depends on the machine.

gradcli sweep "1/(1 + x**2)" x=0.7 --schemes forward,central --bits 113 --json |
  python -c "
import json, sys
for curve in json.load(sys.stdin)['curves']:
    best = curve['best']
    print(curve['scheme'], f'best at h = {best[\"h\"]:.0e},', round(best['digits']), 'digits')
"
