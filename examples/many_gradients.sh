#!/usr/bin/env bash
# Checks many gradients in one call, as JSON lines in and out, because starting the program costs more than a check.
# status: 1
set -o pipefail
cd "$(dirname "$0")" || exit
gradcli check - --format ndjson --modes cert,rev,fd < data/gradients.jsonl | python3 -c '
import json, sys
for report in map(json.loads, sys.stdin):
    print("line", report["line"], "status", report["exit_status"], report["verdict"], report["target"]["text"])'
