//! A model server that says what a test wants, on the loopback: OpenAI's chat completions, streamed and whole.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

/// What the model does with a request.
pub(crate) enum Reply {
    /// Says this.
    Text(String),
    /// Calls this tool with these arguments.
    Call(&'static str, Value),
    /// Refuses with this status and body.
    Status(u16, &'static str),
    /// Says nothing until the engine hangs up.
    Nothing,
}

/// A running model server. Its thread ends with the test.
pub(crate) struct Model {
    /// For `LLM_BASE_URL`.
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<Value>>>,
}

impl Model {
    /// Starts one that answers the agent like this. Whoever else asks, such as for a description, hears that it is a film.
    pub(crate) fn start(script: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}/v1", listener.local_addr()?);
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (script, heard) = (Arc::new(script), Arc::clone(&requests));
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let (script, heard) = (Arc::clone(&script), Arc::clone(&heard));
                std::thread::spawn(move || {
                    let _the_engine_may_hang_up = serve(connection, &*script, &heard);
                });
            }
        });
        Ok(Self { url, requests })
    }

    /// What the agent asked so far: those requests that stream.
    pub(crate) fn asked(&self) -> Vec<Value> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn serve(mut connection: TcpStream, script: &dyn Fn(&Value) -> Reply, heard: &Mutex<Vec<Value>>) -> io::Result<()> {
    let mut reader = BufReader::new(connection.try_clone()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let streams = request["stream"] == true;
    let reply = if streams {
        heard.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
        script(&request)
    } else {
        Reply::Text("a film".to_owned())
    };
    let message = match reply {
        Reply::Text(text) => json!({ "role": "assistant", "content": text }),
        Reply::Call(name, arguments) => {
            let call = json!({ "name": name, "arguments": arguments.to_string() });
            let call = json!({ "index": 0, "id": "call_1", "type": "function", "function": call });
            json!({ "role": "assistant", "content": "let me look", "tool_calls": [call] })
        }
        Reply::Status(status, body) => return answer(&mut connection, status, "application/json", body),
        Reply::Nothing => {
            write!(connection, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: thinking\n\n")?;
            // Comes back when the engine hangs up.
            return reader.read(&mut [0]).map(drop);
        }
    };
    let finish = if message.get("tool_calls").is_some() { "tool_calls" } else { "stop" };
    let usage = json!({ "prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110 });
    if streams {
        let choice = json!({ "index": 0, "delta": message, "finish_reason": finish });
        let chunk = json!({ "id": "c", "object": "chat.completion.chunk", "choices": [choice], "usage": usage });
        answer(&mut connection, 200, "text/event-stream", &format!("data: {chunk}\n\ndata: [DONE]\n\n"))
    } else {
        let choice = json!({ "index": 0, "message": message, "finish_reason": finish });
        let whole = json!({ "id": "c", "object": "chat.completion", "choices": [choice], "usage": usage });
        answer(&mut connection, 200, "application/json", &whole.to_string())
    }
}

fn answer(connection: &mut TcpStream, status: u16, kind: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    write!(
        connection,
        "HTTP/1.1 {status} Said\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

/// All text of a request, one behind the other.
pub(crate) fn text_of(request: &Value) -> String {
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    let parts = messages.iter().flat_map(|message| match &message["content"] {
        Value::String(text) => vec![text.clone()],
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str().map(str::to_owned)).collect(),
        _ => Vec::new(),
    });
    parts.collect::<Vec<_>>().join("\n")
}

/// Whether the agent saw the result of a tool in this request.
pub(crate) fn has_result(request: &Value) -> bool {
    let messages = request["messages"].as_array();
    messages.is_some_and(|messages| messages.iter().any(|message| message["role"] == "tool"))
}
