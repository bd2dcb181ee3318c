//! What shall run.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::protocol::Token;
use crate::protocol::process::{ProcessConfig, Pty, PtySize, StartProcess};

/// What a command may take when nothing else is said; E2B's own default.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(1);

/// What is kept of each output stream when nothing else is said.
const DEFAULT_OUTPUT_LIMIT: usize = 8 << 20;

/// Runs the line `$1` with pipes of its own as its output, which two readers pass on. When the line ends, the readers get until the pipes have been empty for a
/// tenth of a second, and two seconds in all if somebody goes on writing. If somebody still holds the pipes then, others take the readers' place and pass
/// nothing on, so that the command's real output is closed and nobody is hit by a broken pipe.
const UNTIL_EXIT: &str = r#"
pipes=$(mktemp -d) || exit 125
mkfifo "$pipes/out" "$pipes/err" || exit 125
exec 7<>"$pipes/out" 5<"$pipes/out" 8>"$pipes/out" 7<&-
exec 7<>"$pipes/err" 6<"$pipes/err" 9>"$pipes/err" 7<&-
rm -r "$pipes"
cat <&5 5<&- 6<&- 8>&- 9>&- & out=$!
cat <&6 >&2 5<&- 6<&- 8>&- 9>&- & err=$!
{ /bin/bash -c "$1" >&8 2>&9 5<&- 6<&- 8>&- 9>&-; code=$?; } 2>/dev/null
exec 8>&- 9>&-
quiet=0 moments=0
while [ $quiet -lt 10 ] && [ $moments -lt 200 ]; do
  a= b=
  kill -0 $out 2>/dev/null && a=1
  kill -0 $err 2>/dev/null && b=1
  [ "$a$b" ] || exit $code
  if { [ "$a" ] && read -t 0 -u 5; } || { [ "$b" ] && read -t 0 -u 6; }; then quiet=0; else quiet=$((quiet + 1)); fi
  moments=$((moments + 1))
  sleep 0.01
done
cat <&5 >/dev/null 2>&1 5<&- 6<&- &
cat <&6 >/dev/null 2>&1 5<&- 6<&- &
kill $out $err 2>/dev/null
exit $code"#;

/// The variable that carries a mark from a process to its children.
pub(super) const MARK_VARIABLE: &str = "E2B_COMMAND_MARK";

/// A command to be run. Its deadline is always sent, so that the server ends it even if the client is gone by then.
#[derive(Clone, Debug)]
pub struct Command {
    pub(crate) process: ProcessConfig,
    pub(crate) pty: Option<PtySize>,
    pub(crate) tag: Option<String>,
    pub(crate) stdin: bool,
    pub(crate) user: Option<String>,
    pub(crate) timeout: Duration,
    pub(crate) output_limit: usize,
    pub(crate) mark: Option<String>,
}

impl Command {
    /// A line for the shell: `/bin/bash -c <line>`. It reads no profile, so it starts in half the time, and `PATH` stays what the sandbox,
    /// its template and this command say.
    pub fn shell(line: impl Into<String>) -> Self {
        Self::program("/bin/bash").args(["-c".to_owned(), line.into()])
    }

    /// A line for a login shell: `/bin/bash -l -c <line>`, as E2B's SDKs run it. `/etc/profile` and the user's own count, and set `PATH` anew.
    pub fn login_shell(line: impl Into<String>) -> Self {
        Self::program("/bin/bash").args(["-l".to_owned(), "-c".to_owned(), line.into()])
    }

    /// A line for the shell that ends when the shell does, though what it started in the background holds its output: `server &` does not hold the call until
    /// its deadline. What is written after the end is dropped, and whoever writes it does not notice. The line itself ending by a signal shows as exit code
    /// 128 and the signal's number, as in any shell.
    pub fn shell_until_exit(line: impl Into<String>) -> Self {
        Self::program("/bin/bash").args(["-c".to_owned(), UNTIL_EXIT.to_owned(), "bash".to_owned(), line.into()])
    }

    /// A program, without any shell.
    pub fn program(path: impl Into<String>) -> Self {
        Self {
            process: ProcessConfig { cmd: path.into(), ..ProcessConfig::default() },
            pty: None,
            tag: None,
            stdin: false,
            user: None,
            timeout: DEFAULT_TIMEOUT,
            output_limit: DEFAULT_OUTPUT_LIMIT,
            mark: None,
        }
    }

    /// An interactive shell on a terminal of this size.
    pub fn terminal(columns: u32, rows: u32) -> Self {
        let shell = Self::program("/bin/bash").args(["-i", "-l"]);
        Self { pty: Some(PtySize { cols: columns, rows }), stdin: true, ..shell }
            .env("TERM", "xterm-256color")
            .env("LANG", "C.UTF-8")
            .env("LC_ALL", "C.UTF-8")
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<String>) -> Self {
        self.process.args.push(argument.into());
        self
    }

    /// More arguments.
    #[must_use]
    pub fn args<A: Into<String>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.process.args.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// A variable on top of the sandbox's.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.process.envs.insert(name.into(), Token::new(value));
        self
    }

    /// More variables.
    #[must_use]
    pub fn envs<N: Into<String>, V: Into<String>>(mut self, pairs: impl IntoIterator<Item = (N, V)>) -> Self {
        let pairs = pairs.into_iter().map(|(name, value)| (name.into(), Token::new(value)));
        self.process.envs.extend(pairs.collect::<BTreeMap<_, _>>());
        self
    }

    /// Where it runs; a relative folder is taken from the user's home.
    #[must_use]
    pub fn current_dir(mut self, path: impl Into<String>) -> Self {
        self.process.cwd = Some(path.into());
        self
    }

    /// Who runs it, if not the template's user.
    #[must_use]
    pub fn user(mut self, name: impl Into<String>) -> Self {
        self.user = Some(name.into());
        self
    }

    /// A name by which it can be found and joined.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tag = Some(tag.into());
        self
    }

    /// Keeps its standard input open, to be written to. Without this it reads end of file at once.
    #[must_use]
    pub fn with_stdin(mut self) -> Self {
        self.stdin = true;
        self
    }

    /// How long it may take. At that time the server kills it. 0 counts as one millisecond, never as no limit.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How many bytes of each output stream [`Commands::run`](super::Commands::run) keeps; the rest is counted.
    #[must_use]
    pub fn output_limit(mut self, bytes: usize) -> Self {
        self.output_limit = bytes;
        self
    }

    /// Marks it and all that it starts, so that [`Commands::sweep`](super::Commands::sweep) finds them whatever group or session they are in. A marked
    /// command that [`Commands::run`](super::Commands::run) ends at its deadline is swept. The mark is of letters, digits, `_` and `-`, and of one command.
    #[must_use]
    pub fn mark(self, mark: impl Into<String>) -> Self {
        let mark = mark.into();
        Self { mark: Some(mark.clone()), ..self }.env(MARK_VARIABLE, mark)
    }

    pub(crate) fn message(&self) -> StartProcess {
        StartProcess {
            process: self.process.clone(),
            pty: self.pty.map(|size| Pty { size: Some(size) }),
            tag: self.tag.clone(),
            // A terminal's input is its own; the field is about the pipe.
            stdin: if self.pty.is_some() { None } else { Some(self.stdin) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Command;

    #[test]
    fn a_line_for_a_login_shell_is_run_as_the_sdk_does() {
        let message = Command::login_shell("echo $A").env("A", "s3cret").message();
        assert_eq!(
            serde_json::to_string(&message).unwrap(),
            r#"{"process":{"cmd":"/bin/bash","args":["-l","-c","echo $A"],"envs":{"A":"s3cret"}},"stdin":false}"#
        );
        assert!(!format!("{message:?}").contains("s3cret"));
    }
}
