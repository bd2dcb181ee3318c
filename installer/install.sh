#!/bin/sh
# Installs Ambient, or brings an installation up to date.
#
#     curl -fsSL https://github.com/ambient-intelligence-hq/ambient/releases/latest/download/install.sh | sh
#
# Fetches the one program for this machine into a temporary folder, checks it against its published checksum, and lets it
# do the rest: `ambientctl install`, which gets all words of this script (`sh -s -- --yes --dir /srv/ambient`). Nothing is
# written anywhere else before the download is complete and right.
#
#     AMBIENT_VERSION         which release; the newest without it
#     AMBIENT_DOWNLOAD_BASE   a mirror, laid out like the releases: BASE/latest/download/FILE, BASE/download/vVERSION/FILE
set -eu

fail() {
    printf 'error: %s\n' "$1" >&2
    shift
    for hint in "$@"; do
        printf '\nhint: %s\n' "$hint" >&2
    done
    exit 1
}

# The name of this kind of machine in the names of the archives.
machine() {
    system=$(uname -s)
    processor=$(uname -m)
    case $system in
        Linux) system=linux ;;
        Darwin) system=macos ;;
        *) fail "there is no Ambient for the system \`$system\`" "on Windows, run this inside WSL 2" ;;
    esac
    case $processor in
        x86_64 | amd64) processor=x86_64 ;;
        aarch64 | arm64) processor=aarch64 ;;
        i386 | i686)
            # A translated shell on a Mac names the processor that it is shown.
            if [ "$system" = macos ] && [ "$(sysctl -n hw.optional.x86_64 2>/dev/null || true)" = 1 ]; then
                processor=x86_64
            else
                fail "there is no Ambient for the processor \`$processor\`; it needs a 64-bit one (x86_64 or aarch64)"
            fi
            ;;
        *) fail "there is no Ambient for the processor \`$processor\`; there is one for x86_64 and aarch64" ;;
    esac
    if [ "$system-$processor" = macos-x86_64 ] && [ "$(sysctl -n sysctl.proc_translated 2>/dev/null || true)" = 1 ]; then
        processor=aarch64
    fi
    printf '%s-%s\n' "$processor" "$system"
}

# fetch URL FILE
fetch() {
    if command -v curl >/dev/null 2>&1; then
        curl --fail --silent --show-error --location --retry 2 --output "$2" "$1" || return 1
    elif command -v wget >/dev/null 2>&1; then
        wget --quiet --output-document "$2" "$1" || return 1
    else
        fail "neither \`curl\` nor \`wget\` is here to download with" "install one of them, then run this again"
    fi
}

checksum() {
    if command -v sha256sum >/dev/null 2>&1; then
        sha256sum "$1"
    elif command -v shasum >/dev/null 2>&1; then
        shasum -a 256 "$1"
    elif command -v openssl >/dev/null 2>&1; then
        openssl dgst -sha256 -r "$1"
    else
        fail "none of \`sha256sum\`, \`shasum\` and \`openssl\` is here, so the download cannot be checked" \
            "install one of them, then run this again"
    fi
}

# The version that the words ask for, else the environment's.
wanted_version() {
    version=${AMBIENT_VERSION:-latest}
    while [ $# -gt 0 ]; do
        case $1 in
            --version) version=${2:-} ;;
            --version=*) version=${1#--version=} ;;
        esac
        shift
    done
    printf '%s\n' "$version"
}

main() {
    base=${AMBIENT_DOWNLOAD_BASE:-https://github.com/ambient-intelligence-hq/ambient/releases}
    base=${base%/}
    version=$(wanted_version "$@")
    case $version in
        latest) from=$base/latest/download ;;
        v*) from=$base/download/$version ;;
        [0-9]*) from=$base/download/v$version ;;
        *) fail "\`$version\` is no version of Ambient" "versions look like 1.2.3; leave it out for the newest" ;;
    esac
    archive=ambientctl-$(machine).tar.gz

    folder=$(mktemp -d "${TMPDIR:-/tmp}/ambient-install.XXXXXX")
    [ -d "$folder" ] || fail "no temporary folder could be made"
    trap 'rm -rf "$folder"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM

    printf 'downloading %s\n' "$from/$archive" >&2
    fetch "$from/SHA256SUMS" "$folder/SHA256SUMS" || fail "could not download \`$from/SHA256SUMS\`" \
        "check that this release exists and that this machine reaches it; AMBIENT_DOWNLOAD_BASE names a mirror"
    expected=$(sed -n "s/^\([0-9a-f]\{64\}\) [ *]$archive\$/\1/p" "$folder/SHA256SUMS")
    [ -n "$expected" ] || fail "\`$from/SHA256SUMS\` has no checksum for \`$archive\`" \
        "this release is not for this kind of machine, or the answer is no list of checksums"
    fetch "$from/$archive" "$folder/$archive" || fail "could not download \`$from/$archive\`" \
        "check that this machine reaches it; AMBIENT_DOWNLOAD_BASE names a mirror"
    found=$(checksum "$folder/$archive")
    found=${found%% *}
    [ "$found" = "$expected" ] || fail "\`$from/$archive\` is not what was published: its checksum is $found, not $expected" \
        "try again; if it stays so, tell the people who run that server"
    tar -xzf "$folder/$archive" -C "$folder" ambientctl || fail "\`$archive\` cannot be unpacked"
    chmod 755 "$folder/ambientctl"
    "$folder/ambientctl" --version >/dev/null || fail "\`ambientctl\` does not run on this machine" \
        "is \`${TMPDIR:-/tmp}\` mounted without the right to run programs? set TMPDIR to another folder"

    # The script itself may come on stdin; questions are for the terminal.
    status=0
    if [ ! -t 0 ] && [ -t 2 ] && (: </dev/tty) 2>/dev/null; then
        "$folder/ambientctl" install "$@" </dev/tty || status=$?
    else
        "$folder/ambientctl" install "$@" || status=$?
    fi
    exit "$status"
}

main "$@"
