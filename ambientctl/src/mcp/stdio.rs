//! stdin and stdout as streams, whatever they are: pipes, sockets, files or a terminal.
//!
//! A thread for each does the blocking work, since a read of stdin cannot be given up and a client that reads slowly must
//! stall nothing but itself.

use std::io::{self, Read as _, Write as _};

use bytes::Bytes;
use futures::StreamExt as _;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, DuplexStream};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio_util::io::StreamReader;

/// Read at a time.
const CHUNK_BYTES: usize = 64 << 10;
/// Chunks that wait to be understood.
const CHUNKS: usize = 16;
/// Bytes that wait to be written.
const UNWRITTEN_BYTES: usize = 1 << 20;

/// Comes when everything was written that was to be.
pub(super) struct Written(oneshot::Receiver<()>);

impl Written {
    /// Waits for it. The writing end has to be dropped before.
    pub(super) async fn wait(self) {
        let _the_thread_ended_either_way = self.0.await;
    }
}

/// Both streams. Needs a runtime around it.
pub(super) fn streams() -> (impl AsyncRead + Send + Unpin + 'static, impl AsyncWrite + Send + Unpin + 'static, Written)
{
    let (sender, receiver) = mpsc::channel(CHUNKS);
    std::thread::spawn(move || read(&sender));
    let chunks = futures::stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|chunk: io::Result<Bytes>| (chunk, receiver))
    });

    let (ours, theirs) = tokio::io::duplex(UNWRITTEN_BYTES);
    let (done, written) = oneshot::channel();
    let runtime = Handle::current();
    std::thread::spawn(move || {
        write(&runtime, ours);
        let _nobody_may_wait = done.send(());
    });
    (StreamReader::new(chunks.boxed()), theirs, Written(written))
}

fn read(sender: &mpsc::Sender<io::Result<Bytes>>) {
    let mut stdin = io::stdin().lock();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = match stdin.read(&mut chunk) {
            Ok(0) => return,
            Ok(count) => Ok(Bytes::copy_from_slice(&chunk[..count])),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let is_over = read.is_err();
        if sender.blocking_send(read).is_err() || is_over {
            return;
        }
    }
}

fn write(runtime: &Handle, mut ours: DuplexStream) {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let Ok(count @ 1..) = runtime.block_on(ours.read(&mut chunk)) else { return };
        let mut stdout = io::stdout().lock();
        // A client that went away closes stdin too, which ends the service.
        if stdout.write_all(&chunk[..count]).and_then(|()| stdout.flush()).is_err() {
            return;
        }
    }
}
