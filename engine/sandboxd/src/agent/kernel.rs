//! What Rust's safe interfaces do not offer: waiting for any open file, signals of any number, and a filter of system calls.

use std::io;
use std::os::fd::OwnedFd;

use nix::libc;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Lets the runtime wait for an open file.
#[expect(unsafe_code, reason = "tokio cannot know that a descriptor stays open; a type that owns it keeps it so")]
pub(super) fn awaited(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open and the same until it is dropped, and nothing swaps it: the `AsyncFd` is only lent out shared.
    unsafe { AsyncFd::register_with_interest(fd, interest) }.map_err(|error| error.into_parts().1)
}

/// The kernel's record of what a signal does, as four words: what it calls, flags, and two that only say more of that.
type Disposition = [usize; 4];

/// Of a signal that is ignored.
const IGNORED: usize = libc::SIG_IGN;

/// Lets signals do what they usually do that this process was started to ignore (a shell lets what it starts with `&` ignore some): programs
/// inherit that, and `timeout --signal QUIT` would do nothing in a sandbox. This program's own choice, [`libc::SIGPIPE`], stays.
#[expect(unsafe_code, reason = "safe interfaces know the signals that have a name, and not all have one")]
pub(super) fn ignore_no_signal() {
    const SIGNALS: libc::c_int = 64;
    for signal in (1..=SIGNALS).filter(|signal| *signal != libc::SIGPIPE) {
        let (mut now, usual) = (Disposition::default(), Disposition::default());
        // SAFETY: both records are as large as the kernel's, and live until the calls return.
        unsafe {
            let (now, none) = (std::ptr::from_mut(&mut now), std::ptr::null::<Disposition>());
            libc::syscall(libc::SYS_rt_sigaction, signal, none, now, size_of::<u64>());
        }
        if now[0] == IGNORED {
            // SAFETY: as above; the usual way runs nothing of this process. The kernel refuses where there is no choice.
            unsafe {
                let (usual, none) = (std::ptr::from_ref(&usual), std::ptr::null::<Disposition>());
                libc::syscall(libc::SYS_rt_sigaction, signal, usual, none, size_of::<u64>());
            }
        }
    }
}

/// What a filter answers.
const REFUSED: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs();
const UNKNOWN: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
const NO_FAMILY: u32 = libc::SECCOMP_RET_ERRNO | libc::EAFNOSUPPORT.unsigned_abs();

/// Where the kernel's record of a call holds its number, its architecture and the low half of its first argument.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const FIRST_ARGUMENT_AT: u32 = 16;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// Calls that change the machine, reach past the sandbox's root, or open parts of the kernel that untrusted programs rarely need and often
/// break. Most of them also need a capability that is given up; a second bar costs nothing.
const REFUSED_CALLS: &[libc::c_long] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_open_by_handle_at,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_syslog,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// Kinds of sockets that reach the kernel's crypto or the hypervisor.
const REFUSED_FAMILIES: [libc::c_int; 2] = [libc::AF_ALG, libc::AF_VSOCK];

const NAMESPACE_FLAGS: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// Refuses them from now on, for this process and all that it starts.
#[expect(
    unsafe_code,
    reason = "the kernel takes the filter by a pointer, and no safe interface offers that without `no_new_privs`"
)]
pub(super) fn refuse_calls() -> io::Result<()> {
    let mut filter = filter();
    let length = libc::c_ushort::try_from(filter.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog { len: length, filter: filter.as_mut_ptr() };
    // SAFETY: `program` and the instructions it points to live until the call returns, and the kernel copies them.
    let result =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, std::ptr::from_ref(&program)) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The program of the kernel's filter machine: each test leaves at once, what no test meets is allowed.
fn filter() -> Vec<libc::sock_filter> {
    let mut steps = vec![
        // Calls of another architecture have other numbers.
        load(ARCHITECTURE_AT),
        skip_if_equal(ARCHITECTURE, 1),
        answer(UNKNOWN),
        load(NUMBER_AT),
    ];
    #[cfg(target_arch = "x86_64")]
    steps.extend([skip_unless_at_least(0x4000_0000, 1), answer(UNKNOWN)]);
    for call in REFUSED_CALLS {
        steps.extend([skip_unless_equal(number(*call), 1), answer(REFUSED)]);
    }
    // Its flags are in memory, where a filter cannot look; C libraries fall back to `clone`.
    steps.extend([skip_unless_equal(number(libc::SYS_clone3), 1), answer(UNKNOWN)]);
    steps.extend([
        skip_unless_equal(number(libc::SYS_clone), 4),
        load(FIRST_ARGUMENT_AT),
        skip_unless_any_bit(NAMESPACE_FLAGS.cast_unsigned(), 1),
        answer(REFUSED),
        answer(libc::SECCOMP_RET_ALLOW),
    ]);
    steps.extend([skip_unless_equal(number(libc::SYS_socket), 5), load(FIRST_ARGUMENT_AT)]);
    for family in REFUSED_FAMILIES {
        steps.extend([skip_unless_equal(family.unsigned_abs(), 1), answer(NO_FAMILY)]);
    }
    steps.push(answer(libc::SECCOMP_RET_ALLOW));
    steps
}

fn number(call: libc::c_long) -> u32 {
    u32::try_from(call).expect("numbers of system calls are small")
}

fn step(code: u32, if_true: u8, if_false: u8, k: u32) -> libc::sock_filter {
    let code = u16::try_from(code).expect("codes of the filter machine are small");
    libc::sock_filter { code, jt: if_true, jf: if_false, k }
}

fn load(offset: u32) -> libc::sock_filter {
    step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset)
}

fn answer(answer: u32) -> libc::sock_filter {
    step(libc::BPF_RET | libc::BPF_K, 0, 0, answer)
}

fn skip_if_equal(value: u32, steps: u8) -> libc::sock_filter {
    step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, steps, 0, value)
}

fn skip_unless_equal(value: u32, steps: u8) -> libc::sock_filter {
    step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, steps, value)
}

fn skip_unless_any_bit(bits: u32, steps: u8) -> libc::sock_filter {
    step(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0, steps, bits)
}

#[cfg(target_arch = "x86_64")]
fn skip_unless_at_least(value: u32, steps: u8) -> libc::sock_filter {
    step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, steps, value)
}

#[cfg(test)]
mod tests {
    use nix::libc;

    use super::{ARCHITECTURE, NO_FAMILY, REFUSED, UNKNOWN, filter};

    /// What the kernel's machine would answer.
    fn run(architecture: u32, call: libc::c_long, argument: u32) -> u32 {
        let steps = filter();
        let (mut at, mut held) = (0_usize, 0_u32);
        loop {
            let step = steps[at];
            at += 1;
            match u32::from(step.code) {
                0x20 => {
                    held = match step.k {
                        0 => u32::try_from(call).unwrap(),
                        4 => architecture,
                        _ => argument,
                    };
                }
                0x06 => return step.k,
                0x15 => at += usize::from(if held == step.k { step.jt } else { step.jf }),
                0x35 => at += usize::from(if held >= step.k { step.jt } else { step.jf }),
                0x45 => at += usize::from(if held & step.k != 0 { step.jt } else { step.jf }),
                other => panic!("no such step: {other:#x}"),
            }
        }
    }

    #[test]
    fn the_filter_refuses_what_it_is_to_refuse() {
        let allow = libc::SECCOMP_RET_ALLOW;
        assert_eq!(run(ARCHITECTURE, libc::SYS_read, 0), allow);
        assert_eq!(run(ARCHITECTURE, libc::SYS_mount, 0), REFUSED);
        assert_eq!(run(ARCHITECTURE, libc::SYS_io_uring_register, 0), REFUSED);
        assert_eq!(run(ARCHITECTURE, libc::SYS_clone3, 0), UNKNOWN);
        assert_eq!(run(ARCHITECTURE, libc::SYS_clone, libc::SIGCHLD.unsigned_abs()), allow);
        assert_eq!(run(ARCHITECTURE, libc::SYS_clone, libc::CLONE_NEWUSER.unsigned_abs()), REFUSED);
        assert_eq!(run(ARCHITECTURE, libc::SYS_socket, libc::AF_INET.unsigned_abs()), allow);
        assert_eq!(run(ARCHITECTURE, libc::SYS_socket, libc::AF_VSOCK.unsigned_abs()), NO_FAMILY);
        assert_eq!(run(ARCHITECTURE, libc::SYS_socket, libc::AF_ALG.unsigned_abs()), NO_FAMILY);
        assert_eq!(run(ARCHITECTURE ^ 1, libc::SYS_read, 0), UNKNOWN);
    }
}
