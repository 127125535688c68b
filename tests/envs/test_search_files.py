"""A user's own questions and corpus: HotpotQA's format in its variants, and one sentence for every way in which a file can be damaged."""

import json
from pathlib import Path

import pytest

from envs import EnvironmentArgumentError
from envs.search.env import SearchEnv
from envs.search.files import load_corpus, load_questions
from envs.search.source import UserQuestions

PAGES = [["Mole", ["The mole lives in Burrow Lane.", "It digs."]], ["Burrow Lane", ["Burrow Lane is in Dunmere.", "It is narrow."]]]
HOTPOT = [
    {
        "_id": f"5a{number}",
        "question": f"Where is the lane of mole number {number}?",
        "answer": "Dunmere",
        "type": "bridge",
        "level": "easy",
        "supporting_facts": [["Mole", 0], ["Burrow Lane", 0]],
        "context": PAGES,
    }
    for number in range(30)
]
PLAIN = [{"question": f"What is {number}?", "answer": ["a number", "number"]} for number in range(30)]
TEXTS = [{"title": "Number", "text": "Numbers count. They are old."}, {"title": "Word", "text": ["Words tell."]}]


def lines(folder: Path, name: str, values: list) -> str:
    path = folder / name
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return str(path)


@pytest.mark.parametrize("form", ["array", "lines"])
def test_hotpotqa_files_are_played_by_the_expert(tmp_path, form):
    path = tmp_path / "hotpot.json"
    path.write_text(json.dumps(HOTPOT, indent=1) if form == "array" else "\n\n".join(map(json.dumps, HOTPOT)))
    seen = {}
    for split in ("train", "test"):
        env = SearchEnv(split, questions=str(path))
        seen[split] = set()
        for seed in range(40):
            observation, info = env.reset(seed=seed)
            seen[split].add(observation)
            assert info["task_type"] == "bridge"
            actions = []
            while True:
                actions.append(env.expert_action())
                _, reward, terminated, _, _ = env.step(actions[-1])
                if terminated:
                    break
            assert reward == 1 and actions == ["search[Mole]", "open[Mole]", "open[Burrow Lane]", "answer[Dunmere]"]
    assert seen["train"] and seen["test"] and not seen["train"] & seen["test"]


def test_a_corpus_of_its_own_and_a_file_for_each_split(tmp_path):
    corpus = lines(tmp_path, "corpus.jsonl", TEXTS)
    files = {split: lines(tmp_path, f"{split}.jsonl", part) for split, part in (("train", PLAIN[:20]), ("test", PLAIN[20:]))}
    source = UserQuestions(files, corpus)
    assert [article.sentences for article in source.corpus.articles] == [("Numbers count.", "They are old."), ("Words tell.",)]
    assert [len(source._questions[split]) for split in ("train", "test")] == [20, 10]
    env = SearchEnv("test", questions=files, corpus=corpus, reward="f1")
    env.reset(seed=0)
    assert env.expert_action() == "answer[a number]" and env.step("answer[The NUMBER]")[1] == 1.0


def test_paragraphs_of_one_title_are_one_article_and_repeated_contexts_count_once(tmp_path):
    corpus = load_corpus(lines(tmp_path, "corpus.jsonl", [*TEXTS, {"title": " Number ", "text": ["They\nnever  end."]}]))
    assert corpus.articles[0].sentences == ("Numbers count.", "They are old.", "They never end.")
    _, contexts = load_questions(lines(tmp_path, "questions.jsonl", HOTPOT))
    assert contexts is not None and [article.title for article in contexts.articles] == ["Mole", "Burrow Lane"]


def test_a_supporting_article_that_the_corpus_lacks_is_passed_over_by_the_expert(tmp_path):
    question = {**HOTPOT[0], "supporting_facts": [["Nowhere", 3], ["Mole", 0]]}
    files = {"train": lines(tmp_path, "a.jsonl", [question]), "test": lines(tmp_path, "b.jsonl", HOTPOT[1:2])}
    env = SearchEnv(questions=files)
    env.reset(seed=0)
    assert env.expert_action() == "search[Mole]"


def test_a_file_that_changes_is_read_again(tmp_path):
    path = lines(tmp_path, "corpus.jsonl", TEXTS)
    assert len(load_corpus(path).articles) == 2
    lines(tmp_path, "corpus.jsonl", TEXTS[:1])
    assert len(load_corpus(path).articles) == 1


GOOD = json.dumps({"title": "T", "text": "Words."}).encode()
DAMAGED_CORPORA = [
    (b"", "c.jsonl is empty; write a JSON object a line"),
    (b" \n\n", "c.jsonl is empty; write a JSON object a line"),
    (GOOD + b"\n{", "c.jsonl, line 2: this is not JSON"),
    (GOOD + b'\n\n"text"', 'c.jsonl, line 3: there must be a JSON object, but there is "text"'),
    (b'{"title": "T"}', "c.jsonl, line 1: the article must have 'text' that is text or a list of sentences, but it is nothing"),
    (b'{"text": "x"}', "c.jsonl, line 1: there is no 'title'; write it as text"),
    (b'{"title": 3, "text": "x"}', "c.jsonl, line 1: 'title' must be text that is not empty, but is 3"),
    (b'{"title": " ", "text": "x"}', "c.jsonl, line 1: 'title' must be text that is not empty"),
    (b'{"title": "T", "text": [1]}', r"c.jsonl, line 1: the article must have 'text' that is text or a list of sentences, but it is \[1\]"),
    (b'{"title": "' + b"x" * 201 + b'", "text": "x"}', "c.jsonl, line 1: 'title' has 201 characters and may have 200"),
    (GOOD + b'\n{"title": "\xff"}', "c.jsonl, line 2: this is not UTF-8 .byte 0xff.; save the file as UTF-8"),
    (b'{"title": "\\ud800", "text": "x"}', "c.jsonl, line 1: 'title' holds half of a surrogate pair"),
    (b'{"title": "T", "text": NaN}', "c.jsonl, line 1: this is not JSON .NaN is no number."),
    (GOOD + b"\n" + b'{"a":' * 100_000, "c.jsonl, line 2: this is nested too deeply"),
    (b'{"a":' + b"9" * 5000 + b"}", "c.jsonl, line 1: this is not JSON"),
    (b"[1]", "c.jsonl, element 1: there must be a JSON object, but there is 1"),
    (b"[\n{},\n{]", "c.jsonl, line 3: this is not JSON"),
    (b'[\n"\xfe"]', "c.jsonl, line 2: this is not UTF-8"),
    (b"[]", "c.jsonl is empty"),
    (b"PK\x03\x04\x00", "c.jsonl, line 1: this is not JSON"),
]


@pytest.mark.parametrize(("content", "said"), DAMAGED_CORPORA)
def test_a_damaged_corpus_is_one_sentence_with_its_line(tmp_path, content, said):
    path = tmp_path / "c.jsonl"
    path.write_bytes(content)
    with pytest.raises(EnvironmentArgumentError, match=said) as fault:
        load_corpus(str(path))
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"answer": None}, "line 1: 'answer' must be text that is not empty, but is nothing"),
        ({"answer": []}, r"line 1: 'answer' must be text that is not empty, but is \[\]"),
        ({"answer": ["a", 1]}, "line 1: 'answer' must be text that is not empty, but is 1"),
        ({"question": ""}, "line 1: 'question' must be text that is not empty"),
        ({"type": 1}, "line 1: 'type' must be text"),
        ({"supporting_facts": {"title": ["Mole"]}}, "line 1: 'supporting_facts' must be a list of pairs of a title and a sentence number"),
        ({"supporting_facts": [["Mole", "0"]]}, "line 1: 'supporting_facts' must be a list of pairs"),
        ({"context": [["Mole"]]}, "line 1: 'context' must be a list of pairs of a title and a list of sentences"),
        ({"context": [[1, []]]}, "line 1: 'title in context' must be text"),
        ({"question": HOTPOT[1]["question"]}, "line 2: the question of .*line 1 stands here again; leave it out"),
    ],
)
def test_a_damaged_question_is_one_sentence_with_its_line(tmp_path, change, said):
    path = lines(tmp_path, "q.jsonl", [{**HOTPOT[0], **change}, HOTPOT[1]])
    with pytest.raises(EnvironmentArgumentError, match=f"q.jsonl, {said}"):
        load_questions(path)


def test_what_does_not_go_together_is_refused(tmp_path):
    hotpot, plain = lines(tmp_path, "hotpot.jsonl", HOTPOT), lines(tmp_path, "plain.jsonl", PLAIN)
    wrong = [
        ({"questions": plain}, "plain.jsonl has a question without 'context'; name the corpus as well: corpus=FILE"),
        ({"questions": hotpot, "hops": [2]}, "hops shapes generated questions, and these are of your own; leave out hops, or questions"),
        ({"questions": {"train": hotpot}}, "it must be a file, or a mapping of a file to each of train and test"),
        ({"questions": 3}, "questions is 3; it must be a file"),
        ({"questions": hotpot, "corpus": 3}, "corpus is 3; it must be the name of a file"),
        ({"questions": str(tmp_path / "none")}, "none cannot be read .No such file or directory.; name a file of JSON lines"),
        ({"questions": str(tmp_path)}, "cannot be read .Is a directory."),
        ({"questions": "a\0b"}, "cannot be read .embedded null byte."),
        ({"questions": lines(tmp_path, "one.jsonl", HOTPOT[:1])}, "one.jsonl has too few questions to leave one for the split"),
        (
            {"questions": {"train": hotpot, "test": lines(tmp_path, "same.jsonl", HOTPOT[3:4])}},
            "same.jsonl tests what .*hotpot.jsonl trains",
        ),
    ]
    for arguments, said in wrong:
        with pytest.raises(EnvironmentArgumentError, match=said):
            SearchEnv(**arguments)
