"""Laplacian positions: eigenvectors of each subgraph, computed once for equal ones."""

import numpy as np
import pytest

from gelgt.nn import laplacian
from gelgt.nn.laplacian import laplacian_vectors

# a star of four rows, and a path of three; then a row alone
EDGES = np.array([[1, 2, 3, 4, 5], [0, 0, 0, 5, 6]])
OFFSETS = np.array([0, 4, 7, 8])


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laplacian, "_KEPT", laplacian._Kept())


def test_they_are_eigenvectors() -> None:
    found = laplacian_vectors(EDGES, OFFSETS, 3)
    assert found.shape == (8, 3)
    for start, stop in ((0, 4), (4, 7)):
        size = stop - start
        adjacency = np.zeros((size, size))
        for child, parent in EDGES.T:
            if start <= child < stop:
                adjacency[child - start, parent - start] = 1
                adjacency[parent - start, child - start] = 1
        scale = adjacency.sum(1) ** -0.5
        matrix = np.eye(size) - scale[:, None] * adjacency * scale
        vectors = found[start:stop].astype(np.float64)
        np.testing.assert_allclose((vectors**2).sum(0), size, rtol=1e-5)
        values = (vectors * (matrix @ vectors)).sum(0) / size
        np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=1e-5)
        np.testing.assert_allclose(values, np.linalg.eigvalsh(matrix)[:3], atol=1e-5)
        largest = np.abs(vectors).argmax(0)
        assert (vectors[largest, np.arange(3)] > 0).all()
    assert found[7].tolist() == [1, 0, 0], "a row alone has one of them"


def test_equal_subgraphs_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = laplacian_vectors(EDGES, OFFSETS, 3)

    def fail(*_: object) -> None:
        raise AssertionError("these were seen before")

    monkeypatch.setattr(laplacian, "_computed", fail)
    again = laplacian_vectors(EDGES[:, 3:] - 4, OFFSETS[1:] - 4, 3)  # in another batch
    assert np.array_equal(again, first[4:])
    with pytest.raises(AssertionError, match="seen before"):
        laplacian_vectors(EDGES, OFFSETS, 2)


def test_no_more_are_kept_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laplacian, "ROOM", 4 * 100)
    for size in range(2, 12):
        path = np.stack([np.arange(1, size), np.arange(size - 1)])
        laplacian_vectors(path, np.array([0, size]), 4)
    kept = laplacian._KEPT
    assert 0 < kept.size <= 400
    assert kept.size == sum(vectors.nbytes for vectors in kept.vectors.values())
