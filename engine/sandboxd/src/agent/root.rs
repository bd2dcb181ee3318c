//! The sandbox's root: an overlay of its layers, the kernel's own file systems on it, and nothing of the host.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use nix::unistd::{chdir, pivot_root};

use super::BootSpec;
use super::failure::{Attempting as _, StartFailure};

/// Names of `/dev` with their device numbers.
const DEVICES: [(&str, u64, u64); 6] =
    [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)];

/// Links of `/dev`.
const DEVICE_LINKS: [(&str, &str); 5] = [
    ("/proc/self/fd", "fd"),
    ("/proc/self/fd/0", "stdin"),
    ("/proc/self/fd/1", "stdout"),
    ("/proc/self/fd/2", "stderr"),
    ("pts/ptmx", "ptmx"),
];

/// What of `/proc` may be read but not written: it sets the machine.
const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// What of `/proc` tells about the machine or its memory, and so is not there.
const HIDDEN_FILES: [&str; 6] =
    ["/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/sched_debug", "/proc/kmsg"];

/// The same, for folders.
const HIDDEN_FOLDERS: [&str; 3] = ["/proc/acpi", "/proc/scsi", "/sys/firmware"];

/// The files that every sandbox has in its own words.
const LOOPBACK_NAMES: &str = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n";

/// The kernel reads this much of an option, and takes the rest for nothing.
const OPTION_BYTES: usize = 4096;

fn check_length(options: &str, layers: usize) -> io::Result<()> {
    if options.len() < OPTION_BYTES {
        return Ok(());
    }
    Err(io::Error::other(format!("{layers} layers are more than a root can have; make one step of several, with `&&`")))
}

/// Mounts the root and makes it this process's only one.
pub(super) fn mount_root(spec: &BootSpec) -> Result<(), StartFailure> {
    // Relative names keep the option short: the kernel takes one page of it, and templates have many layers.
    chdir(spec.folder.as_std_path()).attempting(format!("enter `{}`", spec.folder))?;
    // `volatile`: nothing in a sandbox waits for the disk. What is to last (a layer of a template) is synced once, when it is whole.
    let options = format!("lowerdir={},upperdir={},workdir={},volatile", spec.lower.join(":"), spec.upper, spec.work);
    check_length(&options, spec.lower.len()).attempting("mount the layers of the root as an overlay")?;
    mount(Some("overlay"), spec.root.as_str(), Some("overlay"), MsFlags::MS_NODEV, Some(options.as_str()))
        .attempting("mount the layers of the root as an overlay")?;
    chdir(spec.root.as_str()).attempting("enter the root")?;

    for folder in ["proc", "sys", "dev"] {
        let _may_be_there = fs::create_dir(folder);
    }
    let quiet = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "proc", Some("proc"), quiet, None::<&str>).attempting("mount `/proc`")?;
    mount(Some("sysfs"), "sys", Some("sysfs"), quiet | MsFlags::MS_RDONLY, None::<&str>).attempting("mount `/sys`")?;
    devices().attempting("make `/dev`")?;

    pivot_root(".", ".").attempting("change the root")?;
    umount2(".", MntFlags::MNT_DETACH).attempting("let go of the host's root")?;
    chdir("/").attempting("enter the new root")?;
    restrict_kernel_files().attempting("restrict `/proc` and `/sys`")?;
    own_files(spec).attempting("write the sandbox's own files in `/etc`")
}

fn devices() -> io::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    mount(Some("tmpfs"), "dev", Some("tmpfs"), flags, Some("mode=755,size=64k"))?;
    for (name, major, minor) in DEVICES {
        let path = Path::new("dev").join(name);
        mknod(&path, SFlag::S_IFCHR, Mode::from_bits_truncate(0o666), makedev(major, minor))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666))?;
    }
    for (target, name) in DEVICE_LINKS {
        symlink(target, Path::new("dev").join(name))?;
    }
    fs::create_dir("dev/pts")?;
    mount(Some("devpts"), "dev/pts", Some("devpts"), flags, Some("newinstance,ptmxmode=0666,mode=0620,gid=5"))?;
    fs::create_dir("dev/shm")?;
    mount(Some("tmpfs"), "dev/shm", Some("tmpfs"), flags | MsFlags::MS_NODEV, Some("mode=1777"))?;
    Ok(())
}

fn restrict_kernel_files() -> io::Result<()> {
    let bind = MsFlags::MS_BIND | MsFlags::MS_REC;
    for path in READ_ONLY.into_iter().filter(|path| Path::new(path).exists()) {
        mount(Some(path), path, None::<&str>, bind, None::<&str>)?;
        let locked = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC | MsFlags::MS_RDONLY;
        mount(None::<&str>, path, None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REMOUNT | locked, None::<&str>)?;
    }
    for path in HIDDEN_FILES.into_iter().filter(|path| Path::new(path).exists()) {
        mount(Some("/dev/null"), path, None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
    }
    for path in HIDDEN_FOLDERS.into_iter().filter(|path| Path::new(path).is_dir()) {
        mount(Some("tmpfs"), path, Some("tmpfs"), MsFlags::MS_RDONLY, Some("size=0"))?;
    }
    Ok(())
}

fn own_files(spec: &BootSpec) -> io::Result<()> {
    let _may_be_there = fs::create_dir("/etc");
    replace("/etc/hostname", &format!("{}\n", spec.hostname))?;
    replace("/etc/hosts", &format!("{LOOPBACK_NAMES}127.0.1.1 {}\n", spec.hostname))?;
    replace("/etc/resolv.conf", &spec.resolv_conf)?;
    make_tmp()
}

/// A folder for everybody's files: a root that was an image of a registry may have none.
pub(super) fn make_tmp() -> io::Result<()> {
    let _may_be_there = fs::create_dir("/tmp");
    fs::set_permissions("/tmp", fs::Permissions::from_mode(0o1777))
}

/// Writes a file unless it holds just that; a link in its place (to a file of the host's init system) goes.
fn replace(path: &str, text: &str) -> io::Result<()> {
    let is_link = fs::symlink_metadata(path).is_ok_and(|known| known.is_symlink());
    if is_link {
        fs::remove_file(path)?;
    } else if fs::read(path).is_ok_and(|known| known == text.as_bytes()) {
        return Ok(());
    }
    let file = File::create(path)?;
    file.set_permissions(fs::Permissions::from_mode(0o644))?;
    io::Write::write_all(&mut &file, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::{OPTION_BYTES, check_length};

    #[test]
    fn options_that_the_kernel_would_cut_are_refused() {
        check_length(&"x".repeat(OPTION_BYTES - 1), 9).unwrap();
        let refused = check_length(&"x".repeat(OPTION_BYTES), 143).unwrap_err().to_string();
        assert!(refused.starts_with("143 layers are more than a root can have"), "{refused}");
    }
}
