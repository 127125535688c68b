import numpy as np
import pytest
import torch

from trainer.checkpoint import optimizer_tensors, restore_optimizer
from trainer.muon import Muon, orthogonalise


def plain_orthogonal(matrix: np.ndarray, steps: int = 5) -> np.ndarray:
    """The iteration as it is written down: X <- a X + b (X X') X + c (X X')^2 X, on the side with fewer rows, in float64."""
    x = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x = x / np.linalg.norm(x)
    for _ in range(steps):
        gram = x @ x.T
        x = 3.4445 * x - 4.7750 * gram @ x + 2.0315 * gram @ gram @ x
    return x.T if matrix.shape[0] > matrix.shape[1] else x


@pytest.mark.parametrize("shape", [(8, 8), (4, 12), (12, 4), (1, 5)])
def test_singular_values_come_near_one(shape: tuple[int, int]) -> None:
    rng, count = np.random.default_rng(0), min(shape)
    left, right = (np.linalg.qr(rng.normal(size=(3, side, count)))[0] for side in shape)
    matrices = torch.from_numpy(left * np.linspace(1, 0.1, count) @ right.transpose(0, 2, 1)).float()
    results = orthogonalise(matrices)
    assert results.shape == matrices.shape
    for matrix, result in zip(matrices, results, strict=True):
        values = torch.linalg.svdvals(result)
        assert values.min() > 0.6, "those of the matrix are ten times apart"
        assert values.max() < 1.3
        np.testing.assert_allclose(result.numpy(), plain_orthogonal(matrix.double().numpy()), atol=2e-5)
        # The directions stay: the result is the polar factor of the matrix, up to the size of its singular values.
        left, _, right = torch.linalg.svd(matrix, full_matrices=False)
        middle = left.T @ result @ right.T
        torch.testing.assert_close(middle - torch.diag(middle.diagonal()), torch.zeros_like(middle), atol=2e-5, rtol=0)


def test_steps_match_a_plain_reference() -> None:
    rng = np.random.default_rng(1)
    shapes = [(6, 4), (4, 6), (6, 4), (5, 5)]
    starts = [rng.normal(size=shape) for shape in shapes]
    parameters = [torch.nn.Parameter(torch.from_numpy(start).float()) for start in starts]
    muon, momenta = Muon(parameters, lr=0.1, momentum=0.9), [np.zeros(shape) for shape in shapes]
    for _ in range(3):
        for index, parameter in enumerate(parameters):
            gradient = rng.normal(size=shapes[index])
            parameter.grad = torch.from_numpy(gradient).float()
            momenta[index] = 0.9 * momenta[index] + 0.1 * gradient
            ahead = 0.1 * gradient + 0.9 * momenta[index]
            rows, columns = shapes[index]
            starts[index] = starts[index] - 0.1 * max(1.0, rows / columns) ** 0.5 * plain_orthogonal(ahead)
        muon.step()
    for parameter, expected in zip(parameters, starts, strict=True):
        np.testing.assert_allclose(parameter.detach().numpy(), expected, atol=1e-4)


def test_matrices_only() -> None:
    for shape in [(3,), (2, 3, 4)]:
        with pytest.raises(ValueError, match=r"Muon takes matrices only, but was given a tensor of shape"):
            Muon([torch.nn.Parameter(torch.zeros(shape))])


def test_a_parameter_without_a_gradient_stays() -> None:
    moved, left = torch.nn.Parameter(torch.eye(3)), torch.nn.Parameter(torch.eye(3))
    muon = Muon([moved, left])
    moved.grad = torch.ones(3, 3)
    muon.step()
    assert torch.equal(left, torch.eye(3))
    assert not torch.equal(moved, torch.eye(3))


def test_its_state_goes_on() -> None:
    def go(muon: Muon, parameter: torch.nn.Parameter, seed: int) -> None:
        parameter.grad = torch.from_numpy(np.random.default_rng(seed).normal(size=(4, 3))).float()
        muon.step()

    whole, halved = torch.nn.Parameter(torch.zeros(4, 3)), torch.nn.Parameter(torch.zeros(4, 3))
    first, second = Muon([whole]), Muon([halved])
    for muon, parameter in ((first, whole), (second, halved)):
        go(muon, parameter, 0)
    third = Muon([halved])
    restore_optimizer(third, optimizer_tensors(second, "muon"), "muon")
    go(first, whole, 1)
    go(third, halved, 1)
    assert torch.equal(whole, halved)
