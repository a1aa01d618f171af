"""this machine: devices, drivers, and which target fits."""

from provision.cli.call import Call, Outcome

ANYWHERE = True


def handle(call: Call) -> Outcome:
    from provision.commands.detect import detect_machine
    from provision.ui.results import show_detection

    return Outcome(detect_machine(call.project), show_detection)
