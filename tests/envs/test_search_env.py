"""Search as an environment: what each action does, what a state is, the expert's full reward, and `branchwise check`."""

import numpy as np
import pytest

import envs
from envs import EnvironmentArgumentError, NoEpisodeError
from envs.search.env import SearchEnv
from envs.search.questions import SPLITS
from envs.search.state import HELP


def started(seed: int = 0, **arguments) -> SearchEnv:
    env = SearchEnv(**{"countries": 8, **arguments})
    env.reset(seed=seed)
    return env


def solved(env: SearchEnv, teacher=None) -> tuple[float, list[str]]:
    """The reward of an episode of the expert, or of a teacher, and its actions."""
    actions, reward, ended = [], 0.0, False
    while not ended:
        actions.append((teacher or env.expert_action)())
        _, reward, terminated, truncated, _ = env.step(actions[-1])
        ended = terminated or truncated
    return reward, actions


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("corpus_seed", [0, 1])
def test_the_expert_answers_every_question(split, corpus_seed):
    env = started(split=split, corpus_seed=corpus_seed)
    for seed in range(300):
        _, info = env.reset(seed=seed)
        reward, actions = solved(env)
        assert reward == 1 and len(actions) <= 2 + 2 * int(info["task_type"][0]), (seed, actions)


@pytest.mark.slow
def test_what_is_declared_holds():
    report = envs.check_env("branchwise/Search-v0", seeds=2, steps=12, countries=4)
    assert report.passed, str(report)


def test_an_episode_reads_links_and_answers():
    env = started(hops=[2])
    question = env._now()[0]
    first, second = question.titles
    observation, _, _, _, info = env.step(f"open[{first}]")
    assert not info["valid"] and observation == f"No result and no article that you have read names {first}. Search for it."
    assert f"1. {first}: " in env.step(f"search[{first}]")[0]
    assert env.step(f"open[{second}]")[4]["valid"] is False, "it has not been named yet"
    assert second in env.step(f"OPEN [ {first.lower()} ]")[0]
    assert env.step(f"open[{second}]")[0].startswith(f"{second}. ")
    observation, reward, terminated, truncated, info = env.step(f"answer[the {question.answers[0]}.]")
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert info == {"valid": True, "success": True, "task_type": "2 hops", "exact_match": 1.0, "f1": 1.0}
    observation, reward, terminated, _, info = env.step("answer[again]")
    assert (observation, reward, terminated, info["valid"]) == ("The question has been answered.", 0.0, True, False)


def test_a_wrong_answer_ends_without_reward_or_with_its_share_of_words():
    seed = next(seed for seed in range(50) if len(started(seed)._now()[0].answers[0].split()) == 2)
    word = started(seed)._now()[0].answers[0].split()[1]
    for rule, reward in (("exact", 0.0), ("f1", pytest.approx(2 / 3))):
        observation, given, terminated, _, info = started(seed, reward=rule).step(f"answer[{word}]")
        assert (observation, given, terminated, info["success"]) == ("That is not the answer.", reward, True, False)
        assert info["f1"] == pytest.approx(2 / 3) and info["exact_match"] == 0


def test_a_look_up_goes_through_the_sentences_of_the_open_article():
    env = started(hops=[1], page=1)
    title = env._now()[0].titles[0]
    assert env.step("lookup[a]")[0] == "No article is open."
    env.step(f"search[{title}]")
    opened = env.step(f"open[{title}]")[0]
    sentences = env._reader.corpus.articles[env._state.at].sentences
    assert opened == f"{title}. {sentences[0]} ({len(sentences) - 1} more sentences: lookup[words])"
    found = [sentence for sentence in sentences if "a" in sentence.lower()]
    for place, sentence in enumerate(found, 1):
        assert env.step("lookup[A]")[0] == f"(Result {place} of {len(found)}) {sentence}"
    before = env.state_signature()
    assert env.step("lookup[a]")[0] == "There are no more results." and env.state_signature() == before
    assert env.step("lookup[zzz]")[0] == "The article does not say zzz."
    assert env.step(f"lookup[{found[0][:9]}]")[0].startswith("(Result 1 of ")


@pytest.mark.parametrize(
    "action", ["", "search", "search[]", "search[ ]", "find[x]", "answer", "[x]", "do the impossible 0", "x" * 100_000, "search[\0"]
)
def test_what_is_not_understood_changes_nothing_and_says_what_is(action):
    env = started()
    before = env.state_signature()
    observation, reward, terminated, truncated, info = env.step(action)
    assert (observation, reward, terminated, truncated, info["valid"]) == (HELP, 0.0, False, False, False)
    assert env.state_signature() == before


def test_a_text_that_is_too_long_is_refused_and_an_unknown_word_finds_nothing():
    env = started()
    assert env.step(f"search[{'x' * 201}]")[0] == "At most 200 characters may stand in the brackets."
    assert env.step(f"search[{'x' * 200}]")[:1] == ("Nothing is found.",)
    assert len(started(results=2).step("search[a town]")[0].splitlines()) == 2


def test_a_state_is_what_was_read_whatever_the_order():
    one, two = started(3, hops=[2]), started(3, hops=[2])
    first = one._now()[0].titles[0]
    ways = [f"search[{first}]", "search[a river]"], ["search[a river]", "search[no such thing there]", f"search[{first}]"]
    for env, actions in zip((one, two), ways, strict=True):
        for action in (*actions, f"open[{first}]"):
            env.step(action)
    assert one.state_signature() != two.state_signature(), "another search found other titles"
    for env in (one, two):
        env.step("search[no such thing there]")
    one.step("search[a river]")
    assert one.state_signature() == two.state_signature() and one.admissible_actions() == two.admissible_actions()


def test_admissible_actions_are_possible_and_lead_to_the_answer():
    env = started(5, hops=[2])
    question = env._now()[0]
    assert env.admissible_actions() == [f"search[{question.text}]"]
    env.step(env.expert_action())
    while not (action := env.expert_action()).startswith("answer"):
        assert action in env.admissible_actions()
        env.step(action)
    assert action in env.admissible_actions()
    snapshot = env.snapshot()
    for action in env.admissible_actions():
        env.restore(snapshot)
        assert env.step(action)[4]["valid"], action


def test_an_episode_is_cut_after_max_turns_but_the_last_turn_may_answer():
    env = started(max_turns=2)
    assert env.step("search[a]")[2:4] == (False, False) and env.step("search[a]")[2:4] == (False, True)
    env = started(max_turns=1)
    assert env.step(f"answer[{env._now()[0].answers[0]}]")[1:4] == (1.0, True, False)


def test_a_hasty_expert_answers_with_the_last_article():
    env, rng = started(hops=[3]), np.random.default_rng(0)
    question = env._now()[0]
    reward, actions = solved(env, env.demonstrator(rng, hasty=1.0))
    assert reward == 0 and actions[-1] == f"answer[{question.titles[-1]}]" and f"open[{question.titles[-1]}]" not in actions
    outcomes = []
    for seed in range(60):
        env.reset(seed=seed)
        outcomes.append(solved(env, env.demonstrator(rng, hasty=0.5))[0])
    assert 15 < sum(outcomes) < 45
    env.reset(seed=0)
    assert solved(env, env.demonstrator(rng))[0] == 1, "without a habit it is the expert"
    for habits, said in (({"slow": 1}, "has no habit 'slow'; choose hasty"), ({"hasty": 2}, "hasty is 2; it must be a share from 0 to 1")):
        with pytest.raises(EnvironmentArgumentError, match=said):
            env.demonstrator(rng, **habits)


def test_the_question_depends_on_the_seed_alone():
    fresh = [SearchEnv(countries=8).reset(seed=seed) for seed in range(20)]
    used = started(99)
    assert [used.reset(seed=seed) for seed in reversed(range(20))] == fresh[::-1]
    assert SearchEnv(countries=8, max_turns=3, reward="f1").reset(seed=4) == fresh[4]
    assert SearchEnv(countries=8, split="test").reset(seed=4) != fresh[4]
    assert SearchEnv(countries=8, corpus_seed=1).reset(seed=4) != fresh[4] != SearchEnv(countries=9).reset(seed=4)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"split": "trian"}, "split is 'trian'; did you mean train?"),
        ({"reward": "exat"}, "reward is 'exat'; did you mean exact?"),
        ({"max_turns": 0}, "max_turns is 0; it must be a whole number from 1 to 10000"),
        ({"results": True}, "results is True; it must be a whole number from 1 to 10000"),
        ({"countries": 3}, "countries is 3; it must be a whole number from 4 to 300"),
        ({"corpus_seed": -1}, "corpus_seed is -1; it must be a whole number from 0"),
        ({"hops": []}, r"hops is \[\]; it must be a list of different numbers"),
        ({"hops": [1, 1]}, r"hops is \[1, 1\]; it must be a list of different numbers"),
        ({"hops": [5]}, "a number in hops is 5; it must be a whole number from 1 to 4"),
        ({"corpus": "x.jsonl"}, "corpus is 'x.jsonl', but there are no questions about it; give questions=FILE as well"),
    ],
)
def test_arguments_are_judged_with_one_sentence(arguments, said):
    with pytest.raises(EnvironmentArgumentError, match=said):
        SearchEnv(**arguments)


@pytest.mark.parametrize("ask", ["step", "snapshot", "state_signature", "admissible_actions", "expert_action"])
def test_before_the_first_reset_there_is_no_question(ask):
    with pytest.raises(NoEpisodeError, match=r"no question yet; call reset\(seed=...\) first"):
        getattr(SearchEnv(countries=4), ask)(*(["search[a]"] if ask == "step" else []))
