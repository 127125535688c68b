"""A trained policy as something that continues recorded rollouts: it sees the recorded tokens, or the texts where none were recorded."""

from collections.abc import Sequence
from typing import Self

import numpy as np
import numpy.typing as npt
import torch

from agents.context import Context
from agents.engine import Sample, SampleRequest
from agents.policy_folder import load_policy
from envs.text_env import TextEnv
from trainer.configured_agent import configured_agent
from trainer.configured_engine import configured_engine
from trainer.run_folder import RunFolder
from trainer.trained_model import dtype_of
from tree_rollout.fork import PolicyAction
from tree_rollout.turn import Turn


class CheckpointPolicy:
    """Samples each action at the run's temperature; see `tree_rollout.fork.Policy`."""

    name = "checkpoint"

    def __init__(self, folder: RunFolder, iteration: int | None = None) -> None:
        config = folder.read_config()
        number, path = folder.chosen_policy(iteration)
        model, tokenizer = load_policy(path, dtype=dtype_of(config.policy))
        self._agent = configured_agent(config.agent, tokenizer)
        self._engine = configured_engine(config, model, self._agent, rows=1)
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
        context = self._agent.context()
        observations = [*(turn.observation for turn in history), observation]
        parsed = None
        for turn, observed in zip(history, observations, strict=False):
            sample_T, stopped = self._said(turn)
            context.extend(observed if parsed is None else self._agent.action_format.reply(observed, parsed))
            context.record(sample_T, stopped=stopped)
            parsed = self._agent.parse(sample_T, stopped=stopped)
        delta = context.extend(observation if parsed is None else self._agent.action_format.reply(observation, parsed))
        if context.room(self._engine.max_length) < 1:
            return None
        sample = self._sample(context, rng)
        count = len(delta.ids_T)
        return PolicyAction(
            self._agent.parse(sample.ids_T, stopped=sample.stopped).action,
            np.concatenate([delta.ids_T, sample.ids_T]),
            np.arange(count + len(sample.ids_T)) >= count,
            np.concatenate([np.zeros(count, np.float32), sample.logprobs_T]),
            np.concatenate([np.zeros(count, np.float32), sample.entropies_T]),
            self._engine.version,
            delta.new_segment,
        )

    def _sample(self, context: Context, rng: np.random.Generator) -> Sample:
        """The next turn in a conversation."""
        seed = tuple(int(word) for word in rng.integers(2**32, size=4))
        stop_texts = self._agent.action_format.stop_texts
        handle = self._engine.start()
        try:
            request = SampleRequest(handle, context.ids(), seed, self._max_tokens, self._temperature, stop_texts=stop_texts)
            return self._engine.generate([request])[0]
        finally:
            self._engine.release(handle)

    def _said(self, turn: Turn) -> tuple[npt.NDArray[np.int32], bool]:
        """The ids that a recorded turn sampled, or those of its text where a policy without a model took it; and whether it stopped."""
        if turn.mask_T.any():
            sample_T = turn.ids_T[turn.mask_T]
            return sample_T, int(sample_T[-1]) in self._agent.stop_ids
        template = self._agent.template
        text_T = template.encode_text(self._agent.action_format.write(turn.action))
        return np.append(text_T, np.int32(template.stop_id)), True
