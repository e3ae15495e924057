#!/usr/bin/env bash
# Shows the gradient of tanh where it is nearly flat: 1 - tanh(x)**2, rounded, is 0 there, the rule table is not.
# status: 1
set -o pipefail
gradcli ops tanh --format csv | awk -F, 'NR == 2 { print $1 ":", ($6 < 4 ? "below" : "above"), "4 ulps everywhere" }'
gradcli check "tanh(x)" x=25 --grad "1 - tanh(x)**2" --digits 9 --modes cert,rev,complex --format csv |
  awk -F, 'NR > 1 { printf "%s %.6g %s\n", $2, $5, $7 }'
