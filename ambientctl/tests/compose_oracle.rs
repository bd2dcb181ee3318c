//! The real Docker Compose next to ours: on what ships and on generated stacks, letter by letter.
//!
//! `AMBIENT_TEST_COMPOSE` is the path of a `docker-compose` 2.40.3, as `tests/run.sh` installs it.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use ambient_ctl::compose::{Loader, Project, SHIPPED};

fn oracle() -> PathBuf {
    std::env::vars_os()
        .find(|(name, _)| name == "AMBIENT_TEST_COMPOSE")
        .map(|(_, path)| PathBuf::from(path))
        .expect("AMBIENT_TEST_COMPOSE is set, as tests/run.sh does")
}

/// What `docker-compose config …` prints in a folder, or its complaint.
#[expect(clippy::disallowed_methods, reason = "the oracle is a program")]
fn compose(folder: &Path, args: &[&str]) -> Result<String, String> {
    let output = Command::new(oracle())
        .arg("config")
        .args(args)
        .current_dir(folder)
        .env_clear()
        .env("HOME", "/home/ann")
        .env("FROM_SHELL", "shell $1")
        .output()
        .expect("the oracle can be started");
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).expect("the oracle prints text"))
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

fn ours(folder: &Path, interpolate: bool) -> Result<Project, String> {
    let environment = [("HOME".into(), "/home/ann".into()), ("FROM_SHELL".into(), "shell $1".into())];
    let loader = Loader { interpolate, ..Loader::new(folder, &environment) };
    loader.load().map(|loaded| loaded.project).map_err(|error| error.to_string())
}

/// Compares everything that both can print.
fn compare(folder: &Path) -> Result<(), String> {
    let differ = |what: &str, ours: &str, theirs: &str| {
        let line = ours.lines().zip(theirs.lines()).position(|(one, other)| one != other);
        let at = line.unwrap_or_else(|| ours.lines().count().min(theirs.lines().count()));
        let near = |text: &str| text.lines().skip(at.saturating_sub(3)).take(6).collect::<Vec<_>>().join("\n");
        format!("{what} differs at line {}:\nours:\n{}\ntheirs:\n{}", at + 1, near(ours), near(theirs))
    };
    let same = |what: &str, ours: &str, theirs: &str| {
        if ours.trim_end() == theirs.trim_end() { Ok(()) } else { Err(differ(what, ours, theirs)) }
    };
    let theirs = compose(folder, &["--format", "json"])?;
    let project = ours(folder, true)?;
    let shown = |text: Result<String, ambient_ctl::compose::ComposeError>| text.map_err(|error| error.to_string());
    same("json", &shown(project.json())?, &theirs)?;
    same("yaml", &shown(project.yaml())?, &compose(folder, &[])?)?;
    let raw = ours(folder, false)?;
    same("yaml without variables", &shown(raw.yaml())?, &compose(folder, &["--no-interpolate"])?)?;
    let mut hashes: Vec<String> = project
        .config_hashes()
        .map_err(|error| error.to_string())?
        .into_iter()
        .map(|(service, hash)| format!("{service} {hash}"))
        .collect();
    hashes.sort();
    let mut their_hashes: Vec<String> = compose(folder, &["--hash", "*"])?.lines().map(str::to_owned).collect();
    their_hashes.sort();
    same("hashes", &hashes.join("\n"), &their_hashes.join("\n"))
}

fn folder(files: &[(&str, &str)]) -> std::io::Result<tempfile::TempDir> {
    let folder = tempfile::Builder::new().prefix("stack").tempdir()?;
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text)?;
    }
    Ok(folder)
}

/// Keys of a service with ways of writing them. A base and an override take some of each.
const KEYS: &[(&str, &[&str])] = &[
    (
        "environment",
        &[
            "{A: one, N: 1, F: 1.10, T: true, O: 0123, E: '', NUL: , X: '${X}', D: '${NO:-d$$}', S: \"a\\tb\"}",
            "[A=un, B, 'C=x=y', FROM_SHELL, 'Y=${Y-no}']",
            "{A10: x, A2: y, a: z, M: \"1\\n2\\n\", Q: \"it's\", H: '#x', L: ' x', U: é}",
            "{BIG: 100000000.0, HEX: 0x1F, YES: yes, W: 1_000, TIME: '12:30:45', URL: 'https://h/p?a=1&b=<2>'}",
        ],
    ),
    ("command", &["serve --port \"81\" 'a b'", "[run, '${X}']", "[]", "", "''"]),
    ("entrypoint", &["[/bin/tini, --]", "sh -c 'echo $$HOME'", ""]),
    (
        "ports",
        &[
            "['8080:80', '127.0.0.1:${PORT}:81', '53:53/udp']",
            "[7000, {target: 80, published: '8080', name: web}]",
            "['3000-3002:3000-3002', '[::1]:6:7']",
            "!override ['127.0.0.1:18080:80']",
            "!reset []",
        ],
    ),
    (
        "volumes",
        &[
            "['data:/data', './rel:/rel:ro', '/abs:/abs/', '~/home:/h', /anon]",
            "['other:/data', {type: tmpfs, target: /t, tmpfs: {size: 10m}}, {type: bind, source: ./b, target: /b}]",
            "[{type: volume, source: data, target: /copy, read_only: true, volume: {nocopy: true}}, '../up:/up:z']",
        ],
    ),
    (
        "healthcheck",
        &[
            "{test: 'curl -f http://x || exit 1', interval: 90s, retries: 3}",
            "{test: [CMD, 'true'], timeout: 1500ms, start_period: 1h, start_interval: 500ms}",
            "{disable: true}",
        ],
    ),
    ("labels", &["{a: 1, b: two}", "[b=deux, c]", "{a: !reset null}"]),
    (
        "depends_on",
        &[
            "[db]",
            "{db: {condition: service_healthy, restart: true}}",
            "{db: {condition: service_started, required: false}}",
        ],
    ),
    ("networks", &["[front]", "{front: {aliases: [x, y]}, back: }", "{back: {aliases: [z], priority: 5}}"]),
    (
        "deploy",
        &[
            "{resources: {limits: {cpus: '0.5', memory: 256M}}, labels: {x: 1}}",
            "{replicas: 2, restart_policy: {condition: any, delay: 5s}, labels: [y=2], placement: {constraints: [a==b]}}",
        ],
    ),
    (
        "logging",
        &["{driver: json-file, options: {max-size: 10m, max-file: 3}}", "{driver: journald}", "{options: {tag: x}}"],
    ),
    ("extra_hosts", &["['a:1.2.3.4', 'b=::1']", "{c: 5.6.7.8, a: 1.2.3.4}"]),
    ("ulimits", &["{nofile: 1024, nproc: {soft: 1, hard: 2}}", "{nofile: {soft: 5, hard: 6}}"]),
    ("tmpfs", &["/run", "[/run, /tmp]"]),
    ("dns", &["1.1.1.1", "[8.8.8.8, 1.1.1.1]"]),
    ("cap_add", &["[NET_ADMIN]", "[SYS_TIME, NET_ADMIN]"]),
    ("expose", &["[80, '90-91']", "['80', '443/udp']"]),
    ("sysctls", &["{net.core.somaxconn: 1024}", "[net.ipv4.tcp_syncookies=0]"]),
    ("devices", &["[/dev/null]", "['/dev/zero:/dev/null:r']"]),
    ("restart", &["always", "'on-failure:3'", "'no'", "!reset null"]),
    ("user", &["'1000:1000'", "root"]),
    ("working_dir", &["/a", "/b"]),
    ("hostname", &["h1", "${X}"]),
    ("stop_grace_period", &["1m", "90s", "1.5h"]),
    ("init", &["true", "false"]),
    ("read_only", &["true", "'${FLAG}'"]),
    ("shm_size", &["64m", "1gb"]),
    ("mem_limit", &["512m", "'1073741824'"]),
    ("stdin_open", &["true", "false"]),
    ("security_opt", &["['no-new-privileges:true']", "[label=disable]"]),
    ("secrets", &["[token]", "[{source: token, target: /run/t, mode: 0440}]"]),
    ("configs", &["[conf]", "[{source: conf, target: /etc/c, uid: '1'}]"]),
    ("build", &[".", "{context: ./ctx, args: {A: 1, B: }, target: t}", "{dockerfile: D, args: [C=3]}"]),
    ("pull_policy", &["always", "if_not_present"]),
    ("x-note", &["{a: [1, 2.5, text], b: }", "word"]),
];

/// Numbers that look like chance and are the same on every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or_default() % sides
    }
}

fn service(dice: &mut Dice, name: &str, image: &str, keys: usize, may_reset: bool) -> String {
    let mut text = format!("  {name}:\n");
    if !image.is_empty() {
        writeln!(text, "    image: {image}").expect("a String takes whatever is written");
    }
    let mut taken = Vec::new();
    for _ in 0..keys {
        let (key, ways) = KEYS[dice.roll(KEYS.len())];
        let way = ways[dice.roll(ways.len())];
        let is_second_for_memory =
            matches!(key, "mem_limit" | "deploy") && taken.iter().any(|known| matches!(*known, "mem_limit" | "deploy"));
        if taken.contains(&key)
            || (way.starts_with('!') && !may_reset)
            || (way.contains("!reset") && !may_reset)
            || is_second_for_memory
        {
            continue;
        }
        taken.push(key);
        writeln!(text, "    {key}: {way}").expect("a String takes whatever is written");
    }
    if taken.is_empty() {
        text.push_str("    tty: true\n");
    }
    text
}

#[test]
fn generated_stacks_come_out_as_compose_prints_them() {
    stacks_come_out_as_compose_prints_them(1..=20);
}

/// In two halves, so that two processors share the work.
#[test]
fn more_generated_stacks_come_out_as_compose_prints_them() {
    stacks_come_out_as_compose_prints_them(21..=40);
}

fn stacks_come_out_as_compose_prints_them(seeds: std::ops::RangeInclusive<u64>) {
    let mut wrong = Vec::new();
    let mut compared = 0;
    for seed in seeds {
        let mut dice = Dice(seed);
        let mut base = String::from("services:\n");
        base.push_str(&service(&mut dice, "engine", "ambient/engine:1", 12, false));
        base.push_str("  db:\n    image: postgres:16\n    healthcheck: {test: [CMD, pg_isready]}\n");
        base.push_str("networks: {front: {driver: bridge, labels: {q: 1}}, back: {internal: true}}\n");
        base.push_str("volumes: {data: {}, other: {driver: local, labels: [a=b]}, unused: }\n");
        base.push_str("secrets: {token: {file: ./token}}\nconfigs: {conf: {content: 'c ${X}'}}\n");
        let over = format!("services:\n{}", service(&mut dice, "engine", "", 8, true));
        let env = "X='v<a>&b$c'\nPORT=8081\nFLAG=true\nB=from-env\n";
        let folder = folder(&[("docker-compose.yml", &base), ("docker-compose.override.yml", &over), (".env", env)])
            .expect("a folder can be made");
        match compare(folder.path()) {
            Ok(()) => compared += 1,
            // Where Compose refuses, we have to as well.
            Err(complaint) if compose(folder.path(), &[]).is_err() => {
                if ours(folder.path(), true).is_ok() {
                    wrong.push(format!("seed {seed}: only Compose refuses: {complaint}\n{base}\n---\n{over}"));
                }
            }
            Err(difference) => wrong.push(format!("seed {seed}: {difference}\n{base}\n---\n{over}")),
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n==========\n"));
    assert!(compared > 14, "only {compared} stacks were valid");
}

#[test]
fn hand_picked_stacks_come_out_as_compose_prints_them() {
    let env_files = "services:\n  a:\n    image: i\n    env_file: [one.env, {path: two.env, required: false}, {path: none.env, required: false}]\n    environment: {A: , Z: own}\n";
    let strings = "services:\n  a:\n    image: i\n    environment: {B: '<a>&b', C: \"a\\tb\", E: ' lead', F: '12:30:45', G: '😀é', I: 'a: b', J: '#x', L: \"a \\nb\", Q: '-', R: '- a', S: '=', T: '<<', V: '~', W: \"a\\r\\nb\", Y: \"x\\n\\n\", Z: '@x', AC: 'a,b', AD: '[x', AI: '?x', AJ: '? x', AL: 'x:', AM: \"\\x01\", AQ: '---', a02: '', a1: '', _: ''}\n";
    let names = "name: my-stack\nservices:\n  web: {image: i, networks: [n], volumes: ['dd:/d'], pid: 'service:b', links: ['b:bb']}\n  b: {image: i, network_mode: host}\nnetworks: {n: {external: true, name: ext}}\nvolumes: {dd: {external: true}}\nx-top: {b: 1, a: 2}\n";
    let anchors = "x-c: &c\n  restart: always\n  environment: &e {A: one}\nservices:\n  a:\n    <<: *c\n    image: i\n    environment:\n      <<: *e\n      B: two\n  b: {image: i, volumes_from: [a]}\n";
    let mut wrong = Vec::new();
    for base in [env_files, strings, names, anchors] {
        let one = "A=fromfile\nQQ=1\nRR=${QQ}-${Z}\n";
        let two = "QQ=2\nSS=$QQ$RR\n";
        let folder = folder(&[("docker-compose.yml", base), ("one.env", one), ("two.env", two)]).unwrap();
        // With `env_file`, `config --hash` prints another hash than `up` stores.
        let result = compare(folder.path());
        if let Err(difference) = result
            && !(base == env_files && difference.starts_with("hashes differ"))
        {
            wrong.push(format!("{difference}\n{base}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n==========\n"));
}

/// Keys of a service, each of a service of its own.
const ONE_EACH: &[&str] = &[
    r#"ports: ["80", "8080:80/udp", "127.0.0.1:8000-8002:8000-8002", "[::1]:80:80", 81]"#,
    "ports: [{target: 80, published: 8080, host_ip: 127.0.0.1, name: web, app_protocol: http}, {target: 81, mode: host}]",
    r#"command: sh -c "echo 'a b' $$HOME""#,
    "command: []",
    r#"entrypoint: """#,
    "environment: {A: 12345678901234567890, B: -0, C: 0o17, D: +5, E: 0x10, F: 010, G: 1.50, H: true, I: }",
    r#"volumes: ["./x:/y:cached", "./z:/z:ro,delegated", "./n:/n:nocopy", "data:/d:nocopy", /anon, "~/h:/h", "./a/../b:/y/b/"]"#,
    "volumes: [{type: tmpfs, target: /t, tmpfs: {size: 10m, mode: 0755}}, {type: bind, source: ./x, target: /y, bind: {create_host_path: false}}]",
    "healthcheck: {test: [CMD-SHELL, x || exit 1], interval: 0.5h, retries: '4', start_interval: 1500ms}",
    "healthcheck: {test: []}",
    "pull_policy: every_1d12h",
    "pull_policy: if_not_present",
    "container_name: a.b-c_d",
    r#"extra_hosts: ["a:1.2.3.4", "b=5.6.7.8", "c:::1", "host.docker.internal:host-gateway"]"#,
    "extra_hosts: {a: [1.2.3.4, 5.6.7.8]}",
    "ulimits: {nofile: 1024, nproc: {soft: 1, hard: 2}}",
    "mem_limit: 1.5gb",
    "memswap_limit: -1",
    "cpus: \"1.5\"",
    "stop_grace_period: 1h5m30s500ms",
    "logging: {options: {a: , max-file: 3}}",
    "group_add: [mail, 8]",
    "privileged: \"yes\"",
    "devices: [\"/dev/fuse:/dev/fuse:rwm\", /dev/x]",
    "networks: {default: {aliases: [x, y], priority: 1000}}",
    "deploy: {mode: global, restart_policy: {condition: on-failure, delay: 5s, max_attempts: 3, window: 120s}}",
    "build: {context: ., args: {A: 1, B: }, cache_from: [x], labels: {a: b}}",
    r#"build: {dockerfile_inline: "FROM x\nRUN y\n"}"#,
    "post_start: [{command: [a]}]",
    r#"environment: {A: "${FROM_SHELL:+set}", B: "${NONE-def}", C: "${NONE:-${FROM_SHELL:-z}}", D: "a$${X}b"}"#,
];

#[test]
fn every_kind_of_key_comes_out_as_compose_prints_it() {
    let mut base = String::from("services:\n");
    for (number, key) in ONE_EACH.iter().enumerate() {
        let image = if key.starts_with("build") { "" } else { "    image: i\n" };
        base.push_str(&["  s", &number.to_string(), ":\n", image, "    ", key, "\n"].concat());
    }
    base.push_str("volumes: {data: {}}\n");
    let folder = folder(&[("docker-compose.yml", &base)]).unwrap();
    compare(folder.path()).unwrap();
}

/// What neither takes: keys of a service, in the first file and perhaps in the second; and what the word about it has to name.
const REFUSED: &[(&str, &str, &str)] = &[
    ("healthcheck: {test: [a, b]}", "", "healthcheck.test"),
    ("container_name: c", "", "container_name"),
    ("container_name: 'a b'", "", "container_name"),
    ("pull_policy: sometimes", "", "pull_policy"),
    ("pull_policy: every_1x", "", "pull_policy"),
    ("security_opt: [a]", "security_opt: [a, b]", "security_opt"),
    ("external_links: [a, a]", "", "external_links"),
    ("group_add: [a, b, a]", "", "group_add"),
    ("device_cgroup_rules: ['c 1:3 mr']", "device_cgroup_rules: ['c 1:3 mr']", "device_cgroup_rules"),
    ("depends_on: {b: {condition: service_started, required: false}}", "", "`b`"),
    ("unknown_key: 1", "", "unknown_key"),
    ("ports: '80:80'", "", "ports"),
    ("environment: 5", "", "environment"),
    ("command: {a: b}", "", "command"),
    ("healthcheck: {interval: 10}", "", "interval"),
    ("ports: [abc]", "", "ports"),
    ("networks: [nope]", "", "nope"),
    ("image: j", "image: !reset null", "image"),
];

#[test]
fn what_compose_refuses_is_refused_and_named() {
    for (key, over, name) in REFUSED {
        let image = if key.starts_with("image") { "" } else { "    image: i\n" };
        let base = format!("services:\n  a:\n{image}    {key}\n");
        let over = format!("services:\n  a:\n    {over}\n");
        let mut files = vec![("docker-compose.yml", base.as_str())];
        if over.trim_end().lines().count() > 2 {
            files.push(("docker-compose.override.yml", &over));
        }
        let folder = folder(&files).unwrap();
        compose(folder.path(), &["-q"]).expect_err(key);
        let said = ours(folder.path(), true).expect_err(key);
        assert!(said.contains(name), "{key}: {said}");
    }
    for (base, name) in [("", "empty"), ("services:\n  a b: {image: i}\n", "a b"), ("services:\n", "services")] {
        let folder = folder(&[("docker-compose.yml", base)]).unwrap();
        compose(folder.path(), &["-q"]).expect_err(base);
        let said = ours(folder.path(), true).expect_err(base);
        assert!(said.contains(name), "{base}: {said}");
    }
}

#[test]
fn what_is_not_applied_is_refused_by_name_with_and_without_variables() {
    for key in [
        "extends: b",
        "profiles: [p]",
        "develop: {watch: [{path: ./x, action: rebuild}]}",
        "credential_spec: {file: c.json}",
        "label_file: l.env",
        "use_api_socket: true",
        "blkio_config: {weight: 300}",
        "provider: {type: x}",
        "models: [m]",
        "build: {context: ., ssh: [default]}",
        "env_file: [{path: one.env, format: raw}]",
    ] {
        let base = format!("services:\n  a:\n    image: i\n    {key}\n  b: {{image: i}}\n");
        let folder = folder(&[("docker-compose.yml", &base), ("one.env", "A=1\n"), ("l.env", "A=1\n")]).unwrap();
        let words = if key.contains("ssh") {
            "ssh"
        } else if key.contains("format") {
            "format"
        } else {
            key.split(':').next().unwrap()
        };
        for interpolate in [true, false] {
            let said = ours(folder.path(), interpolate).expect_err(key);
            assert!(said.contains(words) && said.contains("not applied") && said.contains("line 4"), "{key}: {said}");
        }
    }
}

#[test]
fn a_name_in_the_file_is_made_one() {
    for name in ["My_Name", "a b", "_x", "", "-a", "${NONE:-My.Name}", "9a"] {
        let base = format!("name: \"{name}\"\nservices:\n  a:\n    image: i\n");
        let folder = folder(&[("docker-compose.yml", &base)]).unwrap();
        compare(folder.path()).unwrap();
    }
    let folder = folder(&[("docker-compose.yml", "networks: {}\n")]).unwrap();
    compare(folder.path()).unwrap();
}

#[test]
fn what_ships_comes_out_as_compose_prints_it() {
    let env = "POSTGRES_PASSWORD=pw\nENGINE_API_KEY=key\nLLM_API_KEY='a$b'\nAMBIENT_VERSION=1.2.3\n";
    let over =
        "services:\n  engine:\n    environment:\n      SANDBOX_BACKEND: e2b\n      E2B_API_KEY: ${E2B_API_KEY}\n";
    let folder =
        folder(&[("docker-compose.yml", SHIPPED), ("docker-compose.override.yml", over), (".env", env)]).unwrap();
    compare(folder.path()).unwrap();
}

#[test]
fn the_stack_built_from_source_comes_out_as_compose_prints_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = std::fs::read_to_string(root.join("docker-compose.yml")).unwrap();
    let folder =
        folder(&[("docker-compose.yml", &text), (".env", "SANDBOX_BACKEND=e2b\nE2B_API_KEY='a$b'\n")]).unwrap();
    match compare(folder.path()) {
        // With `env_file`, `config --hash` prints another hash than `up` stores.
        Err(difference) if !difference.starts_with("hashes differ") => panic!("{difference}"),
        Ok(()) | Err(_) => {}
    }
}
