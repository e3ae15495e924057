"""scipy's solvers: what they return as the solution of an equation, differentiated by the rule for solutions.

`integrate` has differential equations and integrals, `optimize` roots and minima. Their derivatives are not those of the
solver's steps but those of the solution, to the solver's own error, which is estimated by the equation's residual.
`tolerances` has the tolerances of all of scipy's solvers, traced or not, and calls them with smaller ones.
"""
