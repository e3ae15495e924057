#!/usr/bin/env bash
# Draws the same computation as a graph, in Mermaid for Markdown pages that render it.
gradcli trace "v3 = x1 + x2; v3 * x1" x1=3 x2=4 --format mermaid
