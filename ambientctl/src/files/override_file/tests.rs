//! Edits and refusals, text against text.

use super::*;

#[track_caller]
fn check(text: &str, entry: Entry<'_>, expected: &str) {
    assert_eq!(edited(text, "engine", "KEY", entry).unwrap(), expected, "from:\n{text}");
}

const NESTED: &str = "services:\n  engine:\n    environment:\n      KEY: ${KEY}\n";

#[test]
fn a_file_that_is_not_there_or_says_nothing_gets_the_lines() {
    check("", Entry::PassedOn, NESTED);
    check("# mine\n", Entry::PassedOn, &format!("# mine\n{NESTED}"));
    check("# mine", Entry::PassedOn, &format!("# mine\n{NESTED}"));
    check("services: {}\n", Entry::PassedOn, "services: {engine: {environment: {KEY: \"${KEY}\"}}}\n");
    check("services:\n", Entry::PassedOn, NESTED);
    check("x-a: 1\n", Entry::PassedOn, &format!("x-a: 1\n{NESTED}"));
    check("{}\n", Entry::PassedOn, "{services: {engine: {environment: {KEY: \"${KEY}\"}}}}\n");
}

#[test]
fn an_entry_is_added_behind_the_others() {
    check(
        "# head\nservices:\n    engine: # the engine\n        environment:\n            A: 1 # one\n            # end of it\n\n    other:\n        image: x\n",
        Entry::PassedOn,
        "# head\nservices:\n    engine: # the engine\n        environment:\n            A: 1 # one\n            KEY: ${KEY}\n            # end of it\n\n    other:\n        image: x\n",
    );
    check(
        "services:\n  engine:\n    environment:\n    - A=1\n    - B\n    ports: []\n",
        Entry::PassedOn,
        "services:\n  engine:\n    environment:\n    - A=1\n    - B\n    - KEY=${KEY}\n    ports: []\n",
    );
    check(
        "services:\n  engine:\n    environment: {A: 1}\n",
        Entry::PassedOn,
        "services:\n  engine:\n    environment: {A: 1, KEY: \"${KEY}\"}\n",
    );
    check(
        "services:\n  engine:\n    environment: [A=1]\n",
        Entry::PassedOn,
        "services:\n  engine:\n    environment: [A=1, \"KEY=${KEY}\"]\n",
    );
    check(
        "services:\n  engine:\n    environment:\n    image: x",
        Entry::PassedOn,
        "services:\n  engine:\n    environment:\n      KEY: ${KEY}\n    image: x",
    );
    check(
        "services:\n  engine:\n    image: x",
        Entry::PassedOn,
        "services:\n  engine:\n    image: x\n    environment:\n      KEY: ${KEY}\n",
    );
    check(
        "services:\r\n  other:\r\n    image: x\r\n",
        Entry::PassedOn,
        "services:\r\n  other:\r\n    image: x\r\n  engine:\r\n    environment:\r\n      KEY: ${KEY}\r\n",
    );
}

#[test]
fn a_value_is_changed_where_it_stands() {
    let around =
        |value: &str| format!("services:\n  engine:\n    environment:\n      KEY: {value} # why\n      B: \"2\"\n");
    check(&around("e2b"), Entry::Literal("inprocess"), &around("inprocess"));
    check(&around("'e2b'"), Entry::Literal("pa$s: #x"), &around("\"pa$$s: #x\""));
    check(&around("e2b"), Entry::PassedOn, &around("${KEY}"));
    check(&around("${KEY}"), Entry::PassedOn, &around("${KEY}"));
    check(&around("e2b"), Entry::Gone, "services:\n  engine:\n    environment:\n      B: \"2\"\n");
    check(
        "services: {engine: {environment: {KEY: }}}\n",
        Entry::PassedOn,
        "services: {engine: {environment: {KEY: \"${KEY}\" }}}\n",
    );
    check(
        "services:\n  engine:\n    environment:\n      - KEY\n      - B=1\n",
        Entry::PassedOn,
        "services:\n  engine:\n    environment:\n      - KEY=${KEY}\n      - B=1\n",
    );
    check(
        "services:\n  engine:\n    environment: !override\n      A: 1\n",
        Entry::PassedOn,
        "services:\n  engine:\n    environment: !override\n      A: 1\n      KEY: ${KEY}\n",
    );
    check("x: &e {KEY: a}\n", Entry::Gone, "x: &e {KEY: a}\n");
}

#[test]
fn what_cannot_be_done_safely_is_refused_with_the_lines_to_add() {
    for text in [
        "x: &e {A: 1}\nservices:\n  engine:\n    environment: *e\n",
        "services:\n  engine:\n    environment:\n      A: &a 1\n      KEY: |\n        x\n        y\n",
        "a: 1\n---\nservices: {}\n",
        "services: [1]\n",
        "- 1\n",
        "services:\n  engine:\n    environment:\n      KEY: &k one\n      B: *k\n",
    ] {
        match edited(text, "engine", "KEY", Entry::PassedOn) {
            Err(OverrideError::ByHand { lines, .. }) => assert_eq!(format!("{lines}\n"), NESTED),
            other => panic!("{text}: {other:?}"),
        }
    }
    assert!(matches!(edited("a: [\n", "engine", "KEY", Entry::PassedOn), Err(OverrideError::Unreadable { .. })));
}

#[test]
fn references_are_told_from_other_text() {
    for text in ["${KEY}", "$KEY", "a${KEY:-x}b", "${KEY:?why}", "$$$KEY"] {
        assert!(refers_to(text, "KEY"), "{text}");
    }
    for text in ["", "KEY", "$$KEY", "${KEYS}", "$KEY_2", "$$${OTHER}"] {
        assert!(!refers_to(text, "KEY"), "{text}");
    }
    let text = "services:\n  engine:\n    environment:\n      - A=$A\n      - B\n";
    assert_eq!(found(text, "engine", "A").unwrap(), Found::Text("$A".to_owned()));
    assert_eq!(found(text, "engine", "B").unwrap(), Found::NameAlone);
    assert_eq!(found(text, "engine", "C").unwrap(), Found::Nothing);
}
