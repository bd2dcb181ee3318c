use ambient_e2b::protocol::LogLevel;
use ambient_e2b::protocol::template::{BuildStatus, CreateTemplate};
use camino::Utf8PathBuf;
use secrecy::SecretString;

use super::builds::{MOST_BUILDS, MOST_FAILED, MOST_LOGS};
use super::{Catalogue, TemplateFailure};
use crate::config::{Team, Teams};
use crate::templates::image::Image;

fn teams() -> (Team, Team) {
    let teams = Teams::new(&[SecretString::from("e2b_a"), SecretString::from("e2b_b")]);
    (teams.find("e2b_a").unwrap(), teams.find("e2b_b").unwrap())
}

fn open(folder: &tempfile::TempDir) -> Catalogue {
    let file = Utf8PathBuf::from_path_buf(folder.path().join("templates.json")).unwrap();
    Catalogue::open(file, Image::of_layer("base".to_owned())).unwrap()
}

fn wish(name: &str) -> CreateTemplate {
    CreateTemplate { name: name.to_owned(), ..CreateTemplate::default() }
}

#[test]
fn a_build_is_found_by_its_tags_and_by_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = teams();
    let catalogue = open(&folder);
    let created = catalogue.create(&ours, &wish("My-App:v1")).unwrap();
    assert_eq!((created.aliases, created.tags), (vec!["my-app".to_owned()], vec!["v1".to_owned()]));
    assert!(matches!(catalogue.resolve(&ours, "my-app"), Err(TemplateFailure::NoTag { .. })));
    assert_eq!(catalogue.start_build(&ours, &created.template_id, &created.build_id).unwrap().0, (2, 1024));
    let twice = catalogue.start_build(&ours, &created.template_id, &created.build_id);
    assert!(matches!(twice, Err(TemplateFailure::NotWaiting)));
    catalogue.end_build(&created.build_id, Ok(Image::of_layer("one".to_owned())));
    for name in ["my-app", "my-app:v1", "my-app:default", &created.template_id] {
        assert_eq!(catalogue.resolve(&ours, name).unwrap().image.layers, ["one"], "{name}");
        assert!(matches!(catalogue.resolve(&theirs, name), Err(TemplateFailure::Unknown(_))), "{name}");
    }
    assert!(matches!(catalogue.alias(&theirs, &created.template_id), Err(TemplateFailure::Foreign)));
    assert!(matches!(catalogue.alias(&theirs, "base"), Err(TemplateFailure::Foreign)));
    assert!(matches!(catalogue.alias(&theirs, "my-app"), Err(TemplateFailure::Unknown(_))));

    let again = catalogue.create(&ours, &wish("my-app")).unwrap();
    assert_eq!(again.template_id, created.template_id);
    assert_ne!(again.build_id, created.build_id);
}

#[test]
fn builds_that_wait_hinder_nobody_and_those_that_run_hinder_their_own_team() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = teams();
    let catalogue = open(&folder);
    let waiting: Vec<_> = (0..150).map(|_| catalogue.create(&ours, &wish("cut-off")).unwrap()).collect();
    let [first, .., last] = waiting.as_slice() else { panic!("many were made") };
    let status = |build: &str| catalogue.progress(&ours, build, 0, 1).unwrap().status;
    assert_eq!((status(&first.build_id), status(&last.build_id)), (BuildStatus::Error, BuildStatus::Waiting));
    for _ in 0..MOST_BUILDS {
        let made = catalogue.create(&ours, &wish("app")).unwrap();
        catalogue.start_build(&ours, &made.template_id, &made.build_id).unwrap();
    }
    assert!(matches!(catalogue.create(&ours, &wish("app")), Err(TemplateFailure::TooManyBuilds)));
    let late = catalogue.start_build(&ours, &last.template_id, &last.build_id);
    assert!(matches!(late, Err(TemplateFailure::TooManyBuilds)));
    catalogue.create(&theirs, &wish("app")).unwrap();
}

#[test]
fn a_build_whose_template_is_gone_is_told_to_stop() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, _theirs) = teams();
    let catalogue = open(&folder);
    let made = catalogue.create(&ours, &wish("app")).unwrap();
    let (_sizes, stop) = catalogue.start_build(&ours, &made.template_id, &made.build_id).unwrap();
    let other = catalogue.create(&ours, &wish("other")).unwrap();
    catalogue.remove(&ours, &other.template_id, |_id| false).unwrap();
    assert!(!stop.is_cancelled());
    catalogue.remove(&ours, &made.template_id, |_id| false).unwrap();
    assert!(stop.is_cancelled());
}

#[test]
fn a_log_has_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, _theirs) = teams();
    let catalogue = open(&folder);
    let made = catalogue.create(&ours, &wish("app")).unwrap();
    for _ in 0..1000 {
        catalogue.log(&made.build_id, "1", LogLevel::Info, "x".repeat(64 << 10));
    }
    let log = catalogue.progress(&ours, &made.build_id, 0, usize::MAX).unwrap().log_entries;
    assert!(log.len() < 1000, "{}", log.len());
    assert!(log.last().unwrap().message.ends_with("the log is full: what follows is not kept"));
}

#[test]
fn builds_that_ended_do_not_pile_up() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = teams();
    let catalogue = open(&folder);
    let build = |team, name: &str, ended| {
        let made = catalogue.create(team, &wish(name)).unwrap();
        catalogue.start_build(team, &made.template_id, &made.build_id).unwrap();
        catalogue.log(&made.build_id, "1", LogLevel::Info, "a line".to_owned());
        catalogue.end_build(&made.build_id, ended);
        made.build_id
    };
    let good = || Ok(Image::of_layer("one".to_owned()));
    let lines = |team, build: &String| catalogue.progress(team, build, 0, 10).map(|told| told.log_entries.len());
    let other = build(&theirs, "app", good());
    let first = build(&ours, "kept", good());
    let failed: Vec<_> = (0..=MOST_FAILED).map(|_| build(&ours, "app", Err(("it failed".to_owned(), None)))).collect();
    assert!(matches!(lines(&ours, &failed[0]), Err(TemplateFailure::NoBuild(_))));
    let counts: Vec<_> = failed[1..].iter().map(|build| lines(&ours, build).unwrap()).collect();
    assert_eq!(counts, [vec![0; MOST_FAILED - MOST_LOGS], vec![1; MOST_LOGS]].concat());
    assert_eq!(lines(&ours, &first).unwrap(), 0);
    assert_eq!(catalogue.resolve(&ours, "kept").unwrap().image.layers, ["one"]);
    assert!(matches!(catalogue.alias(&ours, "never-good"), Err(TemplateFailure::Unknown(_))));
    assert_eq!(lines(&theirs, &other).unwrap(), 1);
}

#[test]
fn a_template_that_could_not_be_noted_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, _theirs) = teams();
    let catalogue = open(&folder);
    fs_err::remove_dir_all(folder.path()).unwrap();
    assert!(catalogue.create(&ours, &wish("app")).is_err());
    assert!(matches!(catalogue.alias(&ours, "app"), Err(TemplateFailure::Unknown(_))));
}

#[test]
fn no_template_asks_for_more_memory_than_there_is_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, _theirs) = teams();
    let catalogue = open(&folder);
    for memory_mb in [1 << 44, u64::MAX - 1, 0, 129] {
        let wish = CreateTemplate { memory_mb: Some(memory_mb), ..wish("app") };
        assert!(matches!(catalogue.create(&ours, &wish), Err(TemplateFailure::BadSize(_))), "{memory_mb}");
    }
}

#[test]
fn what_was_built_outlives_the_host_and_what_was_not_has_failed() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, _theirs) = teams();
    let catalogue = open(&folder);
    let done = catalogue.create(&ours, &wish("done")).unwrap();
    catalogue.start_build(&ours, &done.template_id, &done.build_id).unwrap();
    catalogue.end_build(&done.build_id, Ok(Image::of_layer("one".to_owned())));
    let cut_off = catalogue.create(&ours, &wish("cut-off")).unwrap();

    let catalogue = open(&folder);
    assert_eq!(catalogue.resolve(&ours, "done").unwrap().image.layers, ["one"]);
    let progress = catalogue.progress(&ours, &cut_off.build_id, 0, 100).unwrap();
    assert_eq!(progress.status, BuildStatus::Error);
    assert!(catalogue.layers().contains(&"one".to_owned()));
}

#[test]
fn a_root_goes_with_its_last_tag_at_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, _theirs) = teams();
    let catalogue = open(&folder);
    for layer in ["old", "new"] {
        let made = catalogue.create(&ours, &wish("app")).unwrap();
        catalogue.start_build(&ours, &made.template_id, &made.build_id).unwrap();
        catalogue.end_build(&made.build_id, Ok(Image::of_layer(layer.to_owned())));
    }
    assert!(catalogue.layers().contains(&"old".to_owned()), "a sandbox may stand on it");
    let catalogue = open(&folder);
    assert_eq!(catalogue.layers(), ["new", "base"]);
    assert_eq!(catalogue.resolve(&ours, "app").unwrap().image.layers, ["new"]);
}

#[test]
fn tags_move_and_the_default_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = teams();
    let catalogue = open(&folder);
    let created = catalogue.create(&ours, &wish("app")).unwrap();
    catalogue.start_build(&ours, &created.template_id, &created.build_id).unwrap();
    catalogue.end_build(&created.build_id, Ok(Image::of_layer("one".to_owned())));
    catalogue.assign_tags(&ours, "app:default", &["stable".to_owned()]).unwrap();
    assert_eq!(catalogue.tags(&ours, "app").unwrap().len(), 2);
    assert!(catalogue.resolve(&ours, "app:stable").is_ok());
    catalogue.remove_tags(&ours, "app", &["stable".to_owned(), "never-there".to_owned()]).unwrap();
    assert!(matches!(catalogue.resolve(&ours, "app:stable"), Err(TemplateFailure::NoTag { .. })));
    let default = catalogue.remove_tags(&ours, "app", &["default".to_owned()]);
    assert!(matches!(default, Err(TemplateFailure::DefaultTag)));
    assert!(catalogue.tags(&theirs, "app").is_err());
    assert!(matches!(catalogue.remove(&ours, "app", |_id| true), Err(TemplateFailure::InUse(_))));
    catalogue.remove(&ours, "app", |_id| false).unwrap();
    assert!(matches!(catalogue.resolve(&ours, "app"), Err(TemplateFailure::Unknown(_))));
}

#[test]
fn odd_sizes_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, _theirs) = teams();
    let catalogue = open(&folder);
    for (cpu_count, memory_mb) in [(0, 1024), (3, 1024), (34, 1024), (2, 127), (2, 1025)] {
        let wish = CreateTemplate { cpu_count: Some(cpu_count), memory_mb: Some(memory_mb), ..wish("app") };
        assert!(matches!(catalogue.create(&ours, &wish), Err(TemplateFailure::BadSize(_))), "{cpu_count} {memory_mb}");
    }
    let foreign = catalogue.create(&ours, &wish("others/app"));
    assert!(matches!(foreign, Err(TemplateFailure::ForeignNamespace { .. })));
}
