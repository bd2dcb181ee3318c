//! Starts a program without a copy of this process: the child borrows its memory until the program is there, as `posix_spawn` has it. To copy
//! the tables of a large process, and to throw them away at once, takes longer than all the rest of a start.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use nix::libc;
use nix::sched::{CloneCb, CloneFlags, clone};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigaction};
use nix::unistd::Pid;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};
use rustix::thread::{Gid, Uid};

use crate::agent::users::User;

/// How much sooner than the agent a command is killed for want of memory.
const COMES_FIRST: &[u8] = b"300";

/// How many open files a command begins with, as services of a machine do; it may ask for more. The agent itself has as many as there can be, and
/// programs that go through all that they may have take long over that.
const OPEN_FILES: u64 = 1024;

/// What the child has before its program: some calls of the kernel, one after the other.
const STACK_BYTES: usize = 32 << 10;

/// A program and all that it gets.
pub(super) struct Launch {
    words: Vec<CString>,
    variables: Vec<CString>,
    /// Where a program without a folder in its name is looked for.
    path: String,
    folder: CString,
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
    /// Its input, output and errors.
    ends: [OwnedFd; 3],
    has_terminal: bool,
}

/// How the child is put together.
pub(super) struct Surroundings<'a> {
    /// It runs as this user, in all of the user's groups.
    pub(super) user: &'a User,
    pub(super) variables: &'a BTreeMap<String, String>,
    /// Where it starts; its `PWD`, too.
    pub(super) folder: &'a Path,
    /// Its input, output and errors.
    pub(super) ends: [OwnedFd; 3],
    /// It leads a session whose terminal is its input; else it leads a group of processes.
    pub(super) has_terminal: bool,
}

impl Launch {
    /// Refuses what the kernel cannot be told: a zero in the middle of a word.
    pub(super) fn new<'a>(words: impl IntoIterator<Item = &'a str>, around: Surroundings<'_>) -> io::Result<Self> {
        let Surroundings { user, variables, folder, ends, has_terminal } = around;
        let path = variables.get("PATH").cloned().unwrap_or_default();
        let own = variables.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let place = ("PWD", folder.as_os_str().as_bytes());
        let variables = own.filter(|(name, _value)| *name != place.0).chain([place]);
        let variables = variables.map(|(name, value)| CString::new([name.as_bytes(), b"=", value].concat()));
        Ok(Self {
            words: words.into_iter().map(CString::new).collect::<Result<_, _>>()?,
            variables: variables.collect::<Result<_, _>>()?,
            path,
            folder: CString::new(folder.as_os_str().as_bytes())?,
            uid: Uid::from_raw(user.uid),
            gid: Gid::from_raw(user.gid),
            groups: user.groups().into_iter().map(Gid::from_raw).collect(),
            ends,
            has_terminal,
        })
    }

    /// The same with words before its own.
    pub(super) fn after(mut self, words: &[&CStr]) -> Self {
        self.words.splice(0..0, words.iter().map(|word| (*word).to_owned()));
        self
    }

    /// Starts it. Whoever waits for children sees its end, of a start that failed too.
    #[expect(unsafe_code, reason = "a child that borrows this process's memory is in no safe interface")]
    pub(super) fn start(&self) -> io::Result<Pid> {
        let programs = self.programs();
        let (words, variables) = (pointers(&self.words), pointers(&self.variables));
        let failure = AtomicI32::new(0);
        let child: CloneCb<'_> = Box::new(|| {
            let failed = match self.become_it() {
                // SAFETY: both lists end with a null, and their texts live as long as `self`.
                Ok(()) => unsafe { execute(&programs, &words, &variables) },
                Err(failed) => failed,
            };
            failure.store(failed.raw_os_error(), Ordering::Relaxed);
            127
        });
        let mut stack = vec![0; STACK_BYTES];
        // None of this process's handlers is to run in the child.
        let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        // SAFETY: this thread waits until the child has left the borrowed memory, so stack and closure outlive it. The child only makes system
        // calls: it allocates nothing, takes no lock, and touches nothing that another thread changes.
        let started =
            unsafe { clone(child, &mut stack, CloneFlags::CLONE_VM | CloneFlags::CLONE_VFORK, Some(libc::SIGCHLD)) };
        mask.thread_set_mask()?;
        // A change of user in the child may have opened the memory, which was still this one, to a debugger: a system can be set up so.
        nix::sys::prctl::set_dumpable(false)?;
        match failure.into_inner() {
            0 => Ok(started?),
            failed => Err(io::Error::from_raw_os_error(failed)),
        }
    }

    /// In the child: everything but the program.
    fn become_it(&self) -> Result<(), Errno> {
        let [input, output, errors] = &self.ends;
        rustix::stdio::dup2_stdin(input)?;
        rustix::stdio::dup2_stdout(output)?;
        rustix::stdio::dup2_stderr(errors)?;
        if self.has_terminal {
            rustix::process::setsid()?;
            rustix::process::ioctl_tiocsctty(input.as_fd())?;
        } else {
            // A group of its own: `kill 0` in a command is not to reach other commands.
            rustix::process::setpgid(None, None)?;
        }
        rustix::process::chdir(self.folder.as_c_str())?;
        // When memory is short, a command goes before the agent. Of no use is no reason to fail.
        if let Ok(file) = rustix::fs::open(c"/proc/self/oom_score_adj", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
        {
            let _killed_like_any_other = rustix::io::write(&file, COMES_FIRST);
        }
        let files = rustix::process::getrlimit(Resource::Nofile);
        let current = files.maximum.map_or(OPEN_FILES, |most| most.min(OPEN_FILES));
        rustix::process::setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..files })?;
        // These change the one thread that asks; those of the C library would ask every thread of this process.
        rustix::thread::set_thread_groups(&self.groups)?;
        rustix::thread::set_thread_gid(self.gid)?;
        rustix::thread::set_thread_uid(self.uid)?;
        take_signals().map_err(|error| Errno::from_raw_os_error(error as i32))
    }

    /// The files to try, in this order.
    fn programs(&self) -> Vec<CString> {
        let Some(name) = self.words.first() else { return Vec::new() };
        if name.is_empty() || name.as_bytes().contains(&b'/') {
            return vec![name.clone()];
        }
        let place = |folder: &str| {
            let folder = if folder.is_empty() { "." } else { folder };
            CString::new([folder.as_bytes(), b"/", name.as_bytes()].concat()).ok()
        };
        self.path.split(':').filter_map(place).collect()
    }
}

/// In the child: signals do what they do in a new program. This one ignores `SIGPIPE`, and its handler of `SIGCHLD` could still run in the
/// borrowed memory.
#[expect(unsafe_code, reason = "a handler could be anything; these are none")]
fn take_signals() -> nix::Result<()> {
    let usual = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    for signal in [Signal::SIGPIPE, Signal::SIGCHLD] {
        // SAFETY: the kernel's own way to take a signal runs nothing of this process.
        unsafe { sigaction(signal, &usual) }?;
    }
    SigSet::empty().thread_set_mask()
}

/// The texts as the kernel reads them.
fn pointers(texts: &[CString]) -> Vec<*const libc::c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
}

/// In the child: the first of these files that is a program. Returns why there is none.
///
/// # Safety
/// Both lists must end with a null, and what they point to must live until this returns.
#[expect(unsafe_code, reason = "the safe call makes its lists when it is called, and here nothing can be made")]
unsafe fn execute(programs: &[CString], words: &[*const libc::c_char], variables: &[*const libc::c_char]) -> Errno {
    let mut told = Errno::NOENT;
    for program in programs {
        // SAFETY: the caller's word.
        unsafe { libc::execve(program.as_ptr(), words.as_ptr(), variables.as_ptr()) };
        match nix::errno::Errno::last_raw() {
            libc::ENOENT | libc::ENOTDIR => {}
            other => told = Errno::from_raw_os_error(other),
        }
    }
    told
}
