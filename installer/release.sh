#!/usr/bin/env bash
# Makes what the installer fetches, for the machine that this runs on.
#
#     installer/release.sh FOLDER
#
# Leaves in FOLDER: ambientctl-PROCESSOR-SYSTEM.tar.gz with the one program in it, install.sh, and SHA256SUMS, in which the
# archives of other machines that are there already keep their lines. Two runs over one program make the same bytes.
#
#     BINARY=path    packs this program instead of building one
#     IMAGE=name     builds the engine's image of that name too, with the tags VERSION and latest
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
out=${1:?the folder to leave the files in}
mkdir -p "$out"
out=$(cd -- "$out" && pwd)

case $(uname -s) in
    Linux) system=linux ;;
    Darwin) system=macos ;;
    *) echo "no release is made on $(uname -s)" >&2; exit 1 ;;
esac
case $(uname -m) in
    x86_64) processor=x86_64 ;;
    aarch64 | arm64) processor=aarch64 ;;
    *) echo "no release is made for $(uname -m)" >&2; exit 1 ;;
esac

if [ -z "${BINARY:-}" ]; then
    (cd "$root" && cargo build --release --locked --bin ambientctl)
    BINARY=$(cd "$root" && cargo metadata --format-version 1 --no-deps --locked \
        | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')/release/ambientctl
fi
version=$("$BINARY" --version | cut -d' ' -f2)

archive=ambientctl-$processor-$system.tar.gz
python3 - "$BINARY" "$out/$archive" <<'PACK'
import gzip, sys, tarfile

program, archive = sys.argv[1:]
with open(archive, "wb") as raw, gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed:
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar, open(program, "rb") as source:
        entry = tar.gettarinfo(arcname="ambientctl", fileobj=source)
        entry.mode, entry.uid, entry.gid, entry.uname, entry.gname, entry.mtime = 0o755, 0, 0, "", "", 0
        tar.addfile(entry, source)
PACK
cp "$root/installer/install.sh" "$out/install.sh"

cd "$out"
sum() { if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi; }
# shellcheck disable=SC2012  # the names are ours
sum $(ls ambientctl-*.tar.gz install.sh) >SHA256SUMS

if [ -n "${IMAGE:-}" ]; then
    docker build --file "$root/compose/Dockerfile" --tag "$IMAGE:$version" --tag "$IMAGE:latest" "$root"
fi
echo "ambientctl $version for $processor-$system in $out"
