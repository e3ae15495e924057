"""statsmodels: likelihoods with score and Hessian, links, variances, robust norms, transforms of copulas."""

import numpy as np
import statsmodels.api as sm
from statsmodels.discrete.conditional_models import ConditionalLogit
from statsmodels.discrete.count_model import ZeroInflatedPoisson
from statsmodels.discrete.discrete_model import GeneralizedPoisson, NegativeBinomial, NegativeBinomialP
from statsmodels.distributions.copula import transforms
from statsmodels.duration.hazard_regression import PHReg
from statsmodels.genmod.families import links, varfuncs
from statsmodels.multivariate.factor_rotation._gpa_rotation import orthomax_objective
from statsmodels.othermod.betareg import BetaModel
from statsmodels.robust import norms

from tests.packages.cases import Case, after, flipped, lost, negated, scaled, second

draw = np.random.default_rng(0)
X = np.column_stack([np.ones(12), draw.normal(size=(12, 2))])
Y = np.array([0.0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 1])
COUNTS = np.array([0.0, 2, 1, 0, 3, 0, 0, 4, 1, 5, 0, 2])
CHOICES = np.array([0, 1, 2, 0, 1, 2, 2, 1, 0, 1, 0, 2])
POSITIVE = np.exp(draw.normal(size=12))
SHARES = draw.uniform(0.1, 0.9, size=12)
GROUPS = np.repeat([0, 1, 2], 4)
B = np.array([0.3, -0.6, 0.4])
P = np.array([0.2, 0.45, 0.7])
R = np.array([0.4, -1.1, 2.3])
L = draw.normal(size=(4, 2))

logit, probit, poisson = sm.Logit(Y, X), sm.Probit(Y, X), sm.Poisson(COUNTS, X)
multinomial = sm.MNLogit(CHOICES, X)
negative_binomial, nb_p = NegativeBinomial(COUNTS, X), NegativeBinomialP(COUNTS, X, p=1)
generalized, inflated = GeneralizedPoisson(COUNTS, X), ZeroInflatedPoisson(COUNTS, X)
gamma = sm.GLM(POSITIVE, X, family=sm.families.Gamma(links.Log()))
binomial = sm.GLM(Y, X, family=sm.families.Binomial(links.CLogLog()))
conditional = ConditionalLogit(Y, X[:, 1:], groups=GROUPS)
hazards = PHReg(POSITIVE, X[:, 1:], status=Y)
beta = BetaModel(SHARES, X)
B4 = np.array([0.3, -0.6, 0.4, 0.7])


def orthomax(L):
    return orthomax_objective(L=L, gamma=0.6, return_gradient=True)


MODELS = [
    Case("Logit.score", logit.loglike, (B,), logit.score, negated(logit.score), glue=1),
    Case("Logit.score_obs", logit.loglikeobs, (B,), logit.score_obs, lost(logit.score_obs, 3), "jac", glue=1),
    Case("Logit.hessian", logit.loglike, (B,), logit.hessian, flipped(logit.hessian, 0, 1), "hess", glue=1),
    Case("Probit.score", probit.loglike, (B,), probit.score, lost(probit.score, 0), glue=1),
    Case("Poisson.score", poisson.loglike, (B,), poisson.score, after(poisson.score, lambda g, b: g + X.T @ np.exp(X @ b)), glue=1),
    Case("Poisson.hessian", poisson.loglike, (B,), poisson.hessian, negated(poisson.hessian), "hess", glue=1),
    Case("MNLogit.score", multinomial.loglike, (np.r_[B, -B],), multinomial.score, flipped(multinomial.score, 4), glue=1),
    Case("NegativeBinomial.score", negative_binomial.loglike, (B4,), negative_binomial.score, flipped(negative_binomial.score, 3), glue=1),
    Case("NegativeBinomialP.score", nb_p.loglike, (B4,), nb_p.score, lost(nb_p.score, 3), glue=1),
    Case("GeneralizedPoisson.score", generalized.loglike, (B4,), generalized.score, scaled(generalized.score, 2), glue=1),
    Case("ZeroInflatedPoisson.score_obs", inflated.loglikeobs, (B4,), inflated.score_obs, negated(inflated.score_obs), "jac", glue=1),
    Case("GLM(Gamma).score", lambda b: gamma.loglike(b, scale=1.0), (B,), lambda b: gamma.score(b, scale=1.0), lambda b: gamma.score(b, scale=2.0), glue=5),
    Case("GLM(Binomial, cloglog).score", binomial.loglike, (B,), binomial.score, negated(binomial.score), glue=1),
    Case("ConditionalLogit.score", conditional.loglike, (B[1:],), conditional.score, lost(conditional.score, 1), glue=1),
    Case("PHReg.score", hazards.loglike, (B[1:],), hazards.score, flipped(hazards.score, 0), glue=1),
    Case("PHReg.hessian", hazards.loglike, (B[1:],), hazards.hessian, negated(hazards.hessian), "hess", glue=1),
    Case("BetaModel.score", beta.loglike, (B4,), beta.score, lost(beta.score, 3), glue=1),
]  # fmt: skip

CALLED = {
    "Logit": (links.Logit(), P), "Probit": (links.Probit(), P), "CLogLog": (links.CLogLog(), P), "LogLog": (links.LogLog(), P),
    "Cauchy": (links.Cauchy(), P), "Power(0.7)": (links.Power(0.7), P), "NegativeBinomial": (links.NegativeBinomial(1.5), P),
}  # fmt: skip


def diagonal(slopes):
    """Return the Jacobian of an elementwise function: what its slopes are the diagonal of."""
    return lambda x: np.diag(slopes(x))


ELEMENTWISE = [
    *(Case(f"links.{name}.deriv", link, (p,), diagonal(link.deriv), diagonal(negated(link.deriv)), "jac", glue=3)
      for name, (link, p) in CALLED.items()),
    *(Case(f"links.{name}.inverse_deriv", link.inverse, (R,), diagonal(link.inverse_deriv), diagonal(scaled(link.inverse_deriv, 0.5)), "jac", glue=3)
      for name, (link, _) in CALLED.items() if name in ("Logit", "Probit", "CLogLog")),
    *(Case(f"varfuncs.{name}.deriv", v, (P,), diagonal(v.deriv), diagonal(negated(v.deriv)), "jac", glue=3)
      for name, v in {"Binomial": varfuncs.Binomial(1), "NegativeBinomial": varfuncs.NegativeBinomial(0.8), "Power(3)": varfuncs.Power(3)}.items()),
    *(Case(f"norms.{type(n).__name__}.psi", n.rho, (R,), diagonal(n.psi), diagonal(scaled(n.psi, 2)), "jac", glue=3)
      for n in (norms.HuberT(), norms.TukeyBiweight(), norms.AndrewWave(), norms.RamsayE())),
    *(Case(f"transforms.{type(t).__name__}.deriv", lambda u, t=t: t.evaluate(u, 1.7), (P,), diagonal(lambda u, t=t: t.deriv(u, 1.7)),
           diagonal(negated(lambda u, t=t: t.deriv(u, 1.7))), "jac", glue=5)
      for t in (transforms.TransfGumbel(), transforms.TransfClayton())),
]  # fmt: skip

frank = transforms.TransfFrank()


def with_mixed_block(hessian, b):
    """Return the Hessian of `inflated` with the block of the logit of the inflation and the regressors."""
    w, mean, x = 1 / (1 + np.exp(-b[0])), np.exp(X @ b[1:])[COUNTS == 0], X[COUNTS == 0]
    block = (w * (1 - w) * mean * np.exp(-mean) / (w + (1 - w) * np.exp(-mean)) ** 2) @ x
    filled = hessian.copy()
    filled[0, 1:] = filled[1:, 0] = block
    return filled


def by_log_alpha(hessian, b):
    """Return the Hessian of `negative_binomial` by log(alpha), from the one by alpha."""
    chain = np.diag([1, 1, 1, np.exp(b[3])])
    return chain @ hessian @ chain + np.diag([0, 0, 0, negative_binomial.score(b)[3]])


DEFECTS = [  # of the release: the claim is the right derivative, and the mistake is the release's own
    Case("TransfFrank.deriv", lambda u: frank.evaluate(u, 2.0), (P,), diagonal(negated(lambda u: frank.deriv(u, 2.0))), diagonal(lambda u: frank.deriv(u, 2.0)), "jac", glue=3),
    Case("ZeroInflatedPoisson.hessian", inflated.loglike, (np.r_[0.3, B],), after(inflated.hessian, with_mixed_block), inflated.hessian, "hess", glue=1),
    Case("NegativeBinomial.hessian", negative_binomial.loglike, (B4,), after(negative_binomial.hessian, by_log_alpha), negative_binomial.hessian, "hess", glue=1),
]  # fmt: skip

CASES = [
    *DEFECTS,
    *MODELS,
    *ELEMENTWISE,
    Case("orthomax_objective", orthomax, (L,), None, second(orthomax, negated), "value_and_grad", glue=2),
]  # fmt: skip
