#!/usr/bin/env bash
# Meets a kink: at relu(0) no derivative exists, so the check is status 3, unless the convention is accepted.
check=(gradcli check "sum(relu(x))" --grad "x > 0" --at "x=[1, 0, -2]" --modes cert,rev,fd)
"${check[@]}" | sed '/^  mode /,/^$/d' # leave out the table of modes
"${check[@]}" --quiet
echo "status $?"
"${check[@]}" --quiet --allow kink
echo "status $? with --allow kink"
