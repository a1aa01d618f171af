#!/bin/sh
# Before each job of a self-hosted runner: fail the job on a machine that is not fit, and say in its log why.
#   GitHub: a line in the file `.env` of the runner, which has the absolute path of this file:
#     ACTIONS_RUNNER_HOOK_JOB_STARTED=/opt/provision/toolkit/fleet/runner/job-started.sh
#   GitLab, executor `shell`: in [[runners]] of its config.toml:
#     pre_get_sources_script = "/opt/provision/toolkit/fleet/runner/job-started.sh"
# No verdict (a time-out, an environment that is not built) lets the job run, with a warning;
# with PROVISION_NO_VERDICT=fail it fails the job as well. GitHub runs this with `-e`.
settings=/etc/default/provision
[ ! -r "$settings" ] || . "$settings"
: "${PROVISION:=/opt/provision/toolkit/.tools/bin/provision}" # the program
: "${PROVISION_PROJECT:=/opt/provision/toolkit}"              # whose environments are checked
: "${PROVISION_TARGET:=}"                                     # needed where several are built
: "${PROVISION_GATE_LIMIT:=60s}"
: "${PROVISION_NO_VERDICT:=run}"

# tell LEVEL TEXT: an annotation of the job, where GitHub shows it.
tell() {
    if [ -n "${GITHUB_ACTIONS:-}" ]; then
        echo "::$1 title=provision gate::$2"
    else
        echo "$1: $2"
    fi
}

code=0
text=$("$PROVISION" gate ${PROVISION_TARGET:+"$PROVISION_TARGET"} --project "$PROVISION_PROJECT" \
    --idle --time-limit "$PROVISION_GATE_LIMIT") || code=$?
printf '%s\n' "$text"
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
