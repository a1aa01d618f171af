"""What requires a package of a lock: from one package to the next, up to a line of the project."""

from collections.abc import Mapping, Sequence

THE_SPEC = "the spec"  # in place of a package, where a line of the project requires one
Via = Mapping[str, Sequence[str]]  # package -> what requires it


def shortest_chain(name: str, via: Via, without: str = "") -> list[str]:
    """Return the shortest way from a package to one that a line of the project requires.

    ``without`` is a package that it may not lead through: then there may be none.
    """
    chains = [[name]]
    seen = {name, without}
    for chain in chains:
        users = via.get(chain[-1], ())
        # Own packages are in no lock: lines of their own require what they need.
        if THE_SPEC in users or not users:
            return chain
        chains += [[*chain, user] for user in users if user not in seen]
        seen.update(users)
    return [] if without else chains[0]


def chains_of(name: str, via: Via) -> list[list[str]]:
    """Return for each package that requires one the shortest way to a line, the shortest first."""
    chains = []
    for user in via.get(name, ()):
        if user != THE_SPEC:
            chains.append(shortest_chain(user, via, without=name))
    return sorted(filter(None, chains), key=len)


def lines_behind(name: str, via: Via) -> set[str]:
    """Return the packages whose lines in the project lead to a package, its own among them."""
    seen = [name]
    roots = set()
    for package in seen:
        users = via.get(package, ())
        if THE_SPEC in users or not users:
            roots.add(package)
        seen += [user for user in users if user not in {*seen, THE_SPEC}]
    return roots
