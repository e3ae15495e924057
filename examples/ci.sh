#!/usr/bin/env bash
# Shows what a failing check adds under GitHub Actions: an annotation on standard output and a step summary.
# status: 1
export GITHUB_ACTIONS=true GITHUB_STEP_SUMMARY
GITHUB_STEP_SUMMARY=$(mktemp)
gradcli check "mean((x - y)**2)" --grad "x = 2*(x - y)" --wrt x --at "x=[1, 2, 4], y=[0, 1, 0]" --quiet
status=$?
sed -n 3,14p "$GITHUB_STEP_SUMMARY" # below a heading: the verdict and the wrong entries
rm "$GITHUB_STEP_SUMMARY"
exit $status
