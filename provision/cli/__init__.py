"""The command line: ``main`` has the parser's frame, each module of ``verbs`` is one verb.

A verb's name is that of its module, which nothing else lists; its docstring is the help text.
``declare`` adds its options to a parser. ``handle`` calls a function of a lower package and returns
an :class:`provision.cli.call.Outcome`, or an exit code where it runs something itself; ``ANYWHERE``
says that it needs no project. Only the module of the verb that was typed is imported.
"""
