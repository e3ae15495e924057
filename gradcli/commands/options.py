"""The options commands share, each defined once."""

from typing import Annotated

import typer

POINT, RESULT, PROGRAM, NATIVE = "Point", "Result", "Program", "Framework"

Targets = Annotated[
    list[str],
    typer.Argument(
        metavar="TARGET... [NAME=VALUE]...",
        help="Expressions or file.py:name, then values; - reads lines from standard input.",
        show_default=False,
    ),
]
Target = Annotated[
    list[str],
    typer.Argument(
        metavar="TARGET [NAME=VALUE]...", help="An expression or file.py:name, then values.", show_default=False
    ),
]
At = Annotated[
    list[str] | None,
    typer.Option(
        "--at",
        "-a",
        metavar="POINT",
        help='Values: "x=0.5, W=randn(3,4), y=@y.npy"; @point.npz or file.py:name is a whole point.',
        rich_help_panel=POINT,
        show_default=False,
    ),
]
Wrt = Annotated[
    str | None,
    typer.Option(
        "--wrt",
        metavar="NAMES",
        help="Inputs to differentiate: x,W; globs allowed.  [default: all]",
        rich_help_panel=POINT,
        show_default=False,
    ),
]
Seed = Annotated[
    str, typer.Option("--seed", metavar="N|random", help="Seed of everything drawn.", rich_help_panel=POINT)
]
Shapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shapes",
        metavar="SHAPES",
        help='Shapes of drawn inputs: W:3,4 or "W: 3 4; x: 4".',
        rich_help_panel=POINT,
        show_default=False,
    ),
]
Points = Annotated[
    int | None,
    typer.Option(
        "--points",
        metavar="N",
        min=1,
        max=1000,
        help="How many points to draw when none is given.  [default: 3]",
        rich_help_panel=POINT,
        show_default=False,
    ),
]
Grad = Annotated[
    str | None,
    typer.Option(
        "--grad",
        metavar="CLAIM",
        help='Your gradient: a function (focal_grad, file.py:g) or "x=y*cos(x*y), y=..."; '
        'shared statements first: "p=softmax(z); z=p-y".',
        show_default=False,
    ),
]
Jac = Annotated[
    str | None,
    typer.Option(
        "--jac",
        metavar="CLAIM",
        help="Your Jacobian, indexed [output, input], for a vector result.",
        show_default=False,
    ),
]
Hess = Annotated[str | None, typer.Option("--hess", metavar="CLAIM", help="Your Hessian.", show_default=False)]
Jvp = Annotated[
    str | None, typer.Option("--jvp", metavar="NAME", help="Your product J v: NAME(x, v).", show_default=False)
]
Vjp = Annotated[
    str | None, typer.Option("--vjp", metavar="NAME", help="Your product w J: NAME(x, w).", show_default=False)
]
Hvp = Annotated[
    str | None, typer.Option("--hvp", metavar="NAME", help="Your product H v: NAME(x, v).", show_default=False)
]
ValueAndGrad = Annotated[
    bool, typer.Option("--value-and-grad", help="The target returns its value and its gradient, which is checked.")
]
AllowPython = Annotated[
    bool, typer.Option("--allow-python", help="Lines of standard input may name Python code, which is run.")
]
Order = Annotated[
    int, typer.Option("--order", metavar="N", min=1, max=2, help="Order of the derivative: 2 checks the Hessian.")
]
Threads = Annotated[
    int,
    typer.Option(
        "--threads", metavar="N", min=1, max=1024,
        help="Threads of numerical libraries: BLAS, OpenMP. Sums over threads differ in the last digits.",
    ),
]  # fmt: skip
Timeout = Annotated[
    str | None,
    typer.Option(
        "--timeout",
        metavar="TIME",
        help="Time for all of it: 90s, 5min; then what is finished is shown.",
        show_default=False,
    ),
]
TimeLimit = Annotated[
    str | None,
    typer.Option(
        "--timeout",
        metavar="TIME",
        help="Time for all of it: 90s, 5min; where it is not enough nothing is shown, and the status is 3.",
        show_default=False,
    ),
]
RequireClaim = Annotated[bool, typer.Option("--require-claim", help="Without a claim, exit with status 2.")]
Modes = Annotated[
    str | None,
    typer.Option(
        "--modes",
        metavar="LIST",
        help="Modes to run: names, unique prefixes, fd cs fwd rev, all; torch, jax, tensorflow, mlx where named.  "
        "[default: all, certified if quick]",
        show_default=False,
    ),
]
Rtol = Annotated[
    float | None,
    typer.Option(
        "--rtol",
        metavar="R",
        min=0,
        help="A fixed relative tolerance for the claim instead of a computed one.",
        show_default=False,
    ),
]
Atol = Annotated[
    float | None,
    typer.Option(
        "--atol",
        metavar="A",
        min=0,
        help="A fixed absolute tolerance for the claim instead of a computed one.",
        show_default=False,
    ),
]
Step = Annotated[
    float | None,
    typer.Option("--h", metavar="H", help="A fixed step for differences; gradcli chooses its own.", show_default=False),
]
Bounds = Annotated[
    list[str] | None,
    typer.Option(
        "--bounds",
        metavar="NAME=LOW:HIGH",
        help='Edges of the domain: "k=0:inf"; no step leaves it.',
        show_default=False,
    ),
]
Scale = Annotated[
    list[str] | None,
    typer.Option(
        "--scale", metavar="NAME=SIZE", help='Typical size of an input, for its steps: "x=1e-3".', show_default=False
    ),
]
Budget = Annotated[
    int | None,
    typer.Option(
        "--budget", metavar="N", min=1, help="Evaluations of f that differences may take.", show_default=False
    ),
]
Mutate = Annotated[
    bool, typer.Option("--mutate", help="Plant mistakes in the gradient under test; report the smallest caught.")
]
SavePoint = Annotated[
    str | None,
    typer.Option(
        "--save-point", metavar="FILE", help="Keep the first point that does not pass (or the first): .npz, .json.",
        rich_help_panel=RESULT, show_default=False,
    ),
]  # fmt: skip
Jacobian = Annotated[bool, typer.Option("--jacobian", help="Insist on a vector result, and compare its Jacobian.")]
CostFlag = Annotated[bool, typer.Option("--cost", help="Show operations by kind, and memory, of each mode.")]
Columns = Annotated[
    str | None,
    typer.Option(
        "--columns", metavar="LIST", show_default=False,
        help="Columns: digits, median, bound, held, calls, time/f, seconds, ops, adds, mults, fn, memory, sweeps.",
    ),
]  # fmt: skip
Sizes = Annotated[
    str | None,
    typer.Option(
        "--sizes", metavar="NAME=N,N,...", show_default=False,
        help="How cost grows: sizes of a name used in --at or --shapes, or of a parameter (depth).",
    ),
]  # fmt: skip
LossScale = Annotated[
    int | None,
    typer.Option(
        "--loss-scale", metavar="K", min=0, max=120, show_default=False,
        help="With --dtype: scale the loss by 2^K.  [default: the largest that fits, where anything underflows]",
    ),
]  # fmt: skip
Accumulate = Annotated[
    int | None,
    typer.Option(
        "--accumulate", metavar="N", min=2, show_default=False,
        help="Compare the gradients of N micro-batches with that of the full batch.",
    ),
]  # fmt: skip
Schemes = Annotated[
    str | None,
    typer.Option(
        "--schemes", metavar="LIST", show_default=False,
        help="Schemes: forward, backward, central, 5-point, 7-point, richardson, complex.  [default: all but backward]",
    ),
]  # fmt: skip
Dtype = Annotated[
    str | None,
    typer.Option(
        "--dtype", metavar="LIST", show_default=False,
        help="Formats to compute in: float16, bfloat16, float32, float64, longdouble, float8_e4m3fn, float8_e5m2.",
    ),
]  # fmt: skip
Bits = Annotated[
    str | None,
    typer.Option(
        "--bits", metavar="LIST", help="Numbers of so many bits, too, rounded to nearest: 113, 400.", show_default=False
    ),
]
Each = Annotated[bool, typer.Option("--each", help="Sweep along every entry, not along all inputs at once.")]
SizedShapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shapes", metavar="SHAPES", show_default=False, rich_help_panel=POINT,
        help='Sizes by name or number: "W: m n; x: n; lam:"; an input that is not named is a number.',
    ),
]  # fmt: skip
Assume = Annotated[
    list[str] | None,
    typer.Option(
        "--assume", metavar="FACTS", show_default=False, rich_help_panel=POINT,
        help='What holds of inputs: "S: spd; y: simplex; Y: onehot rows; t: signs; q: positive; A: diagonal, orthogonal".',
    ),
]  # fmt: skip
AnswerText = Annotated[
    str | None,
    typer.Option("--answer", metavar="EXPR", help="A derivation of your own: is it right?", show_default=False),
]
Layout = Annotated[
    str, typer.Option("--layout", metavar="KIND", help="denominator: shaped as the input; numerator: transposed.")
]
Style = Annotated[
    str, typer.Option("--style", metavar="KIND", help="Steps by differential, graph (adjoints) or index.")
]
CodeIn = Annotated[
    str,
    typer.Option("--code", metavar="LIST", help="Languages of the code: numpy, torch, jax, c, all; --json has all."),
]
NoSteps = Annotated[bool, typer.Option("--no-steps", help="Only the result, not how it is found.")]
ModeTimeout = Annotated[
    str | None,
    typer.Option("--mode-timeout", metavar="TIME", help="Stop a mode after this time: 10s, 2min (no limit)."),
]
Allow = Annotated[
    str | None,
    typer.Option(
        "--allow", metavar="KINDS", help="Findings that count as success: kink,staircase,noise,...", show_default=False
    ),
]
AllowInconclusive = Annotated[
    bool, typer.Option("--allow-inconclusive", help="Every inconclusive verdict but timeout counts as success.")
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORM",
        help="What standard output carries.  [default: text]",
        rich_help_panel=RESULT,
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="The same as --format json.", rich_help_panel=RESULT)]
Out = Annotated[
    list[str] | None,
    typer.Option(
        "--out",
        "-o",
        metavar="FILE",
        help="Also write a file; its ending says the form. Repeatable.",
        rich_help_panel=RESULT,
        show_default=False,
    ),
]
Plot = Annotated[
    list[str] | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        help="Draw it: a file .svg or .png (matplotlib). Repeatable.",
        rich_help_panel=RESULT,
        show_default=False,
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing; the exit status says it all.", rich_help_panel=RESULT)
]
Color = Annotated[
    bool | None,
    typer.Option(
        "--color/--no-color",
        help="Colour, whatever the stream is.  [default: on a terminal]",
        rich_help_panel=RESULT,
        show_default=False,
    ),
]
Traceback = Annotated[
    bool, typer.Option("--traceback", help="Show Python's traceback with an error.", rich_help_panel=PROGRAM)
]
Framework = Annotated[
    str | None,
    typer.Option(
        "--framework", metavar="NAME", rich_help_panel=NATIVE, show_default=False,
        help="What a target is written in: torch, jax, tensorflow, mlx, numpy.  [default: told by its names]",
    ),
]  # fmt: skip
Device = Annotated[
    str | None,
    typer.Option(
        "--device", metavar="NAME", rich_help_panel=NATIVE, show_default=False, help="Where it runs: cpu, cuda, cuda:1, mps."
    ),
]  # fmt: skip
Format_ = Annotated[
    str | None,
    typer.Option(
        "--dtype", metavar="NAME", rich_help_panel=NATIVE, show_default=False,
        help="The format whose gradient is checked: float32, tf32, bfloat16, float16.  [default: float64]",
    ),
]  # fmt: skip
Autocast = Annotated[
    str | None,
    typer.Option(
        "--autocast", metavar="NAME", rich_help_panel=NATIVE, show_default=False,
        help="Check the gradient under torch.autocast: bfloat16, or float16, with a GradScaler too.",
    ),
]  # fmt: skip
Compile = Annotated[
    bool, typer.Option("--compile", rich_help_panel=NATIVE, help="Check the gradient under torch.compile, jax.jit, ...")
]
Localise = Annotated[
    bool, typer.Option("--localise", rich_help_panel=NATIVE, help="Check each module met on the way alone, too.")
]
Expect = Annotated[
    str | None,
    typer.Option(
        "--expect", metavar="KINDS", rich_help_panel=NATIVE, show_default=False,
        help="What is deliberate: straight-through estimators, of which the surrogate is checked.",
    ),
]  # fmt: skip
