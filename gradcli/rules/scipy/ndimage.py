"""scipy.ndimage: its linear filters and resampling, as functions of the image."""

from gradcli.rules.scipy.linear import linear_stand_ins

FUNCTIONS = linear_stand_ins(
    "scipy.ndimage",
    "input",
    *("gaussian_filter", "gaussian_filter1d", "gaussian_laplace", "uniform_filter", "uniform_filter1d", "convolve"),
    *("convolve1d", "correlate", "correlate1d", "laplace", "sobel", "prewitt", "zoom", "shift", "rotate"),
    *("map_coordinates", "spline_filter", "spline_filter1d", "affine_transform"),
)
