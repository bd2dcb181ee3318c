//! Model servers: whether they answer, take the key and have the model, and what the model takes.

use std::io;

use ambient_ctl::doctor::Level;

use super::lab::{Lab, closed_port, remedy};
use super::model::{KEY, MODEL, ModelServer, Refusals};

fn with(server: &ModelServer, more: &[&str]) -> io::Result<Lab> {
    let lines = server.lines();
    let lines: Vec<&str> = lines.iter().map(String::as_str).chain(more.iter().copied()).collect();
    Lab::repository(&lines)
}

#[tokio::test]
async fn a_server_that_has_the_models_is_well() -> io::Result<()> {
    let server = ModelServer::start().await?;
    let lab = with(&server, &[])?;
    let report = lab.look(&["llm"]).await;
    let seen: Vec<_> = report.findings.iter().map(|finding| finding.seen.as_str()).collect();
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert!(seen[0].contains("takes the key and has the"), "{seen:?}");
    Ok(())
}

#[tokio::test]
async fn keys_models_and_addresses_are_mended_by_their_remedies() -> io::Result<()> {
    let server = ModelServer::start().await?;
    let lab = with(&server, &["LLM_API_KEY=sk-another-key"])?;
    let finding = lab.finding("llm.key").await;
    assert!(finding.seen.ends_with("does not take `LLM_API_KEY` (401)"), "{finding:?}");
    lab.carry_out_with(remedy(&finding), "LLM_API_KEY", KEY).await;
    lab.is_well("llm").await;

    let lab = with(&server, &["LLM_MODEL=gemini-2.5-flash"])?;
    let finding = lab.finding("llm.model").await;
    assert!(finding.seen.contains(&format!("did you mean `{MODEL}`?")), "{finding:?}");
    lab.carry_out(remedy(&finding)).await;
    lab.is_well("llm").await;

    let url = format!("http://127.0.0.1:{}/v1", closed_port());
    let lab = Lab::repository(&[&format!("LLM_BASE_URL={url}"), "LLM_MODEL=x", "AGENT_MODEL=x"])?;
    let finding = lab.finding("llm.reach").await;
    assert!(finding.seen.contains("cannot be reached"), "{finding:?}");
    assert!(remedy(&finding).paste.ends_with(&format!("{url}/models")), "{finding:?}");

    let lab = Lab::repository(&[])?;
    let finding = lab.finding("llm.unset").await;
    assert!(remedy(&finding).paste.starts_with("ambientctl config set LLM_BASE_URL https://openrouter.ai/api/v1"));
    Ok(())
}

#[tokio::test]
async fn a_deep_look_tells_what_a_model_takes() -> io::Result<()> {
    let server = ModelServer::start().await?;
    let mut lab = with(&server, &[])?;
    lab.deep = true;
    assert_eq!(lab.finding("llm.tools").await.level, Level::Ok);
    assert!(lab.finding("llm.video").await.seen.ends_with("takes videos"));
    server.refuses(Refusals { videos: true, ..Refusals::default() });
    assert!(lab.finding("llm.video").await.seen.contains("it is shown frames of each clip"));
    server.refuses(Refusals { tools: true, images: true, videos: true });
    let tools = lab.finding("llm.tools").await;
    assert_eq!(tools.level, Level::Failure);
    assert!(remedy(&tools).paste.starts_with("ambientctl config set AGENT_MODEL"), "{tools:?}");
    let image = lab.finding("llm.image").await;
    assert!(image.seen.contains("takes neither videos nor images"), "{image:?}");
    server.refuses(Refusals::default());
    lab.is_well("llm").await;
    Ok(())
}
