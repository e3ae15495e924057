"""scipy beside its distributions: filters, transforms, splines, quadrature on samples, sparse products, distances, matrices."""

import numpy as np
import scipy.fft
import scipy.integrate
import scipy.interpolate as ip
import scipy.linalg as la
import scipy.ndimage
import scipy.signal as sg
import scipy.sparse as sparse
import scipy.sparse.linalg as spla
import scipy.stats
from scipy.spatial.distance import cdist, cosine, pdist, squareform

T = np.array([0.0, 0.4, 1.1, 1.5, 2.3])
Y = np.array([0.3, 1.2, 2.2, 0.7, 0.9])
PLACES = np.array([0.25, 1.2, 2.1])
IMAGE = np.array([[0.3, 1.2, -0.2], [0.4, 0.7, 0.1], [0.9, -1.0, 0.3], [0.2, 0.1, 0.5]])
A = np.array([[4.0, 0.3, -0.2], [0.5, 3.0, 0.1], [-0.4, 0.7, 5.0]])
SPARSE = sparse.csr_matrix(np.array([[2.0, 0.0, 0.3], [0.0, 1.5, 0.0], [0.2, 0.0, 3.0]]))
FACTORS = la.lu_factor(A)
GRID = ip.RegularGridInterpolator((T, T[:3]), np.outer(Y, Y[:3]), bounds_error=False, fill_value=None)
SPLINE = ip.CubicSpline(T, Y, bc_type="natural")

SMOOTH = ip.UnivariateSpline(T, Y, s=0.3, k=2, ext=3)
RADIAL = ip.RBFInterpolator(IMAGE, IMAGE[:, 0] ** 2, kernel="cubic")


def w(y):
    """Weight the entries, so that no two of them count alike."""
    return np.sum(y * np.arange(1.0, np.size(y) + 1).reshape(np.shape(y)))


def quadrature_on_samples(y):
    """Rules for samples; cumulative ones too."""
    whole = scipy.integrate.trapezoid(y, T) + scipy.integrate.simpson(y, x=T) + scipy.integrate.romb(y, dx=0.5)
    return (
        whole + w(scipy.integrate.cumulative_trapezoid(y, T, initial=0)) + w(scipy.integrate.cumulative_simpson(y, x=T))
    )


def convolutions(x, y):
    total = w(sg.convolve(x, y)) + w(sg.convolve(x, y, "same") ** 2) + w(sg.convolve(y, x, "valid") ** 2)
    return total + w(sg.fftconvolve(x, y) ** 2) + w(sg.correlate(x, y)) + w(sg.correlate(x, y, "same"))


def convolutions_of_images(x, y):
    total = w(sg.convolve2d(x, y) ** 2) + w(sg.convolve2d(x, y, "same") ** 2) + w(sg.correlate2d(x, y, "valid") ** 2)
    return total + w(scipy.ndimage.gaussian_filter(x, 0.8)) + w(scipy.ndimage.laplace(x) ** 2)


def filters(b, a, x):
    """A filter by its coefficients and its input; others by their input."""
    total = w(sg.lfilter(b, a, x) ** 2) + w(sg.lfilter(b, [1.0, 0.3], x)) + w(sg.lfilter([1.0, 0.2, 0.3], a, x))
    total = total + w(sg.filtfilt([0.2, 0.3], [1.0, -0.4], x, padlen=2)) + w(sg.savgol_filter(x, 3, 1))
    return total + w(sg.detrend(x) ** 2) + w(sg.sosfilt(sg.butter(4, 0.3, output="sos"), x))


def transforms(x):
    return (
        w(np.abs(scipy.fft.fft(x)) ** 2)
        + w(scipy.fft.dct(x, norm="ortho") ** 2)
        + w(scipy.fft.irfft(scipy.fft.rfft(x)))
    )


def spectra(x):
    """Spectral estimates of two rows of samples, with several windows, trends and lengths."""
    total = np.sum(np.log(sg.welch(x[0], nperseg=6)[1])) + w(sg.periodogram(x, 10.0)[1])
    ruled = sg.welch(x, 2.0, window="hamming", nperseg=5, noverlap=2, nfft=7, detrend="linear", scaling="spectrum")[1]
    cross = sg.csd(x[0], x[1], nperseg=6)[1]
    return total + w(ruled) + w(np.abs(cross) ** 2) + w(sg.spectrogram(x.T, nperseg=6, axis=0)[2])


def splines_of_values(y):
    """Splines whose values are differentiated, at fixed places; their derivatives and integrals."""
    spline = ip.CubicSpline(T, y)
    total = w(spline(PLACES)) + w(spline(PLACES, 1)) + spline.integrate(0.2, 2.0) + w(spline.derivative()(PLACES))
    total = total + w(ip.interp1d(T, y)(PLACES)) + w(ip.interp1d(T, y, kind="cubic")(PLACES))
    return total + w(ip.PchipInterpolator(T, y)(PLACES)) + w(ip.make_interp_spline(T, y, k=3)(PLACES))


def splines_of_fitpack(y, t):
    """Splines that interpolate, by their values; one that smooths, at places."""
    total = w(ip.UnivariateSpline(T, y, s=0)(PLACES) ** 2) + w(ip.InterpolatedUnivariateSpline(T, y, k=2)(t))
    return total + w(ip.LSQUnivariateSpline(T, y, [1.2], k=2)(PLACES)) + w(SMOOTH(t) ** 2) + w(SMOOTH(t, 1))


def radial_functions(d, places):
    """Interpolation between scattered points, by the values and the places; one place is a point of the data."""
    total = (
        w(ip.RBFInterpolator(IMAGE, d)(places) ** 2)
        + w(RADIAL(places))
        + w(ip.RBFInterpolator(IMAGE, d[:, 0])(IMAGE[:2]))
    )
    return total + w(ip.RBFInterpolator(IMAGE, d, smoothing=0.1, kernel="gaussian", epsilon=0.7, degree=1)(places))


def splines_at_places(t):
    """Splines at places that are differentiated."""
    total = w(SPLINE(t)) + w(ip.interp1d(T, Y, fill_value="extrapolate")(t + 1)) + w(ip.splev(t, ip.splrep(T, Y)))
    return total + w(ip.PchipInterpolator(T, Y)(t)) + w(ip.make_interp_spline(T, Y)(t)) + w(np.interp(t, T, Y))


def splines_along_an_axis(y, t):
    """Splines of several rows, along the axis between two others, at a table of places."""
    return w(ip.CubicSpline(T, y, axis=1)(t)) + w(ip.PchipInterpolator(T, y, axis=1)(t))


def grids(values, places):
    own = ip.RegularGridInterpolator((T, T[:3]), values)
    return w(own(places)) + w(GRID(places + 1)) + w(ip.interpn((T, T[:3]), values, places))


def sparse_products(x):
    total = np.sum((SPARSE @ x) ** 2) + np.sum(SPARSE.dot(x) * x) + np.sum((x @ SPARSE) ** 2)
    return total + w(spla.spsolve(SPARSE.tocsc(), x)) + w(SPARSE.T @ x)


def kernel_of_distances(x, length):
    """A Gaussian process's covariance by cdist, and pairs by pdist."""
    k = np.exp(-cdist(x, x, "sqeuclidean") / (2 * length**2)) + 0.1 * np.eye(len(x))
    return la.cho_solve(la.cho_factor(k), Y[:4]) @ Y[:4] + w(squareform(pdist(x))) + cosine(x[0], x[1])


def exponential_of_a_matrix(t):
    """A turn of the plane, with growth."""
    return w(la.expm(np.array([[0.0, t], [-t, 0.3]])))


def functions_of_a_matrix(a):
    return w(la.expm(a / 3)) + w(la.logm(a)) + w(la.sqrtm(a))


def factorisations(a, b):
    p, lower, upper = la.lu(a[[2, 0, 1]])
    total = w(p @ lower) + w(upper) + w(la.lu_solve(la.lu_factor(a), b)) + w(la.lu_solve(FACTORS, b, trans=1))
    values, vectors = la.eigh(a @ a.T)
    left, sizes, right = la.svd(a)
    total = total + w(values) + w(vectors**4) + w(left**4) + w(sizes) + w((left * sizes) @ right)
    return total + w(la.lstsq(a[:, :2], b)[0]) + w(la.eigh(A + A.T, a @ a.T, eigvals_only=True))


def structured_matrices(a):
    total = w(la.hankel(a[0], a[1]) ** 2) + w(la.companion(a[0])) + w(la.khatri_rao(a, a))
    return total + w(la.solve_toeplitz((a[0], a[1]), a[2])) + w(la.solve_circulant(a[0], a[2]))


def made_inside(y):
    """Knots, counts and filters that the function makes itself."""
    spline = ip.CubicSpline(np.arange(5.0), y)
    grid = ip.interp1d(np.arange(5.0), y, kind="cubic")
    smooth = sg.filtfilt(np.array([0.2, 0.3]), np.array([1.0, -0.4]), y, padlen=2)
    counts = scipy.stats.poisson.logpmf(np.array([0.0, 2.0, 1.0, 3.0, 1.0]), np.exp(y))
    return spline(2.3) + grid(np.array([1.7, 3.2])).sum() + w(smooth) + w(counts) + w(la.toeplitz(np.arange(5.0)) @ y)


POINTS = {
    quadrature_on_samples: {"y": Y},
    convolutions: {"x": Y, "y": PLACES},
    convolutions_of_images: {"x": IMAGE, "y": np.array([[0.3, -0.2], [1.1, 0.7]])},
    filters: {"b": PLACES, "a": np.array([2.0, 0.3, 0.4]), "x": Y},
    transforms: {"x": Y},
    spectra: {"x": np.sin(np.arange(24.0) ** 1.3).reshape(2, 12)},
    splines_of_values: {"y": Y},
    splines_of_fitpack: {"y": Y, "t": PLACES + 0.07},
    radial_functions: {"d": IMAGE[:, :2] ** 2, "places": IMAGE[:3] + 0.2},
    splines_at_places: {"t": PLACES},
    splines_along_an_axis: {
        "y": np.sin(np.arange(4.0 * len(T))).reshape(2, len(T), 2),
        "t": np.array([[0.25, 1.2], [2.1, 0.7]]),
    },
    grids: {"values": np.outer(Y, Y[:3]), "places": np.array([[0.25, 0.7], [1.2, 0.9]])},
    sparse_products: {"x": PLACES},
    kernel_of_distances: {"x": IMAGE, "length": 0.7},
    exponential_of_a_matrix: {"t": 0.7},
    functions_of_a_matrix: {"a": A},
    factorisations: {"a": A, "b": PLACES},
    structured_matrices: {"a": A},
    made_inside: {"y": Y},
}
