"""The Ray backend: engine workers sample, learners learn, environment workers serve both; the coordinator is this process."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import ray
from ray.actor import ActorHandle
from ray.util.placement_group import PlacementGroup

from trainer.config import Config
from trainer.ray_backend.cluster import connected, engine_count, placed
from trainer.ray_backend.crew import Crew, Placed, placing
from trainer.ray_backend.engine_group import EngineGroup
from trainer.ray_backend.field import Field
from trainer.ray_backend.job import Job
from trainer.ray_backend.learner_group import LearnerGroup, PolicySaver, RayLearner
from trainer.ray_backend.learner_worker import LearnerWorker
from trainer.ray_backend.policy_files import PolicyFiles
from trainer.ray_backend.rank_group import RankGroup, ShardedLearner
from trainer.ray_backend.rank_worker import RankWorker
from trainer.ray_backend.slot import Slot


class RayBackend:
    """The groups of a run's processes, and the coordinator's view of the model."""

    def __init__(self, config: Config, crew: Crew, learners: LearnerGroup | RankGroup, saver: PolicySaver) -> None:
        self.crew = crew
        self.learning = learners
        self.learner = ShardedLearner(learners) if isinstance(learners, RankGroup) else RayLearner(learners)
        self.rollout = EngineGroup(crew, config.run.shards, self.learner.weights)
        self.field = Field(crew, self.rollout)
        """What mode async samples with."""
        self._saver = saver

    @property
    def restarts(self) -> int:
        """Workers that died and were replaced so far."""
        return self.crew.restarts.made

    def save_policy(self, folder: Path) -> None:
        """Write the present weights as a sealed policy folder."""
        self._saver.save(self.learner.weights_P(), folder)


@contextmanager
def ray_backend(config: Config, policy: Path) -> Iterator[RayBackend]:
    """Connect to Ray, place the processes, and start them on the weights in the folder `policy`, which is also the start policy."""
    with connected(config), tempfile.TemporaryDirectory(prefix="branchwise-") as scratch:
        engines = engine_count(config)
        with placed(config, engines) as group:
            job = Job.of(config, PolicyFiles.of(policy))
            place = placing(job, engines, group)
            crew = Crew(job, engines, group, place)
            sharded = config.optimizer.sharding == "fsdp"
            kind = RankWorker if sharded else LearnerWorker
            learners = [_learner(kind, job, rank, place, group) for rank in range(config.ray.learners)]
            try:
                saver = PolicySaver(config, policy, Path(scratch))
                crew.ready()
                for slot in learners:
                    slot.ready()
                yield RayBackend(config, crew, _joined(learners) if sharded else LearnerGroup(config, learners), saver)
            finally:
                if ray.is_initialized():
                    crew.end()
                    for slot in learners:
                        slot.end()


def _joined(learners: Sequence[Slot]) -> RankGroup:
    group = RankGroup(learners)
    group.join()
    return group


def _learner(kind: type, job: Job, rank: int, place: Placed, group: PlacementGroup) -> Slot:
    def start() -> ActorHandle:
        return place(kind, rank, job, rank)

    return Slot(f"learner {rank}", start, group, job.config.ray.start_deadline_s)
