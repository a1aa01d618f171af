"""install a Jupyter kernel that follows the current generation, and print IDE settings."""

from provision.cli.call import Call, Outcome


def handle(call: Call) -> Outcome:
    from provision.commands.kernel import install_kernel
    from provision.ui.template import template

    made = install_kernel(call.project, call.arguments.target, call.arguments.prefix)
    return Outcome(made, template("kernel"))
