//! What servers really send, and what is made of it.

use serde_json::json;

use super::*;

fn read(chunks: &[Value]) -> Result<Completion, ModelError> {
    let mut assembly = Assembly::new("h".into());
    for chunk in chunks {
        assembly.feed(&chunk.to_string())?;
    }
    assembly.feed("[DONE]")?;
    assembly.finish()
}

#[expect(clippy::needless_pass_by_value, reason = "called with `json!` in place")]
fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn calls(pieces: Vec<Value>) -> Vec<(Option<String>, String, String)> {
    let mut chunks: Vec<Value> = pieces.into_iter().map(|piece| delta(json!({"tool_calls": piece}))).collect();
    chunks.push(json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}));
    let completion = read(&chunks).unwrap();
    completion.calls.into_iter().map(|call| (call.id, call.name, call.arguments)).collect()
}

fn call(id: &str, name: &str, arguments: &str) -> (Option<String>, String, String) {
    (Some(id.into()), name.into(), arguments.into())
}

#[test]
fn a_new_id_opens_a_call_although_the_index_is_the_same() {
    let got = calls(vec![
        json!([{"index": 0, "id": "a", "function": {"name": "one", "arguments": "{\"x\""}}]),
        json!([{"index": 0, "id": "a", "function": {"arguments": ":1}"}}]),
        json!([{"index": 0, "id": "b", "function": {"name": "two", "arguments": "{\"y\""}}]),
        json!([{"index": 0, "id": "b", "function": {"arguments": ":2}"}}]),
    ]);
    assert_eq!(got, [call("a", "one", "{\"x\":1}"), call("b", "two", "{\"y\":2}")]);
}

#[test]
fn pieces_after_a_new_id_on_an_old_index_go_to_the_newer_call() {
    let got = calls(vec![
        json!([{"index": 0, "id": "a", "function": {"name": "one", "arguments": "{}"}}]),
        json!([{"index": 0, "id": "b", "function": {"name": "two", "arguments": ""}}]),
        json!([{"index": 0, "function": {"arguments": "{\"y\":2}"}}]),
    ]);
    assert_eq!(got, [call("a", "one", "{}"), call("b", "two", "{\"y\":2}")]);
}

#[test]
fn a_piece_without_index_and_id_goes_to_the_open_call() {
    let got = calls(vec![
        json!([{"id": "a", "function": {"name": "one", "arguments": ""}}]),
        json!([{"function": {"arguments": "{\"x\":"}}]),
        json!([{"function": {"arguments": "1}"}}]),
        json!([{"id": "b", "function": {"name": "two", "arguments": ""}}]),
        json!([{"function": {"arguments": "{}"}}]),
    ]);
    assert_eq!(got, [call("a", "one", "{\"x\":1}"), call("b", "two", "{}")]);
}

#[test]
fn interleaved_pieces_find_their_calls_by_index() {
    let got = calls(vec![
        json!([{"index": 0, "id": "a", "function": {"name": "one", "arguments": ""}}]),
        json!([{"index": 1, "id": "b", "function": {"name": "two", "arguments": ""}}]),
        json!([{"index": 0, "function": {"arguments": "{\"x\":1}"}}, {"index": 1, "function": {"arguments": "{\"y\":2}"}}]),
    ]);
    assert_eq!(got, [call("a", "one", "{\"x\":1}"), call("b", "two", "{\"y\":2}")]);
}

#[test]
fn one_id_for_all_calls_does_not_run_them_together() {
    let got = calls(vec![
        json!([{"index": 0, "id": "x", "function": {"name": "one", "arguments": ""}}]),
        json!([{"index": 0, "function": {"arguments": "{}"}}]),
        json!([{"index": 1, "id": "x", "function": {"name": "one", "arguments": ""}}]),
        json!([{"index": 1, "function": {"arguments": "{\"y\":2}"}}]),
    ]);
    assert_eq!(got, [call("x", "one", "{}"), call("x", "one", "{\"y\":2}")]);
}

#[test]
fn whole_calls_without_any_mark_stay_apart() {
    let got = calls(vec![json!([
        {"function": {"name": "one", "arguments": "{\"x\":1}"}},
        {"function": {"name": "one", "arguments": "{\"x\":2}"}},
    ])]);
    assert_eq!(got, [(None, "one".into(), "{\"x\":1}".into()), (None, "one".into(), "{\"x\":2}".into())]);
}

#[test]
fn an_id_that_comes_late_belongs_to_its_call() {
    let got = calls(vec![
        json!([{"index": 0, "function": {"name": "one", "arguments": "{\"x\""}}]),
        json!([{"index": 0, "id": "a", "function": {"arguments": ":1}"}}]),
    ]);
    assert_eq!(got, [call("a", "one", "{\"x\":1}")]);
}

#[test]
fn a_name_repeated_on_each_piece_is_taken_once() {
    let got = calls(vec![
        json!([{"index": 0, "id": "a", "function": {"name": "one", "arguments": ""}}]),
        json!([{"index": 0, "id": "a", "function": {"name": "one", "arguments": "{\"x\":"}}]),
        json!([{"index": 0, "id": "a", "function": {"name": "one", "arguments": "1}"}}]),
    ]);
    assert_eq!(got, [call("a", "one", "{\"x\":1}")]);
}

#[test]
fn one_delta_may_hold_text_reasoning_and_a_call() {
    let completion = read(&[
        delta(json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "one", "arguments": "{\"p\":"}}]})),
        json!({"choices": [{"delta": {"content": "\n", "reasoning": "hm", "tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]},
               "finish_reason": "tool_calls"}]}),
    ])
    .unwrap();
    assert_eq!(completion.text, "\n");
    assert_eq!(completion.reasoning.unwrap().text, "hm");
    assert_eq!(completion.calls[0].arguments, "{\"p\":1}");
}

#[test]
fn arguments_are_taken_as_object_text_null_and_nothing() {
    for (sent, wanted) in [
        (json!({"path": "x"}), "{\"path\":\"x\"}"),
        (json!(null), ""),
        (json!(""), ""),
        (json!("{\"path\":\"x\"}"), "{\"path\":\"x\"}"),
    ] {
        let got = calls(vec![json!([{"index": 0, "id": "a", "function": {"name": "one", "arguments": sent}}])]);
        assert_eq!(got[0].2, wanted);
    }
    assert!(parse_arguments("").unwrap().is_empty());
    assert!(parse_arguments("null").unwrap().is_empty());
    assert_eq!(parse_arguments("\"{\\\"a\\\":1}\"").unwrap()["a"], 1);
    assert!(parse_arguments("{\"unfinished\": \"jus").is_err());
    assert!(parse_arguments("[1]").is_err());
}

#[test]
fn chunks_without_choices_do_no_harm_and_their_usage_counts() {
    let completion = read(&[
        json!({"choices": [], "prompt_filter_results": []}),
        json!({"choices": null, "usage": null}),
        delta(json!({"content": "hi"})),
        json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}),
    ])
    .unwrap();
    assert_eq!(completion.text, "hi");
    assert_eq!(completion.usage.unwrap()["prompt_tokens"], 3);
}

#[test]
fn an_error_inside_the_stream_is_an_error() {
    for chunk in [
        json!({"error": {"message": "quota", "code": 429}, "choices": []}),
        json!({"choices": [{"delta": {"content": ""}, "finish_reason": "error"}]}),
        json!({"choices": [{"error": {"message": "x", "code": 502}}]}),
    ] {
        let error = read(&[delta(json!({"content": "par"})), chunk]).unwrap_err();
        assert!(error.is_retryable(), "{error}");
        assert!(error.status().is_some());
    }
}

#[test]
fn an_answer_that_stops_in_the_middle_is_broken() {
    let mut assembly = Assembly::new("h".into());
    assembly.feed(&delta(json!({"content": "par"})).to_string()).unwrap();
    assert!(matches!(assembly.finish(), Err(ModelError::Broken { .. })));
    let mut assembly = Assembly::new("h".into());
    assembly.feed("{\"choices\": [{\"del").unwrap();
    assembly.feed("[DONE]").unwrap();
    assert!(matches!(assembly.finish(), Err(ModelError::Broken { .. })));
    let nothing = read(&[json!({"choices": [{"delta": {}, "finish_reason": "stop"}]})]);
    assert!(matches!(nothing, Err(ModelError::Empty { .. })));
}

#[test]
fn reasoning_is_read_under_all_its_names() {
    for key in ["reasoning", "reasoning_content"] {
        let completion = read(&[
            delta(json!({key: "let me "})),
            delta(json!({key: "see"})),
            json!({"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}),
        ])
        .unwrap();
        let reasoning = completion.reasoning.unwrap();
        assert_eq!((reasoning.text.as_str(), reasoning.key.as_str()), ("let me see", key));
    }
    let completion = read(&[
        delta(json!({"reasoning": "let ", "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "let "}]})),
        delta(json!({"reasoning": "me", "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "me", "signature": "s"}]})),
        json!({"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}),
    ])
    .unwrap();
    let reasoning = completion.reasoning.unwrap();
    assert_eq!(reasoning.text, "let me");
    assert_eq!(
        reasoning.details.unwrap(),
        json!([{"type": "reasoning.text", "index": 0, "text": "let me", "signature": "s"}])
    );
}

#[test]
fn a_whole_answer_in_the_place_of_a_stream_is_read_too() {
    let completion = read(&[json!({"choices": [{"message": {"role": "assistant", "content": [{"type": "text", "text": "hi"}],
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "one", "arguments": "{}"}}]}, "finish_reason": "stop"}]})])
    .unwrap();
    assert_eq!(completion.text, "hi");
    assert_eq!(completion.calls.len(), 1);
}

proptest::proptest! {
    #[test]
    fn no_bytes_of_a_server_make_the_reader_panic(data in proptest::collection::vec("\\PC{0,60}", 0..8)) {
        let mut assembly = Assembly::new("h".into());
        for piece in data {
            let _ = assembly.feed(&piece);
        }
        let _ = assembly.finish();
    }

    #[test]
    fn arguments_cut_anywhere_come_out_whole(cut_at in 0usize..20, text in "\\PC{0,12}") {
        let arguments = json!({"x": text}).to_string();
        let at = arguments.char_indices().map(|(at, _)| at).nth(cut_at).unwrap_or(arguments.len());
        let (head, tail) = arguments.split_at(at);
        let got = calls(vec![
            json!([{"index": 0, "id": "a", "function": {"name": "one", "arguments": head}}]),
            json!([{"index": 0, "function": {"arguments": tail}}]),
        ]);
        proptest::prop_assert_eq!(&got[0].2, &arguments);
    }
}
