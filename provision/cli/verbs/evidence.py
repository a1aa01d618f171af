"""signed proof of what was proven here, or the judgement of such files."""

from pathlib import Path

from provision.cli.call import Call, Outcome, each, findings_if
from provision.core.errors import UsageError


def handle(call: Call) -> Outcome:
    import getpass

    from provision.commands.evidence import emit, judge
    from provision.spec.reader import load_target
    from provision.ui.template import template

    arguments, project = call.arguments, call.project
    if arguments.action == "verify":
        files = list(map(Path, arguments.subjects)) or sorted(
            project.evidence.glob("*.json")
        )
        found = judge(project, files, arguments.keys or project.evidence / "keys")
        bad = any(evidence.state != "valid" for evidence in found)
        return Outcome(found, each(template("evidence")), findings_if(bad))
    if len(arguments.subjects) != 1:
        raise UsageError(
            "emit is about one target", remedy="name one, such as cpu-linux"
        )
    target, key = (
        load_target(project.specs, arguments.subjects[0]),
        arguments.key.expanduser(),
    )
    file = arguments.output or Path(f"{target.name}.evidence.json")
    ask = f"passphrase of {key}: "
    made = emit(
        project, target, file=file, key=key, passphrase=lambda: getpass.getpass(ask)
    )
    return Outcome([made], each(template("evidence")))
