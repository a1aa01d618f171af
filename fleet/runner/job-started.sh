#!/bin/sh
# Before each job of a self-hosted runner: fail the job on a machine that is not fit, and say in its log why.
#   GitHub: a line in the file `.env` of the runner, which has the absolute path of this file:
#     ACTIONS_RUNNER_HOOK_JOB_STARTED=/opt/provision/toolkit/fleet/runner/job-started.sh
#   GitLab, executor `shell`: in [[runners]] of its config.toml:
#     pre_get_sources_script = "/opt/provision/toolkit/fleet/runner/job-started.sh"
# No verdict (a time-out, an environment that is not built) lets the job run, with a warning;
# with PROVISION_NO_VERDICT=fail it fails the job as well. GitHub runs this with `-e`.
settings=/etc/default/provision
# shellcheck source=/dev/null
[ ! -r "$settings" ] || . "$settings"
: "${PROVISION:=/opt/provision/toolkit/.tools/bin/provision}" # the program
: "${PROVISION_PROJECT:=/opt/provision/toolkit}"              # whose environments are checked
: "${PROVISION_TARGET:=}"                                     # needed where several are built
: "${PROVISION_GATE_LIMIT:=60s}"
: "${PROVISION_NO_VERDICT:=run}"

# tell LEVEL TEXT: an annotation of the job, where GitHub shows it. It reads %0A as the end of a line.
tell() {
    if [ -n "${GITHUB_ACTIONS:-}" ]; then
        printf '::%s title=provision gate::%s\n' "$1" "$(printf '%s' "$2" | tr '\r' ' ' | sed 's/%/%25/g')"
    else
        printf '%s: %s\n' "$1" "$2"
    fi
}

# show TEXT: what the gate said. GitHub takes a line that begins with :: or ##[ for a command.
show() {
    printf '%s\n' "$1" | tr '\r' ' ' | sed 's/^\([[:space:]]*\)::/\1: :/; s/##\[/## [/g'
}

code=0
text=$("$PROVISION" gate ${PROVISION_TARGET:+"$PROVISION_TARGET"} --project "$PROVISION_PROJECT" \
    --idle --time-limit "$PROVISION_GATE_LIMIT") || code=$?
show "$text"
first=${text%%
*}
case $code:$first in
0:keep:*) ;;
1:remove:*)
    tell error "this machine is not fit: ${first#remove: }"
    exit 1
    ;;
*)
    tell warning "no verdict on this machine: ${first:-$PROVISION ended with $code}"
    [ "$PROVISION_NO_VERDICT" != fail ] || exit 1
    ;;
esac
