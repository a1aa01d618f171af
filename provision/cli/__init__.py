"""The command line.

``main`` holds the parser's frame and the handling of errors. Each module of ``verbs`` is one verb:
its name is the word that is typed, its docstring the help text, ``add_arguments`` declares the
arguments, if it has any, and ``handle`` calls a function of a lower package and returns an
:class:`provision.cli.call.Outcome`: the result and the function that shows it to a person. A verb
that prints or runs something itself returns an exit code; ``ANYWHERE`` says that it needs no
project.

What a handler needs is imported inside it: parsing a command line loads neither pydantic nor rich,
and a build that has nothing to do loads no resolver.

To add a verb, add one file to ``verbs``. It is found by its name; nothing else lists it. A view
of more than a few lines goes into a module of :mod:`provision.ui`.
"""
