//! Loading as the engine meets it: sources, typed values, faults and warnings.

use ambient_settings::{Loaded, Preset, Settings, catalogue};

#[test]
fn an_empty_environment_with_a_home_gives_the_defaults() {
    let loaded: Loaded = Settings::load([("HOME".into(), "/home/ann".into())], None).unwrap();
    assert_eq!(loaded.warnings, []);
    assert_eq!(loaded.settings.home, "/home/ann/.ambient");
    assert!(catalogue().any(|setting| setting.preset == Preset::Unset));
}
