"""Signatures: each says from a tree alone which states are the same, in one small file; one table holds them all."""

from tree_rollout.signatures.actions import CATEGORISERS, Actions
from tree_rollout.signatures.env_state import EnvState
from tree_rollout.signatures.normalised import Normalised, normalise
from tree_rollout.signatures.observation import Observation
from tree_rollout.signatures.operation import Categorise, Operation
from tree_rollout.signatures.signature import Signature, Signed, by_observation
from tree_rollout.signatures.signing import sign_tree, sign_trees
from tree_rollout.signatures.similar import Similar
from tree_rollout.signatures.table import make_signature, register_signature, signatures
from tree_rollout.signatures.user_function import UserFunction
from tree_rollout.signatures.window import Window

__all__ = [
    "CATEGORISERS",
    "Actions",
    "Categorise",
    "EnvState",
    "Normalised",
    "Observation",
    "Operation",
    "Signature",
    "Signed",
    "Similar",
    "UserFunction",
    "Window",
    "by_observation",
    "make_signature",
    "normalise",
    "register_signature",
    "sign_tree",
    "sign_trees",
    "signatures",
]
