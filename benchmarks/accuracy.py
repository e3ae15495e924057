"""The rule table in units in the last place.

    python benchmarks/accuracy.py

Each row's worst error over its whole domain, tiny, huge and saturated arguments included, against balls.
"""

from gradcli.study.accuracy import describe_primitives


def main() -> None:
    """Print the rows, worst first."""
    rows = sorted((op for op in describe_primitives() if op.ulps is not None), key=lambda op: -(op.ulps or 0.0))
    for op in rows:
        print(f"{op.name:16} {op.ulps:8.2f} ulps   {op.reason or ''}")
    over = [op.name for op in rows if (op.ulps or 0.0) > 8 and op.reason is None]
    print(f"{len(rows)} rows; over 8 ulps without a stated reason: {', '.join(over) or 'none'}")


if __name__ == "__main__":
    main()
