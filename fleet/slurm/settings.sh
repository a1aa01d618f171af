# Read by the other scripts of this folder. What differs between nodes is set in /etc/default/provision.
[ -r /etc/default/provision ] && . /etc/default/provision
: "${PROVISION:=/opt/provision/toolkit/.tools/bin/provision}" # the program
: "${PROVISION_PROJECT:=/opt/provision/toolkit}"              # whose environments are checked
: "${PROVISION_TARGET:=}"           # needed where several are built: nodes differ
: "${PROVISION_STATE:=/var/lib/provision}" # verdicts, and which drain was ours
: "${PROVISION_PROVE_EVERY:=24h}"   # all quick checks run so often, besides after each change
# slurmd kills a health check after 60 s: the gate and all quick checks have to end before. Each may
# take 5 s more than its limit to stop a driver that hangs.
: "${PROVISION_GATE_LIMIT:=10s}"
: "${PROVISION_TIME_LIMIT:=35s}"
node=${SLURMD_NODENAME:-$(hostname -s)}

# check VERB LIMIT WORDS...: run checks; sets `line` and `code`. The network, a time-out or a broken
# Python are no verdict, and end with another code or without the line.
check() {
    verb=$1 limit=$2
    shift 2
    line=$("$PROVISION" "$verb" ${PROVISION_TARGET:+"$PROVISION_TARGET"} --project "$PROVISION_PROJECT" \
        --node "$node" --verdicts "$PROVISION_STATE/verdicts" --time-limit "$limit" --contract slurm "$@")
    code=$?
    echo "$line"
    kept || removed || complain
}

# What is not a verdict changes no state of the node, and must not stay unseen: neither a program
# that does not start, nor a target that nobody has set.
complain() {
    words="provision: $verb on $node ended with $code and no verdict: ${line:-see its error; is PROVISION_TARGET set?}"
    echo "$words" >&2
    ! command -v logger > /dev/null || logger -t provision -p daemon.err -- "$words"
}

kept() {
    [ "$code" -eq 0 ] && [ "${line#provision: keep }" != "$line" ]
}

removed() {
    [ "$code" -eq 1 ] && [ "${line#provision: remove }" != "$line" ]
}

# prove WORDS...: all quick checks, where the gate has kept the node. Its line names the target.
prove() {
    PROVISION_TARGET=${PROVISION_TARGET:-$(echo "$line" | cut -d ' ' -f 3)}
    check smoke "$PROVISION_TIME_LIMIT" --idle "$@"
}

# Prints why the node is drained: `none` where it is not.
reason() {
    sinfo --noheader --nodes="$node" --format=%E
}

# Slurm's manual warns of its commands in a prolog: a healthy node calls none. A node that somebody else
# has drained keeps that reason, because a later `resume` would take the drain for ours.
drain() {
    found=$(reason) || return 0
    case $found in
    "" | none* | "provision: remove "*) ;;
    *)
        echo "provision: $node stays as it is, drained for another reason: $found" >&2
        return 0
        ;;
    esac
    mkdir -p "$PROVISION_STATE" && : > "$PROVISION_STATE/drained" &&
        scontrol update NodeName="$node" State=DRAIN Reason="$line"
}

# Only a node whose reason is still ours: an administrator's has another one.
resume() {
    [ -e "$PROVISION_STATE/drained" ] || return 0
    found=$(reason) || return 0
    case $found in
    "provision: remove "*) scontrol update NodeName="$node" State=RESUME || return 0 ;;
    esac
    rm -f "$PROVISION_STATE/drained"
}
