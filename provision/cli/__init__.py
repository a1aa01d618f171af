"""The command line.

``main`` holds the parser's frame and the handling of errors. Each module of ``verbs`` is one verb:
its name is the word that is typed, its docstring the help text, ``add_arguments`` declares the
arguments, and ``handle`` calls a function of a lower package and returns an
:class:`provision.cli.outcome.Outcome`: the result and the function that shows it to a person.

To add a verb, add one file to ``verbs``. It is found by its name; nothing else lists it. A view
of more than a few lines goes into a module of :mod:`provision.ui`.
"""
