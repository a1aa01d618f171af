"""The command line: ``main`` has the parser's frame, each module of ``verbs`` is one verb.

A verb's name is that of its module, which nothing else lists; its docstring is the help text, its
options stand in ``options.json``. ``handle`` calls a function of a lower package and returns an
:class:`provision.cli.call.Outcome`, or an exit code where it prints or runs something itself;
``ANYWHERE`` says that it needs no project. What a handler needs is imported inside it: parsing a
command line must stay fast.
"""
