//! The server: what it is, its one tool, and the calls that are under way.

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, Implementation, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::call::{Steps, call};
use super::tool::{Arguments, NAME, not_answered, tool};
use crate::asking::AnswerArgs;
use crate::engine_client::EngineClient;

const INSTRUCTIONS: &str =
    "Ask about videos with `analyze_video`. Give the `session_id` of an answer to go on with it.";

/// Answers what a client asks.
#[derive(Debug)]
pub(super) struct Server {
    engine: EngineClient,
    wish: AnswerArgs,
    runs: Runs,
}

/// The calls under way. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Runs {
    calls: TaskTracker,
    stop: CancellationToken,
}

impl Runs {
    /// Interrupts them.
    pub(super) fn stop(&self) {
        self.stop.cancel();
        self.calls.close();
    }

    /// Comes when none is left, after [`Self::stop`].
    pub(super) async fn ended(&self) {
        self.calls.wait().await;
    }
}

impl Server {
    pub(super) fn new(engine: EngineClient, wish: AnswerArgs) -> (Self, Runs) {
        let runs = Runs { calls: TaskTracker::new(), stop: CancellationToken::new() };
        (Self { engine, wish, runs: runs.clone() }, runs)
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("ambient", env!("CARGO_PKG_VERSION")).with_title("Ambient"))
            .with_instructions(INSTRUCTIONS)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        (name == NAME).then(tool)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult { tools: vec![tool()], ..ListToolsResult::default() })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name != NAME {
            return Err(ErrorData::invalid_params(format!("there is no tool `{}`, only `{NAME}`", request.name), None));
        }
        let arguments = match Arguments::read(request.arguments) {
            Ok(arguments) => arguments,
            Err(why) => return Ok(not_answered(&why, None).into()),
        };
        let _under_way = self.runs.calls.token();
        // A call ends with its own cancellation, and with the connection.
        let stop = self.runs.stop.child_token();
        let (steps, telling) = Steps::new(context.peer.clone(), context.meta.get_progress_token());
        let work = async {
            let result = call(&self.engine, &self.wish, &arguments, &stop, &steps).await;
            drop(steps);
            result
        };
        let cancelled = async {
            context.ct.cancelled().await;
            stop.cancel();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            ((), result) = futures::future::join(telling, work) => Ok(result.into()),
            () = cancelled => unreachable!("it is pending once it has cancelled"),
        }
    }
}
