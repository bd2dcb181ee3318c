//! A wire between an engine and a server that a test can cut.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Forwards connections until it is dropped.
pub(crate) struct Proxy {
    address: SocketAddr,
    cuts: Arc<watch::Sender<Wire>>,
    _forwarding: JoinSet<()>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Wire {
    /// Connections of an earlier number are cut.
    number: u64,
    is_up: bool,
}

impl Proxy {
    /// Between a new port and the server at `target`.
    pub(crate) async fn to(target: String) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (cuts, wire) = watch::channel(Wire { number: 0, is_up: true });
        let mut forwarding = JoinSet::new();
        forwarding.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _from)) = listener.accept().await {
                if wire.borrow().is_up {
                    connections.spawn(forward(client, target.clone(), wire.clone()));
                }
            }
        });
        Ok(Self { address, cuts: Arc::new(cuts), _forwarding: forwarding })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts all connections and closes each new one at once, until [`Self::mend`].
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|wire| *wire = Wire { number: wire.number + 1, is_up: false });
    }

    pub(crate) fn mend(&self) {
        self.cuts.send_modify(|wire| wire.is_up = true);
    }
}

async fn forward(mut client: TcpStream, target: String, mut wire: watch::Receiver<Wire>) {
    let number = wire.borrow().number;
    let Ok(mut server) = TcpStream::connect(target).await else { return };
    tokio::select! {
        _ended = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
        _cut = wire.wait_for(|wire| wire.number != number) => {}
    }
}
