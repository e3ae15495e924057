#!/usr/bin/env bash
# Meets a kink: at relu(0) no derivative exists, so the check is status 3, unless the convention is accepted.
check=(gradcli check "sum(relu(x))" --at "x=[1, 0, -2]" --modes cert,rev,fd)
"${check[@]}" | sed '/^  mode /,/^$/d; /^  Again/,$d' # leave out the table of modes and the command
"${check[@]}" --quiet
echo "status $?"
"${check[@]}" --quiet --allow kink
echo "status $? with --allow kink"
"${check[@]}" --quiet --grad "x=[1, 0.3, 0]"
echo "status $? for a subgradient"
