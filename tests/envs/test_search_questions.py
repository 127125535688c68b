"""Generated questions: coherent facts, answers that need all of their articles, and splits that share no article."""

import numpy as np
import pytest

from envs.search.corpus import Article, Corpus
from envs.search.questions import SPLITS, countries_of, draw
from envs.search.relations import BY_NAME, NUMBER, RELATIONS
from envs.search.scoring import exact_match, f1, normalise
from envs.search.world import ARTICLES_PER_COUNTRY, World, world

COUNTRIES = 12


@pytest.fixture(scope="module")
def small() -> World:
    return world(3, COUNTRIES)


def questions(world: World, split: str, count: int, hops=(1, 2, 3, 4)):
    rng = np.random.default_rng(0)
    return [draw(rng, world, split, hops) for _ in range(count)]


def test_a_world_is_a_function_of_its_seed_and_a_small_one_begins_a_large_one(small):
    def names(world):
        return [(thing.name, thing.sentences) for thing in world.things]

    assert names(world.__wrapped__(3, COUNTRIES)) == names(small)
    assert names(world.__wrapped__(4, COUNTRIES)) != names(small)
    assert names(world.__wrapped__(3, 5)) == names(small)[: 5 * ARTICLES_PER_COUNTRY]


def test_names_differ_in_a_large_world():
    names = [thing.name.lower() for thing in world.__wrapped__(0, 60).things]
    assert len(set(names)) == len(names) == 60 * ARTICLES_PER_COUNTRY


def test_links_stay_in_their_country_and_lead_to_the_kind_that_is_declared(small):
    for thing in small.things:
        for name, target in thing.links.items():
            relation = BY_NAME[name]
            assert target.country == thing.country and target is not thing
            assert target.kind == relation.object and thing.kind in relation.subjects
        assert all(BY_NAME[name].object == NUMBER for name in thing.numbers)


def test_years_agree_with_each_other(small):
    for thing in small.things:
        born = thing.numbers.get("born")
        if "teacher" in thing.links:
            assert 12 <= born - thing.links["teacher"].numbers["born"] <= 45
        if "school" in thing.links:
            assert thing.links["school"].numbers["founded"] <= born + 18
        if "spouse" in thing.links:
            assert thing.links["spouse"].links["spouse"] is thing
            assert thing.links.get("teacher") is not thing.links["spouse"]
        if "author" in thing.links:
            assert 22 <= thing.numbers["published"] - thing.links["author"].numbers["born"] < 60
        if "publisher" in thing.links:
            assert thing.links["publisher"].numbers["founded"] <= thing.numbers["published"]
        if "founder" in thing.links:
            assert thing.numbers["founded"] - thing.links["founder"].numbers["born"] >= 28


def test_every_relation_occurs_and_is_asked_about(small):
    told = {name for thing in small.things for name in (*thing.links, *thing.numbers)}
    assert told == {relation.name for relation in RELATIONS}
    texts = [question.text for question in questions(small, "train", 1500, (1,))]
    for relation in RELATIONS:
        beginning, _, end = relation.question.partition("{x}")
        assert any(text.lower().startswith(beginning.lower()) and text.endswith(end) for text in texts), relation.name


def test_an_article_says_its_facts_and_begins_with_its_title(small):
    for thing in small.things:
        text = " ".join(thing.sentences)
        assert thing.name in thing.sentences[0] and "{" not in text
        assert all(target.name in text for target in thing.links.values())
        assert all(str(number) in text for number in thing.numbers.values())
        assert len(thing.sentences) == 2 + len(thing.links) + len(thing.numbers), "an introduction, an aside, and the facts"


@pytest.mark.parametrize("split", SPLITS)
def test_the_last_article_says_the_answer_and_no_earlier_one_does(small, split):
    articles = {thing.name: normalise(" ".join(thing.sentences)) for thing in small.things}
    for question in questions(small, split, 400):
        answer = f" {normalise(question.answers[0])} "
        *early, last = [f" {articles[title]} " for title in question.titles]
        assert answer in last and not any(answer in text for text in early)
        assert answer not in f" {normalise(question.text)} "
        assert len(question.titles) == int(question.kind[0]) == len(set(question.titles))
        assert question.titles[0] in question.text and not any(title in question.text for title in question.titles[1:] if len(title) > 20)


@pytest.mark.parametrize("split", SPLITS)
def test_each_article_of_a_chain_names_the_next(small, split):
    articles = {thing.name: " ".join(thing.sentences) for thing in small.things}
    for question in questions(small, split, 200):
        for title, following in zip(question.titles, question.titles[1:], strict=False):
            assert following in articles[title]


def test_splits_share_no_article_and_no_question(small):
    train, test = (questions(small, split, 600) for split in SPLITS)
    assert not {title for question in train for title in question.titles} & {title for question in test for title in question.titles}
    assert not {question.text for question in train} & {question.text for question in test}
    counted = [country for split in SPLITS for country in countries_of(small, split)]
    assert len(counted) == COUNTRIES and len(countries_of(small, "test")) == COUNTRIES // 4


def test_hops_are_those_asked_for_and_questions_vary(small):
    assert {question.kind for question in questions(small, "train", 60, (2, 4))} == {"2 hops", "4 hops"}
    assert len({question.text for question in questions(small, "train", 500)}) > 450


# Search


def test_the_best_article_comes_first_and_equal_ones_in_order():
    corpus = Corpus(Article(title, ("A pond with ducks.",)) for title in ("Red", "Blue", "Green"))
    assert corpus.search("blue pond", 3) == (1, 0, 2)
    assert corpus.search("ducks", 2) == (0, 1)
    assert corpus.search("swans", 3) == corpus.search("?!", 3) == ()
    assert Corpus([Article("...", ())]).search("anything", 3) == ()


def test_every_article_of_the_corpus_is_found_by_its_title(small):
    corpus = Corpus(Article(thing.name, thing.sentences) for thing in small.things)
    for number, article in enumerate(corpus.articles):
        assert number in corpus.search(article.title, 3), article.title
        assert corpus.find(f"  {article.title.upper()} ") == number


def test_titles_in_a_text_are_recognised_as_a_whole_and_with_their_case():
    titles = ("Old Town", "Town", "Old Town Bridge", "It")
    corpus = Corpus(
        [
            *(Article(title, ("A thing.",)) for title in titles),
            Article("Walk", ("It crosses Old Town Bridge, then the town.", "A Town, it is.")),
        ]
    )
    assert corpus.mentioned(4) == (3, 2, 1)


# Scores


@pytest.mark.parametrize(
    ("answer", "truth", "exact", "overlap"),
    [
        ("The Red River!", "red river", True, 1.0),
        ("river", "Red River", False, 2 / 3),
        ("a river of red stones", "Red River", False, 2 * 2 / (4 + 2)),
        ("red red", "red", False, 2 / 3),
        ("blue", "red", False, 0.0),
        ("yes it is", "yes", False, 0.0),
        ("the", "red", False, 0.0),
        ("An", "The", True, 1.0),
    ],
)
def test_answers_are_scored_as_squad_does(answer, truth, exact, overlap):
    assert exact_match(answer, [truth]) is exact
    assert f1(answer, [truth]) == pytest.approx(overlap)


def test_the_best_of_several_accepted_answers_counts():
    assert exact_match("NYC", ["New York City", "nyc"])
    assert f1("york", ["Boston", "New York"]) == pytest.approx(2 / 3)
