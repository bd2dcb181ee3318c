//! Remedies of `ambientctl doctor` about programs and versions, carried out in a shell.
//!
//! What they install comes from elsewhere, so small programs stand for the installers; what is installed runs for real.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::binary::{Serving, ambientctl};

/// A machine on which the command finds these programs alone.
struct Machine {
    home: tempfile::TempDir,
}

impl Machine {
    fn new() -> io::Result<Self> {
        let machine = Self { home: tempfile::tempdir()? };
        fs::create_dir(machine.programs())?;
        machine.has("sudo", r#"exec "$@""#)?;
        Ok(machine)
    }

    fn programs(&self) -> PathBuf {
        self.home.path().join("programs")
    }

    fn has(&self, name: &str, script: &str) -> io::Result<()> {
        let path = self.programs().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n"))?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))
    }

    /// The exit code, and the findings, of `doctor --only CHECKS`.
    fn doctor(&self, checks: &str) -> (Option<i32>, Vec<Value>) {
        let mut command = ambientctl(self.home.path());
        command.args(["doctor", "--json", "--only", checks]).env("PATH", self.programs());
        let output = command.output().expect("it starts");
        let document: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        (output.status.code(), document["findings"].as_array().cloned().unwrap_or_default())
    }

    /// Carries a remedy out.
    #[expect(clippy::disallowed_methods, reason = "remedies are for a shell")]
    fn run(&self, remedy: &str) {
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.programs().display());
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", remedy]).current_dir(self.programs()).env_clear().env("PATH", path);
        let output = shell.output().expect("there is a shell");
        assert!(output.status.success(), "{remedy}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The level, the words, the reason and the remedy of a finding.
fn told<'a>(findings: &'a [Value], id: &str) -> [&'a str; 4] {
    let found =
        findings.iter().find(|finding| finding["id"] == id).unwrap_or_else(|| panic!("no `{id}` in {findings:#?}"));
    ["/level", "/seen", "/why", "/remedy/paste"]
        .map(|part| found.pointer(part).and_then(Value::as_str).unwrap_or_default())
}

fn are_well(findings: &[Value]) -> bool {
    findings.iter().all(|finding| finding["level"] == "ok")
}

#[test]
fn an_old_downloader_without_its_runtime_is_mended() {
    let machine = Machine::new().unwrap();
    machine.has("yt-dlp", "echo 2023.03.04").unwrap();
    let (code, findings) = machine.doctor("yt-dlp");
    assert_eq!(code, Some(0), "imports are an extra: {findings:#?}");
    assert_eq!(told(&findings, "yt-dlp.works"), ["ok", "`yt-dlp` is version 2023.03.04", "", ""]);
    let age = told(&findings, "yt-dlp.age");
    let why = "sites change, and a yt-dlp of some months ago often fails on them";
    assert_eq!(age, ["warning", "yt-dlp is of 2023-03-04", why, "pipx upgrade yt-dlp"]);
    machine.has("pipx", r#"[ "$*" = "upgrade yt-dlp" ] && sed -i "s/2023.03.04/$(date +%Y.%m.%d)/" yt-dlp"#).unwrap();
    machine.run(age[3]);

    let runtime = told(&findings, "yt-dlp.runtime");
    assert_eq!(runtime[0], "warning");
    assert!(runtime[1].starts_with("there is no `deno` for yt-dlp"), "{runtime:?}");
    assert_eq!(runtime[2], "yt-dlp runs YouTube's scripts in it, and gets few formats or none without");
    let installs = r##"[ "$*" = "-fsSL https://deno.land/install.sh" ] || exit 2
echo 'printf "#!/bin/sh\\necho deno 2.5.6\\n" >deno; chmod 700 deno'"##;
    machine.has("curl", installs).unwrap();
    machine.run(runtime[3]);
    let (code, findings) = machine.doctor("yt-dlp");
    assert!(are_well(&findings) && code == Some(0), "{findings:#?}");
    assert_eq!(told(&findings, "yt-dlp.runtime")[1], "its JavaScript runtime is deno 2.5.6");
}

#[test]
fn a_downloader_that_is_missing_or_broken_is_installed() {
    for (fault, id, seen, words) in [
        (None, "yt-dlp.missing", "there is no program `yt-dlp` (`YTDLP_PATH`)", "install yt-dlp"),
        (
            Some("echo no module named yt_dlp >&2; exit 1"),
            "yt-dlp.fails",
            "`yt-dlp` does not work: ",
            "reinstall yt-dlp",
        ),
    ] {
        let machine = Machine::new().unwrap();
        machine.has("deno", "echo deno 2.5.6").unwrap();
        if let Some(script) = fault {
            machine.has("yt-dlp", script).unwrap();
        }
        let (code, findings) = machine.doctor("yt-dlp");
        assert_eq!(code, Some(0));
        let found = told(&findings, id);
        assert!(found[1].starts_with(seen), "{found:?}");
        assert_eq!(
            [found[0], found[2], found[3]],
            ["warning", "imports from YouTube need it; uploads do not", &format!("pipx {words}")]
        );
        let installs = r#"printf '#!/bin/sh\necho %s\n' "$(date +%Y.%m.%d)" >yt-dlp && chmod 700 yt-dlp"#;
        machine.has("pipx", &format!(r#"[ "$*" = "{words}" ] && {installs}"#)).unwrap();
        machine.run(found[3]);
        let (_, findings) = machine.doctor("yt-dlp");
        assert!(are_well(&findings), "{findings:#?}");
    }
}

#[test]
fn media_programs_that_are_missing_or_broken_are_installed() {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let real =
        |name: &str| std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file()).unwrap();
    let package = r#"[ "$*" = "WORDS" ] && ln -sf FFMPEG ffmpeg && ln -sf FFPROBE ffprobe"#;
    let package = package.replace("FFMPEG", &real("ffmpeg").to_string_lossy());
    let package = package.replace("FFPROBE", &real("ffprobe").to_string_lossy());
    for (fault, kind, words) in
        [(None, "missing", "install -y ffmpeg"), (Some("exit 127"), "fails", "install -y --reinstall ffmpeg")]
    {
        let machine = Machine::new().unwrap();
        for name in ["ffmpeg", "ffprobe"] {
            if let Some(script) = fault {
                machine.has(name, script).unwrap();
            } else {
                assert!(!machine.programs().join(name).exists());
            }
        }
        let (code, findings) = machine.doctor("ffmpeg,ffprobe");
        assert_eq!(code, Some(1));
        for name in ["ffmpeg", "ffprobe"] {
            let found = told(&findings, &format!("{name}.{kind}"));
            assert_eq!([found[0], found[3]], ["failure", &format!("sudo apt-get {words}")]);
            assert!(
                found[1].contains(&format!("`{name}`")) && found[2].ends_with("so uploads are refused without"),
                "{found:?}"
            );
        }
        machine.has("apt-get", &package.replace("WORDS", words)).unwrap();
        for name in ["ffmpeg", "ffprobe"] {
            let _replaced = fs::remove_file(machine.programs().join(name));
        }
        machine.run(told(&findings, &format!("ffmpeg.{kind}"))[3]);
        let (code, findings) = machine.doctor("ffmpeg,ffprobe");
        assert!(are_well(&findings) && code == Some(0), "{findings:#?}");
    }
}

#[test]
fn an_engine_of_another_version_is_replaced_by_this_one() {
    let home = tempfile::tempdir().unwrap();
    // An engine of long ago: its description, once, and then it ends.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let old = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            client.read_exact(&mut byte).unwrap();
            request.push(byte[0]);
        }
        assert!(request.starts_with(b"GET /openapi.json "), "{}", String::from_utf8_lossy(&request));
        let body = r#"{"openapi":"3.1.0","info":{"title":"Ambient engine","version":"0.0.1"}}"#;
        write!(client, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len()).unwrap();
    });
    let look = || {
        let mut command = ambientctl(home.path());
        let output =
            command.args(["doctor", "--json", "--only", "version"]).env("SERVER_PORT", &port).output().unwrap();
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        document["findings"].as_array().cloned().unwrap()
    };
    let findings = look();
    let own = env!("CARGO_PKG_VERSION");
    let seen = format!("the engine that runs is of version 0.0.1, and this program of {own}");
    let why = "commands, files and messages of two versions may not fit together";
    assert_eq!(told(&findings, "version.differs"), ["warning", &seen, why, "ambientctl serve"]);
    old.join().unwrap();
    // The remedy, where the old one was.
    let serving = Serving::start(ambientctl(home.path()).arg("serve").env("SERVER_PORT", &port)).unwrap();
    assert!(serving.url.ends_with(&format!(":{port}")), "{}", serving.first_line);
    let findings = look();
    assert_eq!(
        told(&findings, "version.same")[1],
        format!("the engine that runs is of version {own}, as this program is")
    );
    assert!(are_well(&findings), "{findings:#?}");
}

/// A small disk for the videos, seen by these programs alone: full, then looked through as the remedy says, then larger.
const ON_A_SMALL_DISK: &str = r#"set -e
mount -t tmpfs -o size=400m none "$VIDEO_FOLDER"
head -c 3000000 /dev/zero >"$VIDEO_FOLDER/old.mp4"
look() { "$@" doctor --json --only disk >"$HOME/$when.json" && code=0 || code=$?; echo $code >"$HOME/$when.code"; }
when=full look "$@"
sh -c "$REMEDY" >"$HOME/remedy"
mount -o remount,size=40g "$VIDEO_FOLDER"
when=larger look "$@""#;

#[test]
#[expect(clippy::disallowed_methods, reason = "the disk is mounted for programs of its own")]
fn a_disk_without_room_is_told_with_what_finds_its_largest_files() {
    let home = tempfile::tempdir().unwrap();
    let videos = home.path().join("videos");
    fs::create_dir(&videos).unwrap();
    let remedy = format!("du -xh --max-depth=2 {} | sort -h | tail", videos.display());
    let program = ambientctl(home.path()).get_program().to_owned();
    let mut apart = Command::new("unshare");
    if !nix::unistd::geteuid().is_root() {
        apart.arg("--map-root-user");
    }
    apart.args(["--mount", "sh", "-c", ON_A_SMALL_DISK, "sh"]).arg(program).current_dir(home.path());
    apart.env("HOME", home.path()).env("VIDEO_FOLDER", &videos).env("REMEDY", &remedy);
    let output = apart.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let findings = |when: &str| -> (String, Vec<Value>) {
        let document: Value =
            serde_json::from_slice(&fs::read(home.path().join(when).with_extension("json")).unwrap()).unwrap();
        let code = fs::read_to_string(home.path().join(when).with_extension("code")).unwrap();
        (code, document["findings"].as_array().cloned().unwrap())
    };
    let (code, full) = findings("full");
    let [level, seen, why, told_remedy] = told(&full, "disk.room");
    assert_eq!((code.trim(), level), ("1", "failure"), "{full:#?}");
    assert!(seen.starts_with("`VIDEO_FOLDER`") && seen.ends_with("MiB free"), "{seen}");
    assert_eq!(
        (why, told_remedy),
        ("uploads, clips and frames are written there, and fail on a full disk", remedy.as_str())
    );
    assert!(fs::read_to_string(home.path().join("remedy")).unwrap().contains("2.9M"));
    let (code, larger) = findings("larger");
    assert!(are_well(&larger) && code.trim() == "0", "{larger:#?}");
}
