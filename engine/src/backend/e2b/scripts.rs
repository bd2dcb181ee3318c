//! What runs around a command inside of a sandbox, in bash and the usual small programs, which both templates have.
//!
//! All processes of a command carry one number as their limit of file locks: a limit that no kernel of the last twenty years
//! enforces, that is inherited through fork and exec, and that `/proc/PID/limits` shows. So they are found whatever they do: leave
//! the process group, lose their parent, empty their environment.

use rand::RngExt as _;

/// The shell of all scripts.
pub(crate) const BASH: &str = "/bin/bash";
/// Bits of a tag. Above all limits that anybody sets, below those that a shell's arithmetic cannot hold.
const TAG_BITS: u32 = 52;

/// A new number for the processes of one command.
pub(crate) fn new_tag() -> String {
    let number = rand::rng().random_range((1_u64 << (TAG_BITS - 1))..(1_u64 << TAG_BITS));
    number.to_string()
}

/// `TAG PROGRAM ARGUMENTS…`: the program as it is, with the tag on it.
pub(crate) const PLAIN: &str = r#"ulimit -x "$0" 2>/dev/null
exec "$@""#;

/// `TAG COMMAND CAP_BYTES SECONDS LINK_FILE LINK`: a line for the shell, so that the call ends with the shell and not with what it
/// left in the background, and so that output beyond the cap is thrown away in the sandbox.
///
/// The line begins in the user's home, whatever folder the template's own programs begin in.
///
/// The line writes into pipes that are read by relays. What the shell leaves behind keeps its pipe; its relay is then replaced by
/// one that throws away, so a daemon neither holds the call nor dies of a broken pipe. A watchman ends everything should the
/// engine die before the command does.
pub(crate) const SHELL: &str = r#"
tag=$0 line=$1 cap=$2 seconds=$3 link_file=$4 link=$5 sweep=$6
ulimit -x "$tag" 2>/dev/null
cd 2>/dev/null
if [ -n "$link" ]; then
  mkdir -p "${link_file%/*}" && printf '%s\n' "$link" >"$link_file"
fi 2>/dev/null
setsid /bin/bash -c 'sleep "$0"; exec /bin/bash -c "$1" "$2"' "$seconds" "$sweep" "$tag" </dev/null >/dev/null 2>&1 &
watchman=$!
pipes=$(mktemp -d) && mkfifo -m 600 "$pipes/out" "$pipes/err" || { echo "no room for a command in /tmp" >&2; exit 125; }
setsid /bin/bash -l -c "$line" </dev/null >"$pipes/out" 2>"$pipes/err" &
leader=$!
exec 7<"$pipes/out" 8<"$pipes/err"
rm -r "$pipes"
unbuffered=$(command -v stdbuf) && unbuffered="$unbuffered -o0"
relay='$1 head -c "$0"; exec cat >/dev/null 2>&1'
setsid /bin/bash -c "$relay" "$cap" "$unbuffered" <&7 7<&- 8<&- &
out=$!
setsid /bin/bash -c "$relay" "$cap" "$unbuffered" <&8 >&2 7<&- 8<&- &
err=$!
wait "$leader"
code=$?
# What is ended from here on is none of the command's affair, and the shell would tell of it.
exec 2>/dev/null
for pause in 0.01 0.02 0.05 0.05 0.1 0.1; do
  kill -0 "$out" 2>/dev/null || kill -0 "$err" 2>/dev/null || break
  sleep "$pause"
done
if kill -0 "$out" 2>/dev/null || kill -0 "$err" 2>/dev/null; then
  setsid cat <&7 >/dev/null 2>&1 8<&- &
  setsid cat <&8 >/dev/null 2>&1 7<&- &
  kill -KILL -- "-$out" "-$err" 2>/dev/null
fi
kill -KILL -- "-$watchman" 2>/dev/null
exit "$code"
"#;

/// `TAG`: ends every process with the tag, and waits until they are gone. They are stopped first, until no new one is found, so that
/// none can fork away.
pub(crate) const SWEEP: &str = r#"
declare -A found
for pass in 1 2 3 4 5 6 7 8; do
  fresh=
  while IFS=/ read -r _ _ process _; do
    [ -n "${found[$process]}" ] || [ "$process" = "$$" ] || [ "$process" = "$!" ] && continue
    found[$process]=1 fresh=1
    kill -STOP "$process"
  done < <(exec grep -lsE "^Max file locks +$0 " /proc/[0-9]*/limits)
  [ -n "$fresh" ] || break
done 2>/dev/null
for process in "${!found[@]}"; do kill -KILL "$process"; done 2>/dev/null
for pass in {1..100}; do
  left=
  for process in "${!found[@]}"; do [ -e "/proc/$process/exe" ] && left=1; done
  [ -n "$left" ] || break
  sleep 0.02
done
exit 0
"#;

/// What there is in a sandbox for media: prints `ours VERSION`, `python` or `none`.
pub(crate) const DETECT: &str = r"
if [ -x /app/ambientctl ]; then echo ours $(/app/ambientctl --version 2>/dev/null)
elif [ -f /app/main.py ]; then echo python
else echo none; fi";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_numbers_that_a_shell_can_set() {
        let tag: u64 = new_tag().parse().unwrap();
        assert!(tag >> (TAG_BITS - 1) == 1, "{tag}");
        assert_ne!(new_tag(), new_tag());
    }
}
