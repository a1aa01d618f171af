# Read by the other scripts of this folder. What differs between nodes is set in /etc/default/provision.
[ -r /etc/default/provision ] && . /etc/default/provision
: "${PROVISION:=/opt/provision/toolkit/.tools/bin/provision}" # the program
: "${PROVISION_PROJECT:=/opt/provision/toolkit}"              # whose environments are checked
: "${PROVISION_TARGET:=max-linux}"
: "${PROVISION_STATE:=/var/lib/provision}" # verdicts, and which drain was ours
: "${PROVISION_TIME_LIMIT:=50s}" # slurmd kills a health check after 60 s
node=${SLURMD_NODENAME:-$(hostname -s)}

# check WORDS...: run checks; sets `line` and `code`. The network, a time-out or a broken Python are
# no verdict, and end with another code or without the line.
check() {
    line=$("$PROVISION" smoke "$PROVISION_TARGET" --project "$PROVISION_PROJECT" --node "$node" \
        --verdicts "$PROVISION_STATE/verdicts" --time-limit "$PROVISION_TIME_LIMIT" --contract slurm "$@")
    code=$?
    echo "$line"
}

removed() {
    [ "$code" -eq 1 ] && [ "${line#provision: remove }" != "$line" ]
}

# Slurm's manual warns of its commands in a prolog: a healthy node calls none.
drain() {
    mkdir -p "$PROVISION_STATE" && : > "$PROVISION_STATE/drained" &&
        scontrol update NodeName="$node" State=DRAIN Reason="$line"
}

# Only a node whose reason is still ours: an administrator's has another one.
resume() {
    [ -e "$PROVISION_STATE/drained" ] || return 0
    reason=$(sinfo --noheader --nodes="$node" --format=%E) || return 0
    case $reason in
    "provision: remove "*) scontrol update NodeName="$node" State=RESUME || return 0 ;;
    esac
    rm -f "$PROVISION_STATE/drained"
}
