"""The estimators that come with the package, by name."""

from credit.agent_opsd import AgentOpsdSettings, agent_opsd
from credit.at2po import At2poSettings, at2po
from credit.depthwise import DepthwiseSettings, depthwise
from credit.dr_grpo import DrGrpoSettings, dr_grpo
from credit.empg import EmpgSettings, empg
from credit.gae import GaeSettings, gae
from credit.gapo import GapoSettings, gapo
from credit.gdpo import GdpoSettings, gdpo
from credit.gigpo import GigpoSettings, gigpo
from credit.graft_graph import GraftGraphSettings, graft_graph
from credit.graphgpo import GraphGpoSettings, graphgpo
from credit.grpo import GrpoSettings, grpo
from credit.hgpo import HgpoSettings, hgpo
from credit.igpo import IgpoSettings, igpo
from credit.mc_grpo import McGrpoSettings, mad_zero_groups, mc_grpo
from credit.mix import MixSettings, mix, mix_by_state, mix_diagnostics, mix_judges_turns, mix_lone, mix_needs
from credit.mt_grpo import MtGrpoSettings, mt_grpo
from credit.pvpo import PvpoSettings, pvpo
from credit.registry import Estimator, register_estimator
from credit.reinforce_pp import ReinforcePpSettings, reinforce_pp
from credit.rloo import RlooSettings, rloo
from credit.rtmc import RtmcSettings, rtmc
from credit.salt import SaltSettings, salt
from credit.self_credit import SelfCreditSettings, self_credit
from credit.shaping import shaping
from credit.tree_graph import TreeGraphSettings, tree_graph, tree_graph_diagnostics
from credit.tree_grpo import TreeGrpoSettings, tree_grpo
from credit.tree_mc import TreeMcSettings, tree_mc
from credit.treerl import TreeRlSettings, treerl

_TRAJECTORY = {
    "dr_grpo": Estimator(DrGrpoSettings, dr_grpo, "outcome minus the group's mean, for every turn of a rollout"),
    "gapo": Estimator(GapoSettings, gapo, "outcome minus the median of the group's densest outcomes, over the group's deviation"),
    "gdpo": Estimator(
        GdpoSettings,
        gdpo,
        "each named reward standardised in its group, added up by weight, standardised over the batch",
        needs=lambda settings: ("rewards",),
        judges_turns=True,
    ),
    "grpo": Estimator(GrpoSettings, grpo, "outcome standardised over the group, for every turn of a rollout"),
    "mc_grpo": Estimator(
        McGrpoSettings, mc_grpo, "outcome minus the group's median, over the median absolute deviation", diagnostics=mad_zero_groups
    ),
    "pvpo": Estimator(
        PvpoSettings,
        pvpo,
        "outcome minus a reference policy's mean outcome on the task",
        needs=lambda settings: ("anchor",),
        lone=lambda settings: True,
        judges_turns=True,
    ),
    "reinforce_pp": Estimator(ReinforcePpSettings, reinforce_pp, "outcome minus the group's mean, whitened over the batch"),
    "rloo": Estimator(RlooSettings, rloo, "outcome minus the mean of the other rollouts, for every turn of a rollout"),
}
_GRAPH = {
    "gigpo": Estimator(
        GigpoSettings, gigpo, "outcome against the group plus the turn's return against turns in the same state", "graph", by_state=True
    ),
    "graft_graph": Estimator(
        GraftGraphSettings,
        graft_graph,
        "value after the turn minus value before it, on the merged graph with its cycles",
        "graph",
        by_state=True,
    ),
    "graphgpo": Estimator(
        GraphGpoSettings,
        graphgpo,
        "outcome against the group plus how much closer to a success than other turns from the state",
        "graph",
        by_state=True,
    ),
    "hgpo": Estimator(
        HgpoSettings, hgpo, "the turn's return against turns in the same state, most of all after the same states", "graph", by_state=True
    ),
    "mix": Estimator(
        MixSettings,
        mix,
        "weighted sum of methods: base + w * graph, or any terms",
        "graph",
        needs=mix_needs,
        by_state=mix_by_state,
        lone=mix_lone,
        diagnostics=mix_diagnostics,
        judges_turns=mix_judges_turns,
    ),
    "rtmc": Estimator(
        RtmcSettings,
        rtmc,
        "value of the action minus value of the state, over all rollouts that came by",
        "graph",
        by_state=True,
        lone=lambda settings: settings.n_p > 0,
    ),
    "salt": Estimator(
        SaltSettings, salt, "mean of the rollouts' advantages over each merged edge of the trajectory graph", "graph", by_state=True
    ),
}
_TREE = {
    "tree_graph": Estimator(
        TreeGraphSettings,
        tree_graph,
        "how much the turn moved the expected outcome, by all forks and merges of the task's trees, trusted as far as they agree",
        "tree",
        needs=lambda settings: ("truncated",),
        by_state=True,
        diagnostics=tree_graph_diagnostics,
    ),
    "at2po": Estimator(
        At2poSettings,
        at2po,
        "standardised outcomes below the turn, averaged with more weight on uncertain continuations",
        "tree",
        needs=lambda settings: ("entropy",) if settings.entropy else (),
    ),
    "depthwise": Estimator(DepthwiseSettings, depthwise, "value of the turn's node, standardised over the nodes at its depth", "tree"),
    "tree_grpo": Estimator(TreeGrpoSettings, tree_grpo, "outcome standardised over the task plus over the rollout's own tree", "tree"),
    "tree_mc": Estimator(TreeMcSettings, tree_mc, "value after the turn minus value before it, over what was sampled below", "tree"),
    "treerl": Estimator(TreeRlSettings, treerl, "value of the turn's node against the task's and against its parent's", "tree"),
}
_TURN = {
    "agent_opsd": shaping(
        AgentOpsdSettings, agent_opsd, "a base, reweighted by how far each turn moved a teacher's belief", "teacher_logprob_gap"
    ),
    "empg": shaping(EmpgSettings, empg, "a base, amplified where the policy was certain, plus a bonus for clear next turns", "entropy"),
    "gae": Estimator(
        GaeSettings,
        gae,
        "what the rollout earned from the turn on beyond a critic's value, later surprises faded out",
        "turn",
        needs=lambda settings: ("value", "next_value"),
        lone=lambda settings: True,
        judges_turns=True,
    ),
    "igpo": Estimator(
        IgpoSettings,
        igpo,
        "information gains and, at the last turn, the outcome, standardised over the group and summed to the end",
        "turn",
        needs=lambda settings: ("information_gain",),
        judges_turns=True,
    ),
    "mt_grpo": Estimator(
        MtGrpoSettings,
        mt_grpo,
        "the turn's process reward plus the outcome, both standardised over the group; the last turn the outcome alone",
        "turn",
        needs=lambda settings: ("rewards",),
        judges_turns=True,
    ),
    "self_credit": shaping(
        SelfCreditSettings, self_credit, "a base, reweighted towards the turns whose citations go with the outcome", "cited", by_state=True
    ),
}

for name, entry in (_TRAJECTORY | _GRAPH | _TREE | _TURN).items():
    register_estimator(name, entry)
