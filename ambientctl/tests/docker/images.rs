//! Images of the tests' services with a date and a version of our choice, which no build gives.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::doctor::in_a_shell;
use super::lab::{IMAGE, docker, runtime, socket};

const BLOCK: usize = 512;

/// A registry of this test alone. It ends when this is dropped.
pub(crate) struct Registry {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Registry {
    #[expect(clippy::disallowed_methods, reason = "a server of its own")]
    pub(crate) fn start() -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let settings = folder.path().join("registry.yml");
        let data = folder.path().join("data");
        let text = format!(
            "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: 127.0.0.1:{port}}}\n",
            data.display()
        );
        std::fs::write(&settings, text)?;
        let mut server = Command::new("docker-registry");
        server.arg("serve").arg(settings).stdout(Stdio::null()).stderr(Stdio::null());
        let registry = Self { child: server.spawn()?, port, _folder: folder };
        let deadline = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "docker-registry does not listen on port {port}");
            std::thread::yield_now();
        }
        Ok(registry)
    }

    /// The name of an image that is pulled from here.
    pub(crate) fn image(&self) -> String {
        format!("127.0.0.1:{}/ambient:1", self.port)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _gone_already = self.child.kill();
        let _gone_already = self.child.wait();
    }
}

/// A loaded image. It goes away when this is dropped, and what had its name before.
pub(crate) struct Image {
    name: String,
    identities: RefCell<Vec<String>>,
}

impl Image {
    /// The files of [`IMAGE`] under another name, built at this time, with this version in its label.
    pub(crate) fn load(name: &str, created: &str, version: &str) -> io::Result<Self> {
        let image = Self { name: name.to_owned(), identities: RefCell::default() };
        image.put(created, version)?;
        Ok(image)
    }

    /// Another image of the same name; only the registry has it when this returns, as when a release came out.
    pub(crate) fn release(&self, created: &str, version: &str) -> io::Result<()> {
        let old = self.identities.borrow().last().cloned().unwrap_or_default();
        self.put(created, version)?;
        in_a_shell(&format!("docker push --quiet {0} && docker tag {old} {0}", self.name))
    }

    fn put(&self, created: &str, version: &str) -> io::Result<()> {
        let layer = files()?;
        let mut identity = String::new();
        for byte in Sha256::digest(&layer) {
            write!(identity, "{byte:02x}").map_err(io::Error::other)?;
        }
        let config = json!({
            "architecture": architecture(),
            "os": "linux",
            "created": created,
            "config": { "Cmd": ["sleep", "100000"], "Labels": { "org.opencontainers.image.version": version } },
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{identity}")] },
        });
        let manifest = json!([{ "Config": "config.json", "RepoTags": [self.name], "Layers": ["layer.tar"] }]);
        let mut archive = Vec::new();
        for (name, bytes) in [
            ("config.json", config.to_string().as_bytes()),
            ("layer.tar", layer.as_slice()),
            ("manifest.json", manifest.to_string().as_bytes()),
        ] {
            entry(&mut archive, name, bytes)?;
        }
        archive.resize(archive.len() + 2 * BLOCK, 0);
        post("/images/load", &archive)?;
        let found = runtime().block_on(docker().inspect_image(&self.name)).map_err(io::Error::other)?;
        self.identities.borrow_mut().extend(found.id);
        Ok(())
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        for identity in self.identities.take() {
            let options = bollard::query_parameters::RemoveImageOptionsBuilder::default().force(true).build();
            let _may_be_gone = runtime().block_on(docker().remove_image(&identity, Some(options), None));
        }
    }
}

/// The word of this machine's processor in images.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The files of the image, as an archive.
fn files() -> io::Result<Vec<u8>> {
    let config = bollard::models::ContainerCreateBody { image: Some(IMAGE.to_owned()), ..Default::default() };
    let options = None::<bollard::query_parameters::CreateContainerOptions>;
    runtime().block_on(async {
        let docker = docker();
        let made = docker.create_container(options, config).await.map_err(io::Error::other)?;
        let mut archive = Vec::new();
        let mut pieces = docker.export_container(&made.id);
        while let Some(piece) = pieces.next().await {
            archive.extend_from_slice(&piece.map_err(io::Error::other)?);
        }
        let removal = None::<bollard::query_parameters::RemoveContainerOptions>;
        docker.remove_container(&made.id, removal).await.map_err(io::Error::other)?;
        Ok(archive)
    })
}

/// A file of an archive in the format `ustar`.
fn entry(archive: &mut Vec<u8>, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut head = [0; BLOCK];
    let mut put = |at: usize, text: &str| head[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000644\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{:011o}\0", bytes.len()));
    put(136, "00000000000\0");
    // The sum counts itself as spaces.
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
    head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    archive.write_all(&head)?;
    archive.write_all(bytes)?;
    archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    Ok(())
}

/// A request that the engine answers with good words.
fn post(path: &str, body: &[u8]) -> io::Result<()> {
    let mut engine = UnixStream::connect(socket())?;
    write!(
        engine,
        "POST {path}?quiet=1 HTTP/1.0\r\nHost: docker\r\nContent-Type: application/x-tar\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )?;
    engine.write_all(body)?;
    let mut answer = String::new();
    engine.read_to_string(&mut answer)?;
    let is_good = answer.split_whitespace().nth(1) == Some("200") && !answer.contains("\"error\"");
    if is_good { Ok(()) } else { Err(io::Error::other(answer)) }
}
