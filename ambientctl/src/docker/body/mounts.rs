//! What a container sees of its machine's files and of the engine's volumes.

use bollard::models::{Mount, MountBindOptions, MountTmpfsOptions, MountType, MountVolumeOptions};

use super::super::grants::From;
use super::super::{DockerError, WantedService, service};
use super::Predecessor;

/// Plain mounts in the old form, all others in the new one, as Docker Compose writes them.
pub(super) fn volumes(
    service: &WantedService,
    predecessor: &Predecessor,
) -> Result<(Vec<String>, Vec<Mount>), DockerError> {
    let typed = &service.service;
    let mut binds = Vec::new();
    let mut mounts = Vec::new();
    for (index, mount) in typed.volumes.iter().enumerate() {
        let access = if mount.read_only { "ro" } else { "rw" };
        let volume = mount.volume.clone().unwrap_or_default();
        let bind = mount.bind.clone().unwrap_or_default();
        match (mount.kind.as_str(), &mount.source) {
            ("volume", Some(key)) if volume.labels.is_empty() => {
                let name = service.volume_names.get(key).unwrap_or(key);
                let copy = if volume.nocopy { ",nocopy" } else { "" };
                binds.push(format!("{name}:{}:{access}{copy}", mount.target));
            }
            ("volume", None) => {}
            ("bind", Some(source)) if bind.create_host_path => {
                let mut options = vec![access.to_owned()];
                options.extend(bind.propagation.clone());
                options.extend(bind.selinux.clone());
                binds.push(format!("{source}:{}:{}", mount.target, options.join(",")));
            }
            _ => mounts.push(new_form(service, index, mount)?),
        }
    }
    let own: Vec<&str> =
        typed.volumes.iter().filter(|mount| mount.source.is_some()).map(|mount| mount.target.as_str()).collect();
    mounts.extend(service.granted.iter().filter_map(|file| match &file.from {
        From::File(path) => Some(Mount {
            typ: Some(MountType::BIND),
            source: Some(path.clone()),
            target: Some(file.target.clone()),
            read_only: Some(true),
            ..Mount::default()
        }),
        From::Text { .. } => None,
    }));
    for (path, name) in &predecessor.volumes {
        if !own.contains(&path.as_str()) {
            binds.push(format!("{name}:{path}:rw"));
        }
    }
    Ok((binds, mounts))
}

fn new_form(service: &WantedService, index: usize, mount: &service::Mount) -> Result<Mount, DockerError> {
    let wrong = |problem: &str| DockerError::Value {
        service: service.name.clone(),
        key: format!("volumes[{index}]"),
        problem: problem.to_owned(),
    };
    let mut new = Mount {
        target: Some(mount.target.clone()),
        source: mount.source.clone(),
        read_only: mount.read_only.then_some(true),
        consistency: mount.consistency.clone(),
        ..Mount::default()
    };
    match mount.kind.as_str() {
        "volume" => {
            let volume = mount.volume.clone().unwrap_or_default();
            new.typ = Some(MountType::VOLUME);
            new.source = mount.source.as_ref().map(|key| service.volume_names.get(key).unwrap_or(key).clone());
            new.volume_options = Some(MountVolumeOptions {
                no_copy: Some(volume.nocopy),
                labels: (!volume.labels.is_empty()).then(|| volume.labels.into_iter().collect()),
                ..MountVolumeOptions::default()
            });
        }
        "bind" => {
            let bind = mount.bind.clone().unwrap_or_default();
            new.typ = Some(MountType::BIND);
            if bind.selinux.is_some() {
                return Err(wrong("has `selinux` without `create_host_path`, which the engine cannot do"));
            }
            new.bind_options = bind
                .propagation
                .map(|propagation| {
                    let propagation = propagation.parse().map_err(|_word| wrong("has an unknown propagation"))?;
                    Ok::<_, DockerError>(MountBindOptions {
                        propagation: Some(propagation),
                        ..MountBindOptions::default()
                    })
                })
                .transpose()?;
        }
        "tmpfs" => {
            let tmpfs = mount.tmpfs.clone().unwrap_or_default();
            new.typ = Some(MountType::TMPFS);
            let size =
                tmpfs.size.map(|size| size.parse().map_err(|_no_size| wrong("has no proper size"))).transpose()?;
            new.tmpfs_options =
                Some(MountTmpfsOptions { size_bytes: size, mode: tmpfs.mode, ..MountTmpfsOptions::default() });
        }
        _ => return Err(wrong("is of a kind that is not applied")),
    }
    Ok(new)
}
