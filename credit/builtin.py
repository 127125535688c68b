"""The estimators that come with the package, by name."""

from credit.dr_grpo import DrGrpoSettings, dr_grpo
from credit.gigpo import GigpoSettings, gigpo
from credit.grpo import GrpoSettings, grpo
from credit.registry import Estimator, register_estimator
from credit.rloo import RlooSettings, rloo
from credit.rtmc import RtmcSettings, rtmc
from credit.salt import SaltSettings, salt
from credit.tree_mc import TreeMcSettings, tree_mc

_TRAJECTORY = {
    "dr_grpo": Estimator(DrGrpoSettings, dr_grpo, "outcome minus the group's mean, for every turn of a rollout"),
    "grpo": Estimator(GrpoSettings, grpo, "outcome standardised over the group, for every turn of a rollout"),
    "rloo": Estimator(RlooSettings, rloo, "outcome minus the mean of the other rollouts, for every turn of a rollout"),
}
_GRAPH = {
    "gigpo": Estimator(GigpoSettings, gigpo, "outcome against the group plus the turn's return against turns in the same state", "graph"),
    "rtmc": Estimator(
        RtmcSettings,
        rtmc,
        "value of the action minus value of the state, over all rollouts that came by",
        "graph",
        lone=lambda settings: settings.n_p > 0,
    ),
    "salt": Estimator(SaltSettings, salt, "mean of the rollouts' advantages over each merged edge of the trajectory graph", "graph"),
}
_TREE = {
    "tree_mc": Estimator(TreeMcSettings, tree_mc, "value after the turn minus value before it, over what was sampled below", "tree"),
}
_TURN: dict[str, Estimator] = {}

for name, entry in (_TRAJECTORY | _GRAPH | _TREE | _TURN).items():
    register_estimator(name, entry)
