//! What a command says and how it ends.
//!
//! Data goes to stdout, everything else to stderr. Meaning never hangs on colour.

mod exit;
mod failure;
mod printer;
mod progress;

pub use exit::Exit;
pub use failure::Failure;
pub use printer::Printer;
pub use progress::Progress;
