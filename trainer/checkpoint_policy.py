"""A trained policy as something that continues recorded rollouts: it sees the recorded tokens, or the texts where none were recorded."""

from collections.abc import Sequence
from typing import Self

import numpy as np
import numpy.typing as npt
import torch

from agents.action_parser import parse_action
from agents.context import Context, TurnTemplate
from agents.engine import SampleRequest
from agents.policy_folder import load_policy
from agents.transformers_engine import TransformersEngine
from envs.text_env import TextEnv
from trainer.run_folder import RunFolder
from tree_rollout.fork import PolicyAction
from tree_rollout.turn import Turn


class CheckpointPolicy:
    """Samples each action at the run's temperature; see `tree_rollout.fork.Policy`."""

    name = "checkpoint"

    def __init__(self, folder: RunFolder, iteration: int | None = None) -> None:
        config = folder.read_config()
        number, path = folder.chosen_policy(iteration)
        model, self._tokenizer = load_policy(path)
        self._template = TurnTemplate.from_tokenizer(self._tokenizer)
        self._engine = TransformersEngine(model, self._template.stop_ids, max_length=config.policy.max_length, rows=1)
        # As in training, weights are numbered by optimizer steps, and each iteration makes as many.
        self._engine.version = number * config.optimizer.mini_batches
        self._max_tokens = config.rollout.max_new_tokens
        self._temperature = config.rollout.temperature

    @classmethod
    def of_run(cls, folder: RunFolder) -> Self:
        """The run's last policy."""
        torch.set_num_threads(1)
        return cls(folder)

    def act(self, env: TextEnv, observation: str, history: Sequence[Turn], rng: np.random.Generator) -> PolicyAction | None:
        """Sample an action from the policy; None where no further token fits behind the observation."""
        context, stopped = Context(self._template), True
        past: list[npt.NDArray[np.int32]] = []
        for turn in history:
            ids_T = turn.ids_T if len(turn.ids_T) else self._encode(context, turn, stopped)
            context.begun = True
            stopped = int(ids_T[-1]) in self._template.stop_ids
            past.append(ids_T)
        delta_T = context.observe(observation, stopped=stopped)
        prompt_T = np.concatenate([*past, delta_T])
        if len(prompt_T) >= self._engine.max_length:
            return None
        seed = tuple(int(word) for word in rng.integers(2**32, size=4))
        handle = self._engine.start()
        try:
            sample = self._engine.generate([SampleRequest(handle, prompt_T, seed, self._max_tokens, self._temperature)])[0]
        finally:
            self._engine.release(handle)
        count = len(delta_T)
        said_T = sample.ids_T[:-1] if sample.stopped else sample.ids_T
        action = parse_action(str(self._tokenizer.decode(said_T.tolist()))).action
        return PolicyAction(
            action,
            np.concatenate([delta_T, sample.ids_T]),
            np.arange(count + len(sample.ids_T)) >= count,
            np.concatenate([np.zeros(count, np.float32), sample.logprobs_T]),
            np.concatenate([np.zeros(count, np.float32), sample.entropies_T]),
            self._engine.version,
        )

    def _encode(self, context: Context, turn: Turn, stopped: bool) -> npt.NDArray[np.int32]:
        """Ids of a turn that a policy without a model took."""
        observation_T = context.observe(turn.observation, stopped=stopped)
        return np.concatenate([observation_T, self._template.encode_observation(turn.action), [self._template.stop_id]]).astype(np.int32)
