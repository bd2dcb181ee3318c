//! Commands in the sandbox: started, followed, fed, signalled.

mod attend;
mod calls;
mod ending;
mod launch;
mod pipe;
mod spawn;
mod starters;
mod stream;
mod table;

pub(super) use calls::{close_stdin, list, send_input, send_signal, stream_input, update};
pub(super) use ending::Ending;
pub(super) use starters::Starters;
pub(super) use stream::{connect, start};
pub(super) use table::Processes;
