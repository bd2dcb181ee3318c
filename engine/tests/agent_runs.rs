//! Runs of the real agent against a scripted model: what it is sent, what it answers, and what clients see of it.

mod support {
    pub(crate) mod agent_world;
    pub(crate) mod model;
}
mod agent {
    mod answers;
    mod failures;
    mod forms;
    mod media;
    mod quirks;
    mod tools;
}
