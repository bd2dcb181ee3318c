//! A server that misbehaves as it is told to, down to the single byte.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ambient_e2b::{Client, Config, NewSandbox, RetryPolicy, Sandbox};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What a client sent.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// With its query.
    pub(crate) path: String,
    /// Names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
    /// How many requests for the same method and path came before.
    pub(crate) earlier: usize,
}

impl Request {
    pub(crate) fn is(&self, method: &str, path: &str) -> bool {
        self.method == method && self.path.split('?').next() == Some(path)
    }
}

/// What the server does, in order; then it closes the connection.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Sends bytes.
    Send(Vec<u8>),
    /// Sends bytes one by one, each in a packet of its own.
    Drip(Vec<u8>),
    /// Waits.
    Pause(Duration),
    /// Keeps the connection open and says nothing, until the test ends.
    Hold,
}

pub(crate) struct FaultServer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl FaultServer {
    /// Answers as `behaviour` says. The paths that every client needs are answered well unless `behaviour` answers them.
    pub(crate) async fn start(behaviour: impl Fn(&Request) -> Option<Vec<Act>> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("the loopback has a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (log, behaviour) = (Arc::clone(&requests), Arc::new(behaviour));
        #[expect(clippy::disallowed_methods, reason = "a server of the test, which ends with the test's runtime")]
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (log, behaviour) = (Arc::clone(&log), Arc::clone(&behaviour));
                tokio::spawn(async move {
                    // A client that hangs up in the middle is part of the tests.
                    let _ = serve(stream, &log, behaviour.as_ref()).await;
                });
            }
        });
        Self { address, requests }
    }

    /// Settings that lead here, with waits short enough for a test.
    pub(crate) fn config(&self) -> Config {
        let origin = format!("http://{}", self.address);
        let mut config = Config::from_lookup(|name| match name {
            "E2B_API_URL" | "E2B_SANDBOX_URL" => Some(origin.clone()),
            "E2B_API_KEY" => Some("e2b_0000000000000000000000000000000000000000".to_owned()),
            _ => None,
        })
        .expect("these settings are good");
        config.retry = RetryPolicy { base: Duration::from_millis(2), ..RetryPolicy::default() };
        config.keepalive_interval = Duration::from_millis(50);
        config.stall_after = Duration::from_millis(300);
        config.idle_timeout = Duration::from_millis(300);
        config
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.config()).expect("TLS can be set up")
    }

    pub(crate) async fn sandbox(&self) -> Sandbox {
        self.client().create(&NewSandbox::new("base")).await.expect("the server makes a sandbox")
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("no test panics with the log in hand").clone()
    }

    pub(crate) fn count(&self, method: &str, path: &str) -> usize {
        self.requests().iter().filter(|request| request.is(method, path)).count()
    }
}

async fn serve(
    mut stream: TcpStream,
    log: &Mutex<Vec<Request>>,
    behaviour: &(dyn Fn(&Request) -> Option<Vec<Act>> + Send + Sync),
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let Some(mut request) = read_request(&mut stream).await? else { return Ok(()) };
    {
        let mut log = log.lock().expect("no test panics with the log in hand");
        request.earlier = log.iter().filter(|one| one.method == request.method && one.path == request.path).count();
        log.push(request.clone());
    }
    let acts = behaviour(&request).unwrap_or_else(|| well(&request));
    for act in acts {
        match act {
            Act::Send(bytes) => stream.write_all(&bytes).await?,
            Act::Drip(bytes) => {
                for byte in bytes {
                    stream.write_all(&[byte]).await?;
                    stream.flush().await?;
                    tokio::task::yield_now().await;
                }
            }
            Act::Pause(time) => tokio::time::sleep(time).await,
            Act::Hold => std::future::pending::<()>().await,
        }
    }
    stream.shutdown().await
}

/// Reads a head and its body; a body for `/stuck` is left unread.
async fn read_request(stream: &mut TcpStream) -> std::io::Result<Option<Request>> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let mut body = bytes.split_off(head_end + 4);
    if !path.contains("stuck") {
        if let Some(length) = headers.get("content-length").and_then(|text| text.parse::<usize>().ok()) {
            while body.len() < length && stream.read_buf(&mut body).await? > 0 {}
        } else if headers.get("transfer-encoding").is_some_and(|value| value == "chunked") {
            while !body.ends_with(b"0\r\n\r\n") && stream.read_buf(&mut body).await? > 0 {}
        }
    }
    let (method, path) = (method.to_owned(), path.to_owned());
    Ok(Some(Request { method, path, headers, body, earlier: 0 }))
}

/// What a good server says to the calls that every test makes.
fn well(request: &Request) -> Vec<Act> {
    if request.is("POST", "/v2/sandboxes") {
        json(201, INSTANCE)
    } else if request.is("GET", "/health") {
        json(204, "")
    } else if request.is("POST", "/process.Process/SendSignal") {
        json(200, "{}")
    } else {
        json(404, r#"{"code":404,"message":"nothing is here"}"#)
    }
}

/// A sandbox as create tells it.
pub(crate) const INSTANCE: &str = r#"{"templateID":"t1","sandboxID":"i1","clientID":"c","envdVersion":"0.6.13","envdAccessToken":"0123456789abcdef"}"#;

/// The same with an agent of this version.
pub(crate) fn instance_with_agent(version: &str) -> String {
    INSTANCE.replace("0.6.13", version)
}

/// A whole answer in JSON.
pub(crate) fn json(status: u16, body: &str) -> Vec<Act> {
    answer(status, &[("Content-Type", "application/json")], body)
}

/// A whole answer.
pub(crate) fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Vec<Act> {
    let headers: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let headers = headers.concat();
    let length = body.len();
    let head = format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n");
    vec![Act::Send(format!("{head}{body}").into_bytes())]
}

/// A page such as a proxy shows.
pub(crate) fn page(status: u16) -> Vec<Act> {
    answer(status, &[("Content-Type", "text/html")], "<html><body><h1>Bad Gateway</h1></body></html>")
}

/// The head of a stream whose body ends with the connection.
pub(crate) fn stream_head() -> Act {
    Act::Send(b"HTTP/1.1 200 OK\r\nContent-Type: application/connect+json\r\nConnection: close\r\n\r\n".to_vec())
}

/// Frames of a command that writes `pieces` and ends well.
pub(crate) fn frames(pieces: &[&[u8]]) -> Vec<u8> {
    use ambient_e2b::protocol::Frame;
    use ambient_e2b::protocol::connect::EndOfStream;
    use ambient_e2b::protocol::process::{EventMessage, ProcessEnd, ProcessEvent};
    let end = ProcessEnd { exit_code: 0, exited: true, status: "exit status 0".to_owned(), error: None };
    let output = pieces.iter().map(|piece| ProcessEvent::Stdout(piece.to_vec().into()));
    let events = [ProcessEvent::Start { pid: 7 }].into_iter().chain(output).chain([ProcessEvent::End(end)]);
    let mut bytes: Vec<u8> =
        events.flat_map(|event| Frame::message(&EventMessage { event }).expect("an event can be written")).collect();
    bytes.extend(Frame::end(&EndOfStream::default()).expect("an end can be written"));
    bytes
}

/// One event in its frame.
pub(crate) fn event(event: ambient_e2b::protocol::process::ProcessEvent) -> Vec<u8> {
    let message = ambient_e2b::protocol::process::EventMessage { event };
    ambient_e2b::protocol::Frame::message(&message).expect("an event can be written").to_vec()
}
