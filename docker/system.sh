#!/bin/sh
# Install the packages of packages.txt that are missing and those of the folder drivers, and copy
# every file that this changed to /out.
set -eu
export DEBIAN_FRONTEND=noninteractive PYTHONHASHSEED=0 # Debian compiles Python's library
mkdir /out
missing=
while read -r package; do
    status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>&1) || true
    [ "$status" = installed ] || missing="$missing $package"
done < /mnt/packages.txt
touch /tmp/start
if [ -n "$missing" ]; then
    apt-get -qq update
    # shellcheck disable=SC2086 # a list of words
    apt-get -qq install --no-install-recommends $missing
fi
if [ -d /mnt/drivers ]; then
    (cd /mnt/drivers && sha256sum --check --strict --quiet SHA256SUMS)
    # By dpkg, not apt: a vendor's package must not bring others that no hash was given for.
    dpkg --install /mnt/drivers/*.deb
fi
if [ -n "$missing" ] || [ -d /mnt/drivers ]; then
    # Logs, caches and lists tell times; hosts and the like are the builder's own mounts.
    find / -xdev \( -path /out -o -path /tmp -o -path /run -o -path /root -o -path /var/log \
        -o -path /var/cache -o -path /var/lib/apt/lists -o -path /etc/hosts \
        -o -path /etc/resolv.conf -o -path /etc/hostname -o -name '*-old' \) -prune \
        -o ! -type d -cnewer /tmp/start -print0 | xargs -0r cp -a --parents -t /out
fi
find /out -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
