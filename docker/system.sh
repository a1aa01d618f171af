#!/bin/sh
# Install the packages of packages.txt that are missing and those of the folder drivers, and copy
# every file that this changed to /out. First of all the base image must be new enough.
set -eu
export DEBIAN_FRONTEND=noninteractive PYTHONHASHSEED=0 # where apt installs a Python, Debian compiles its library
read -r needed by < /mnt/glibc.txt
found=$(getconf GNU_LIBC_VERSION 2>&1) || found="no glibc"
if [ "$(printf '%s\n' "$needed" "${found#glibc }" | sort -V | head -n 1)" != "$needed" ]; then
    echo "the base image has $found, and $by needs glibc $needed or newer: name another with --base-image" >&2
    exit 1
fi
mkdir /out
missing=
while read -r package; do
    status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>&1) || true
    [ "$status" = installed ] || missing="$missing $package"
done < /mnt/packages.txt
absent= # packages of a distribution's own drivers, as apt names them
if [ -d /mnt/drivers ]; then
    cp -r /mnt/drivers /tmp/drivers
    while read -r _ file; do
        [ -e "/tmp/drivers/$file" ] || absent="$absent $(echo "${file%_*}" | sed 's/_/=/')"
    done < /tmp/drivers/SHA256SUMS
fi
touch /tmp/start
[ -z "$missing$absent" ] || apt-get -qq update
if [ -n "$missing" ]; then
    # shellcheck disable=SC2086 # a list of words
    apt-get -qq install --no-install-recommends $missing
fi
for package in $absent; do
    if ! (cd /tmp/drivers && apt-get -qq download "$package"); then
        echo "apt of the base image no longer has $package: give the file with --wheelhouse, or renew" \
            "the driver set with \`provision update\`" >&2
        exit 1
    fi
done
if [ -d /tmp/drivers ]; then
    (cd /tmp/drivers && sha256sum --check --strict --quiet SHA256SUMS)
    # By dpkg, not apt: a vendor's package must not bring others that no hash was given for.
    dpkg --install /tmp/drivers/*.deb
fi
if [ -n "$missing" ] || [ -d /tmp/drivers ]; then
    # Logs, caches and lists tell times; hosts and the like are the builder's own mounts.
    find / -xdev \( -path /out -o -path /tmp -o -path /run -o -path /root -o -path /var/log \
        -o -path /var/cache -o -path /var/lib/apt/lists -o -path /etc/hosts \
        -o -path /etc/resolv.conf -o -path /etc/hostname -o -name '*-old' \) -prune \
        -o ! -type d -cnewer /tmp/start -print0 | xargs -0r cp -a --parents -t /out
fi
find /out -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
