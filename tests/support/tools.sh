#!/bin/sh
# The programs that some tests and benchmarks talk to, installed from Debian's packages where they are missing and root or sudo is at hand.
# Where they cannot be had, what needs them is skipped, and says so; with CI=true it fails.

PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

install_package() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends -o DPkg::Lock::Timeout=120 "$1"
}

# A package of a server starts it as a service of the system, and at every boot. We start our own; so nothing is started while we
# install (the policy is what Debian asks), and what was not there before is not enabled for the next boot.
policy=/usr/sbin/policy-rc.d

without_services() {
    if [ -e "$policy" ]; then
        "$@"
        return
    fi
    trap 'as_root rm -f "$policy"; exit 130' INT TERM
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null && as_root chmod 755 "$policy" && "$@"
    installed=$?
    as_root rm -f "$policy"
    trap - INT TERM
    return $installed
}

# program (or file; with commas, any of them), package, service. Chromium itself only where Debian has no shell of it; the last four are
# what mysqlclient is built with.
tools() {
    cat <<TOOLS
curl                              curl                     -
mkfs.ext4                         e2fsprogs                -
wrk                               wrk                      -
node                              nodejs                   -
chromium-headless-shell,chromium  chromium-headless-shell  -
chromium-headless-shell,chromium  chromium                 -
mariadbd                          mariadb-server           mariadb
redis-server                      redis-server             redis-server
pgbouncer                         pgbouncer                pgbouncer
systemd-analyze                   systemd                  -
cc                                build-essential          -
pkg-config                        pkg-config               -
mariadb_config                    libmariadb-dev           -
$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h  python3-dev  -
TOOLS
}

# What pictures of pages are drawn with: `tools.sh fonts`.
fonts() {
    cat <<FONTS
chromium-headless-shell,chromium                     chromium                -
/usr/share/fonts/opentype/inter                      fonts-inter             -
/usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf  fonts-dejavu-core       -
/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf    fonts-noto-color-emoji  -
FONTS
}

is_there() {
    for one in $(echo "$1" | tr , ' '); do
        if command -v "$one" >/dev/null || [ -e "$one" ]; then return 0; fi
    done
    return 1
}

"${1:-tools}" | while read -r wanted package service; do
    is_there "$wanted" && continue
    echo "Installing $package"
    {
        without_services install_package "$package" || { as_root apt-get update -qq && without_services install_package "$package"; }
        [ "$service" = - ] || ! is_there "$wanted" || ! command -v systemctl || as_root systemctl disable "$service"
    } >/dev/null 2>&1 </dev/null
    is_there "$wanted" || echo "*** $wanted is not there and could not be installed: what needs it is skipped" >&2
done
