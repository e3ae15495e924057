"""Geometry: distances, rotations, cameras, meshes and signed distances."""

import functools
import math
from typing import NamedTuple

import numpy as np
from numpy import cos, sin
from numpy.linalg import norm

rng = np.random.default_rng(3)
EARTH_RADIUS_KM = 6371.0


def pairwise_distances(a, b):
    """Sum of Euclidean distances by the expanded square."""
    d2 = (a**2).sum(axis=1)[:, None] - 2 * a @ b.T + (b**2).sum(axis=1)
    return np.sqrt(np.clip(d2, 0, None)).sum()


def haversine(lat1, lon1, lat2, lon2):
    """Great-circle distance of two places in degrees, with math.*."""
    phi1, phi2 = math.radians(lat1), math.radians(lat2)
    dphi, dlmb = phi2 - phi1, math.radians(lon2 - lon1)
    a = math.sin(dphi / 2) ** 2 + math.cos(phi1) * math.cos(phi2) * math.sin(dlmb / 2) ** 2
    return 2 * EARTH_RADIUS_KM * math.asin(math.sqrt(a))


def rodrigues(w):
    """Rotation matrix of a rotation vector."""
    theta = norm(w)
    if theta < 1e-12:
        return np.eye(3)
    k = w / theta
    K = np.array([[0, -k[2], k[1]], [k[2], 0, -k[0]], [-k[1], k[0], 0]])
    return np.eye(3) + sin(theta) * K + (1 - cos(theta)) * K @ K


def rotate_points(w, points):
    """Weighted coordinates of rotated points."""
    return ((rodrigues(w) @ points.T).T * np.arange(1, 4)).sum()


def quaternion_multiply(q, r):
    """Hamilton product; w first."""
    w0, x0, y0, z0 = q
    w1, x1, y1, z1 = r
    return np.array(
        [
            w0 * w1 - x0 * x1 - y0 * y1 - z0 * z1,
            w0 * x1 + x0 * w1 + y0 * z1 - z0 * y1,
            w0 * y1 - x0 * z1 + y0 * w1 + z0 * x1,
            w0 * z1 + x0 * y1 - y0 * x1 + z0 * w1,
        ]
    )


def quaternion_rotation(q, v):
    """Rotate a vector by a quaternion, normalised in place."""
    q = q.copy()
    q /= np.sqrt(q @ q)
    conjugate = q * [1, -1, -1, -1]
    pure = np.concatenate([[0.0], v])
    rotated = functools.reduce(quaternion_multiply, [q, pure, conjugate])
    return rotated[1] + 2 * rotated[2] - rotated[3] ** 2


def slerp(p, q, t):
    """Spherical interpolation; falls back to linear when almost parallel."""
    p, q = p / norm(p), q / norm(q)
    dot = np.dot(p, q)
    if dot < 0.0:
        q, dot = -q, -dot
    if dot > 0.9995:
        r = p + t * (q - p)
        return (r / norm(r))[0]
    theta0 = np.arccos(np.clip(dot, -1, 1))
    return ((np.sin((1 - t) * theta0) * p + np.sin(t * theta0) * q) / np.sin(theta0))[0]


class Camera(NamedTuple):
    """Pinhole camera with radial distortion."""

    rotation: np.ndarray
    translation: np.ndarray
    focal: float
    k1: float = 0.0

    def project(self, points):
        """Pixels of points."""
        p = points @ rodrigues(self.rotation).T + self.translation
        uv = p[:, :2] / p[:, 2:]
        r2 = np.sum(uv**2, axis=1, keepdims=True)
        return self.focal * uv * (1 + self.k1 * r2)


def reprojection_error(camera, points, pixels):
    """Sum of squared residuals of one camera."""
    return np.sum((camera.project(points) - pixels) ** 2)


def bundle_adjustment_residuals(cameras, points, observations):
    """Residuals of several cameras, one after the other in a vector; cameras are rows of seven numbers."""
    residuals = np.empty((len(observations), 2))
    for n, (c, p, u, v) in enumerate(observations):
        row = cameras[c]
        seen = Camera(row[:3], row[3:6], row[6]).project(points[p][None])[0]
        residuals[n] = seen - np.array([u, v])
    return residuals.ravel()


def point_to_plane_icp(pose, source, target, normals):
    """Cost of a rigid alignment by points and normals."""
    moved = source @ rodrigues(pose[:3]).T + pose[3:]
    return np.square(np.einsum("ij,ij->i", moved - target, normals)).sum()


def mesh_area(vertices, faces=((0, 1, 2), (0, 2, 3), (1, 2, 3))):
    """Area of a triangle mesh by cross products."""
    faces = np.asarray(faces)
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    return 0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1).sum()


def mesh_volume(vertices):
    """Signed volume of a tetrahedron's surface, face by face."""
    total = 0.0
    for i, j, k in [(0, 2, 1), (0, 1, 3), (1, 2, 3), (0, 3, 2)]:
        total += np.dot(vertices[i], np.cross(vertices[j], vertices[k])) / 6
    return total


def shoelace(polygon):
    """Area of a polygon by its corners."""
    x, y = polygon.T
    return 0.5 * abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1)))


def perimeter(corners):
    """Perimeter of a polygon given as a list of pairs."""
    return sum(
        math.hypot(x1 - x0, y1 - y0) for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1], strict=True)
    )


def sdf_scene(p, radius, roundness):
    """Smooth union of a sphere and a rounded box."""
    sphere = norm(p - np.array([0.5, 0.2, 0.0])) - radius
    q = np.abs(p) - np.array([0.4, 0.3, 0.2])
    box = norm(np.maximum(q, 0.0)) + min(max(q[0], q[1], q[2]), 0.0) - roundness
    k = 0.3
    h = np.clip(0.5 + 0.5 * (box - sphere) / k, 0.0, 1.0)
    return box * (1 - h) + sphere * h - k * h * (1 - h)


def bezier(control, t):
    """Height of a Bezier curve by de Casteljau, recursively."""
    if len(control) == 1:
        return control[0][1] + 0.5 * control[0][0]
    return bezier((1 - t) * control[:-1] + t * control[1:], t)


def barycentric_interpolation(triangle, values, p):
    """Interpolate values given at the corners of a triangle."""
    T = np.column_stack([triangle[0] - triangle[2], triangle[1] - triangle[2]])
    l0, l1 = np.linalg.solve(T, p - triangle[2])
    return np.array([l0, l1, 1 - l0 - l1]) @ values


def point_segment_distance(p, a, b):
    """Distance from a point to a segment; three cases."""
    ab = b - a
    t = ((p - a) @ ab) / (ab @ ab)
    if t <= 0:
        return norm(p - a)
    if t >= 1:
        return norm(p - b)
    return norm(p - (a + t * ab))


def catmull_rom_length(points, samples=4):
    """Length of a Catmull-Rom spline by short chords."""
    previous = points[1]
    length = 0
    for i in range(1, len(points) - 2):
        p0, p1, p2, p3 = points[i - 1 : i + 3]
        for s in np.linspace(0, 1, samples + 1)[1:]:
            now = 0.5 * (
                2 * p1 + (p2 - p0) * s + (2 * p0 - 5 * p1 + 4 * p2 - p3) * s**2 + (3 * p1 - p0 - 3 * p2 + p3) * s**3
            )
            length += norm(now - previous)
            previous = now
    return length


def robot_arm(angles, lengths=(1.0, 0.8, 0.5)):
    """Squared distance of the hand to a target, by homogeneous matrices."""
    T = np.identity(3)
    for a, l in zip(angles, lengths, strict=True):
        T = T @ np.array([[cos(a), -sin(a), l * cos(a)], [sin(a), cos(a), l * sin(a)], [0, 0, 1]])
    return np.sum((T[:2, 2] - np.array([1.5, 0.7])) ** 2)


POINTS = {
    pairwise_distances: {"a": rng.normal(size=(3, 2)), "b": rng.normal(size=(2, 2))},
    haversine: (52.5, 13.4, 48.9, 2.35),
    rotate_points: {"w": np.array([0.3, -0.5, 0.2]), "points": rng.normal(size=(4, 3))},
    quaternion_rotation: {"q": np.array([0.9, 0.1, -0.3, 0.4]), "v": np.array([1.0, 0.5, -0.2])},
    slerp: {"p": np.array([1.0, 0.2, 0.1, 0.0]), "q": np.array([0.4, 0.9, -0.3, 0.2]), "t": 0.3},
    reprojection_error: {
        "camera": Camera(np.array([0.1, -0.2, 0.05]), np.array([0.1, 0.2, 4.0]), 1.5, 0.1),
        "points": rng.normal(size=(3, 3)),
        "pixels": rng.normal(size=(3, 2)),
    },
    bundle_adjustment_residuals: {
        "cameras": np.array([[0.1, -0.2, 0.05, 0.0, 0.1, 4.0, 1.2], [-0.1, 0.3, 0.1, 0.2, 0.0, 5.0, 1.1]]),
        "points": rng.normal(size=(2, 3)),
        "observations": [(0, 0, 0.1, 0.2), (0, 1, 0.0, -0.3), (1, 0, 0.2, 0.1)],
    },
    point_to_plane_icp: {
        "pose": np.array([0.1, 0.05, -0.1, 0.2, 0.1, -0.3]),
        "source": rng.normal(size=(3, 3)),
        "target": rng.normal(size=(3, 3)),
        "normals": rng.normal(size=(3, 3)),
    },
    mesh_area: {"vertices": rng.normal(size=(4, 3))},
    mesh_volume: {"vertices": rng.normal(size=(4, 3))},
    shoelace: {"polygon": np.array([[0.0, 0.0], [2.0, 0.3], [1.7, 1.5], [0.2, 1.1]])},
    perimeter: {"corners": [(0.0, 0.0), (2.0, 0.3), (1.7, 1.5), (0.2, 1.1)]},
    sdf_scene: {"p": np.array([0.7, 0.5, 0.1]), "radius": 0.25, "roundness": 0.05},
    bezier: {"control": rng.normal(size=(4, 2)), "t": 0.35},
    barycentric_interpolation: {
        "triangle": np.array([[0.0, 0.0], [1.0, 0.2], [0.3, 0.9]]),
        "values": np.array([1.0, 2.0, -1.0]),
        "p": np.array([0.4, 0.3]),
    },
    point_segment_distance: {"p": np.array([0.4, 0.9]), "a": np.array([0.0, 0.0]), "b": np.array([1.0, 0.1])},
    catmull_rom_length: {"points": rng.normal(size=(5, 2))},
    robot_arm: {"angles": np.array([0.4, -0.3, 0.8])},
}
