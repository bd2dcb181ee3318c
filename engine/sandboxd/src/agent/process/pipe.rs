//! One end of a pipe or terminal, read and written without blocking.

use std::io;
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::agent::kernel;

/// An end that this process holds.
#[derive(Debug)]
pub(super) struct Pipe(AsyncFd<OwnedFd>);

impl Pipe {
    /// Takes it over. The other end stays blocking, as programs expect.
    pub(super) fn new(fd: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self(kernel::awaited(fd, Interest::READABLE | Interest::WRITABLE)?))
    }

    /// Waits for bytes, as many as the buffer has room for. None is the end; of a terminal, too, whose last user is gone.
    pub(super) async fn read(&self, buffer: &mut Vec<u8>) -> io::Result<()> {
        buffer.clear();
        let room = |fd: &OwnedFd| Ok(rustix::io::read(fd, rustix::buffer::spare_capacity(buffer))?);
        match self.0.async_io(Interest::READABLE, room).await {
            Err(error) if error.raw_os_error() == Some(Errno::EIO as i32) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Writes all of it, waiting for room.
    pub(super) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = self.0.async_io(Interest::WRITABLE, |fd| Ok(nix::unistd::write(fd, bytes)?)).await?;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Tells a terminal its size.
    pub(super) fn resize(&self, size: Size) -> io::Result<()> {
        rustix::termios::tcsetwinsize(self.0.get_ref(), size.into())?;
        Ok(())
    }
}

/// Of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::agent) struct Size {
    pub(in crate::agent) columns: u16,
    pub(in crate::agent) rows: u16,
}

impl From<Size> for rustix::termios::Winsize {
    fn from(size: Size) -> Self {
        Self { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 }
    }
}
