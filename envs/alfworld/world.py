"""A loaded game as pure functions: a `State` never changes, and any number of instances may share one `World`.

The engine is TextWorld's: the planner says what can be done and what it changes, the grammar says it in words. What the engine derives
again at every step and never changes, the command of a grounded action, is derived once.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from envs.alfworld.engine_package import module
from envs.alfworld.game import Game
from envs.alfworld.planner import Operator, Planner

NOTHING_HAPPENS = "Nothing happens."
_UNKNOWN_GOAL = "UNKNOWN GOAL"
_LASTING = frozenset(
    {"atlocation", "opened", "inreceptacle", "objectatlocation", "holds", "isclean", "ishot", "iscool", "istoggled", "issliced"}
)
"""Facts that change and that an action's conditions, the goal or a text of the engine looks at."""
_REMEMBERED_STATES = 512


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """One state of one world."""

    number: int
    """The planner's."""
    facts: Mapping[Any, frozenset[Any]]
    """TextWorld's facts by their signature; what did not change is shared with the state before."""


@dataclass(frozen=True, slots=True)
class _Command:
    """A grounded action as the engine offers it."""

    text: str
    operator: Operator
    mapping: Mapping[Any, Any]
    feedback_rule: str


class World:
    """One game of ALFWorld in the engine; calls may come from several threads."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self._lock = threading.RLock()
        self._logic = module("textworld.logic")
        self._rules = _rules(game.domain, game.grammar)
        self._planner = Planner(game.domain, game.problem)
        self._types = {thing.name: thing.type_name for thing in self._planner.task.objects}
        self._parameters = {action.name: action.parameters for action in self._planner.task.actions}
        for type in self._planner.task.types:
            if type.name not in _known_types(self._rules):
                self._rules.types.add(self._logic.Type(type.name, type.supertype_names))
        facts = self._first_facts()
        self._planner.task = None  # Many objects, needed no more.
        self.names = _names(facts)
        """Display names by id, for example `mug 2`."""
        self._query = _query_state(self._rules, facts)
        self._commands: dict[tuple[str, ...], _Command] = {}
        self._offered: OrderedDict[int, dict[str, _Command]] = OrderedDict()
        self.start = State(self._planner.state, _by_signature(facts))
        """The first state."""
        self.intro = self._say(self.start, "#intro#", {}).replace(_UNKNOWN_GOAL, game.goal)
        """The first observation: the room and the task."""

    def act(self, state: State, command: str) -> tuple[State, str, bool]:
        """The next state, the answer, and whether the command was possible; one that is not changes nothing."""
        with self._lock:
            offered = self._offers(state).get(command.strip())
            if offered is None:
                return state, NOTHING_HAPPENS, False
            self._planner.state = state.number
            effects = self._planner.apply(offered.operator)
            after = State(self._planner.state, self._changed(state.facts, effects))
            return after, self._say(after, offered.feedback_rule, offered.mapping), True

    def admissible(self, state: State) -> list[str]:
        """Every command that is possible in the state, sorted."""
        with self._lock:
            return sorted(self._offers(state))

    def solved(self, state: State) -> bool:
        """Whether the goal holds."""
        with self._lock:
            self._planner.state = state.number
            return self._planner.solved()

    def facts(self, state: State) -> list[str]:
        """All facts in words, with display names: `inreceptacle mug 2 shelf 1`."""
        return [
            " ".join([fact.name, *(self.names[argument.name] for argument in fact.arguments)])
            for facts in state.facts.values()
            for fact in facts
        ]

    def signature(self, state: State) -> str:
        """What holds and can still matter, whatever path led there."""
        lasting = [fact for facts in state.facts.values() for fact in facts if fact.name in _LASTING]
        place = {fact.arguments[0].name: fact.arguments[1].name for fact in lasting if fact.name == "objectatlocation"}
        stands = {fact.arguments[0].name: fact.arguments[1].name for fact in self.facts_of(state, "receptacleatlocation")}
        # "Next to it" lists what was taken out of one piece of furniture and put into another one at the same place.
        beside = [fact for fact in self.facts_of(state, "not_inreceptacle") if place.get(fact.names[0], "") == stands[fact.names[1]]]
        return "; ".join(sorted(f"{fact.name} {' '.join(self.names[name] for name in fact.names)}" for fact in [*lasting, *beside]))

    def facts_of(self, state: State, name: str) -> list[Any]:
        """TextWorld's facts of one kind, by its lower-case name."""
        return [fact for signature, facts in state.facts.items() if signature.name == name for fact in facts]

    def _first_facts(self) -> list[Any]:
        """The facts of the first state: those that the problem lists, and those that the planner derives."""
        translated = module("fast_downward").translate.pddl.conditions.Atom
        listed = [
            self._proposition(atom.predicate, atom.args)
            for atom in self._planner.task.init
            if isinstance(atom, translated) and atom.predicate != "="
        ]
        derived = (self._fact(atom) for atom in self._planner.atoms())
        return list(dict.fromkeys([*listed, *(fact for fact in derived if not fact.is_negation)]))

    def _proposition(self, name: str, arguments: Any) -> Any:
        return self._logic.Proposition(name, [self._logic.Variable(argument, self._types[argument]) for argument in arguments])

    def _fact(self, atom: str) -> Any:
        """The planner's `NegatedAtom holds(agent1, mug)` as a fact `not_holds`."""
        kind, _, rest = atom.partition(" ")
        name, _, inside = rest.rstrip(")").partition("(")
        return self._proposition("not_" * (kind == "NegatedAtom") + name, [word for word in inside.split(", ") if word])

    def _changed(self, facts: Mapping[Any, frozenset[Any]], effects: list[str]) -> Mapping[Any, frozenset[Any]]:
        after = dict(facts)
        for effect in map(self._fact, effects):
            opposite = effect.negate()
            after[opposite.signature] = after.get(opposite.signature, frozenset()) - {opposite}
            after[effect.signature] = after.get(effect.signature, frozenset()) | {effect}
        return after

    def _offers(self, state: State) -> dict[str, _Command]:
        """The commands of a state; where several actions have one command, the engine takes the first."""
        if state.number in self._offered:
            self._offered.move_to_end(state.number)
            return self._offered[state.number]
        self._planner.state = state.number
        offered: dict[str, _Command] = {}
        for operator in self._planner.applicable():
            command = self._command(state, operator)
            offered.setdefault(command.text, command)
        self._offered[state.number] = offered
        if len(self._offered) > _REMEMBERED_STATES:
            self._offered.popitem(last=False)
        return offered

    def _command(self, state: State, operator: Operator) -> _Command:
        found = self._commands.get(operator.words)
        if found is None:
            name, *arguments = operator.words
            action = self._logic.Action(name=name, preconditions=[], postconditions=[])
            action.mapping = {
                self._logic.Placeholder(parameter.name.strip("?"), parameter.type_name): self._logic.Variable(argument, parameter.type_name)
                # The parameters that come last are bound by the action's conditions, and not named.
                for parameter, argument in zip(self._parameters[name], arguments, strict=False)
            }
            rule = self._rules.actions[name]
            action.command_template = self._say(state, rule.template, action.mapping)
            text = action.format_command(self.names)
            found = self._commands[operator.words] = _Command(text, operator, action.mapping, rule.feedback_rule)
        return found

    def _say(self, state: State, rule: str, mapping: Mapping[Any, Any]) -> str:
        """Derive a text from the grammar in a state."""
        self._query._facts = state.facts
        infos = self._query.entity_infos
        variables = {placeholder.name: infos[variable.name] for placeholder, variable in mapping.items()}
        context = {"state": self._query, "facts": [], "variables": variables, "mapping": dict(mapping), "entity_infos": infos}
        return self._rules.grammar.derive(rule, context)


@lru_cache(maxsize=4)
def _rules(domain: str, grammar: str) -> Any:
    """Parsed actions and grammar; a parser of TextWorld's that meets one text again and again remembers it."""
    _remember_conditions()
    return module("textworld.envs.pddl.logic").GameLogic(domain=domain, grammar=grammar)


@lru_cache(maxsize=1)
def _remember_conditions() -> None:
    textgen, logic = module("textworld.envs.pddl.textgen"), module("textworld.logic")
    parse_rule, parse_text = logic.Rule.parse_conjunctive_query, textgen._parse_and_convert
    # A rule never changes once made.
    logic.Rule.parse_conjunctive_query = lru_cache(maxsize=1024)(parse_rule)
    remembered = lru_cache(maxsize=1024)(lambda start, rule_name: parse_text(start, rule_name=rule_name))
    copy = textgen.deepcopy
    # Symbols do: each derivation writes its context into them.
    textgen._parse_and_convert = lambda start, rule_name, **trace: copy(remembered(start, rule_name))


def _known_types(rules: Any) -> set[str]:
    return {type.name for type in rules.types}


def _by_signature(facts: list[Any]) -> dict[Any, frozenset[Any]]:
    found: dict[Any, set[Any]] = {}
    for fact in facts:
        found.setdefault(fact.signature, set()).add(fact)
    return {signature: frozenset(some) for signature, some in found.items()}


def _query_state(rules: Any, facts: list[Any]) -> Any:
    """What the grammar asks about a state: TextWorld's own, whose facts are exchanged; entities neither come nor go."""
    state = module("textworld.logic").State.__new__(module("textworld.envs.pddl.logic").PddlState)
    state._logic, state._facts = rules, {}
    variables = {variable.name: variable for fact in facts for variable in fact.arguments}
    state._vars_by_name, state._vars_by_type = variables, {}
    for variable in variables.values():
        state._vars_by_type.setdefault(variable.type, set()).add(variable)
    info = module("textworld.generator.game").EntityInfo
    names = _names(facts)
    state.entity_infos = {name: info(name, variable.type) for name, variable in variables.items()}
    for name, entity in state.entity_infos.items():
        entity.name, entity.definite, entity.indefinite = names[name], "the", "a"
    return state


def _names(facts: list[Any]) -> dict[str, str]:
    """ALFWorld's names for ids: the kind and a number, as its own wrapper gives them."""
    ids = {variable.name: variable for fact in facts for variable in fact.arguments}
    info = module("textworld.generator.game").EntityInfo
    infos = {name: info(name, variable.type) for name, variable in ids.items()}
    demangler = module("alfworld.agents.utils.misc").Demangler(game_infos=infos)
    return {name: demangler.demangle_alfred_name(name).strip() for name in ids}
