//! The block of variables that the process was started with, kept from others.
//!
//! `/proc/PID/environ` shows that block as it was at the start, keys included, to root and to every process of the same
//! user, a shell command of the agent among them. So each variable moves to memory of its own, where this process finds it
//! as before, and the block is blanked.

use std::ffi::OsString;

/// Moves the variables and blanks the block. Only what cannot be a variable's name is lost with it.
#[expect(unsafe_code, reason = "`set_var` is unsound beside threads; `main` calls this before it starts any")]
#[expect(clippy::disallowed_methods, reason = "the variables keep their values; only their place changes")]
pub(crate) fn hide(variables: &[(OsString, OsString)]) {
    for (name, value) in variables {
        if !name.is_empty() && !name.as_encoded_bytes().contains(&b'=') {
            // SAFETY: the process has one thread: no runtime, no logger and no child was started before `main` came here.
            unsafe { std::env::set_var(name, value) };
        }
    }
    #[cfg(target_os = "linux")]
    {
        // A kernel that forbids it leaves things as they are everywhere else; logging does not exist yet.
        let _as_before = blank();
    }
}

/// Overwrites the block with zeros. Nothing points into it any more.
#[cfg(target_os = "linux")]
fn blank() -> std::io::Result<()> {
    use std::io::{Error, Seek, SeekFrom, Write};

    /// Fields of `/proc/PID/stat` where the block begins and ends, counted from the one behind the name.
    const BEGIN_AND_END: std::ops::Range<usize> = 47..49;

    let stat = std::fs::read("/proc/self/stat")?;
    let after_name = stat.iter().rposition(|byte| *byte == b')').map_or(0, |at| at + 1);
    let fields = String::from_utf8_lossy(&stat[after_name..]);
    let mut fields = fields.split_whitespace().skip(BEGIN_AND_END.start).map(str::parse::<u64>);
    let (Some(Ok(begin)), Some(Ok(end))) = (fields.next(), fields.next()) else {
        return Err(Error::other("the kernel does not say where the block is"));
    };
    let length = usize::try_from(end.saturating_sub(begin)).map_err(Error::other)?;
    let mut memory = std::fs::OpenOptions::new().write(true).open("/proc/self/mem")?;
    memory.seek(SeekFrom::Start(begin))?;
    memory.write_all(&vec![0; length])
}
