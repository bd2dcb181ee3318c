//! What has to happen so that what is wanted is there: pure, so that a dry run and a real one cannot differ.
//!
//! The rules are those of `docker compose up`: a container is made anew when its hash, its image, a network or a volume is
//! another one; one that only stands still is started; one that is right is left alone. Volumes are never removed, nor are
//! containers of services that no file has.

use std::collections::BTreeMap;
use std::fmt;

use crate::docker::{Dependency, DockerError, Found, FoundContainer, State, Wanted, WantedService};

/// What to do.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Keys of networks to make.
    pub networks: Vec<String>,
    /// Keys of volumes to make.
    pub volumes: Vec<String>,
    /// What to do about each service, dependencies first.
    pub steps: Vec<Step>,
    /// Containers of services that no file has any more.
    pub orphans: Vec<String>,
    /// What works, but perhaps not as meant.
    pub warnings: Vec<String>,
}

/// What to do about a service.
#[derive(Clone, Debug)]
pub struct Step {
    /// The service.
    pub service: String,
    /// What to do about its container.
    pub verdict: Verdict,
    /// Its container, if it has one.
    pub container: Option<FoundContainer>,
    /// Containers that it has besides; left by a run that was cut off.
    pub surplus: Vec<FoundContainer>,
}

/// What to do about a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is none: make one.
    Create,
    /// It is another than the files ask for: make it anew.
    Recreate(Vec<Reason>),
    /// It stands still: start it.
    Start,
    /// It is right, but this service that it depends on is made anew, and it wants to be started again then.
    Restart(String),
    /// It is right.
    Keep,
}

/// Why a container is made anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The files say something else about it.
    Configuration,
    /// Its image is another one by now.
    Image,
    /// It is not on this network.
    Network(String),
    /// This volume is not in it.
    Volume(String),
    /// It is beyond help.
    Dead,
    /// A secret or a config that was put into it is another one by now.
    Granted,
    /// It shares namespaces or volumes with a container of this service, which is made anew.
    Shared(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configuration => f.write_str("its configuration changed"),
            Self::Image => f.write_str("its image changed"),
            Self::Network(name) => write!(f, "it is not on the network `{name}`"),
            Self::Volume(name) => write!(f, "the volume `{name}` is not in it"),
            Self::Dead => f.write_str("it is dead"),
            Self::Granted => f.write_str("its secrets or configs changed"),
            Self::Shared(service) => write!(f, "it shares something with `{service}`, which is made anew"),
        }
    }
}

impl Plan {
    /// Compares what is wanted with what is there.
    ///
    /// # Errors
    /// When an external network or volume is missing, or a network is not what the files say.
    pub fn make(wanted: &Wanted, found: &Found) -> Result<Self, DockerError> {
        let mut plan = Self::default();
        for network in &wanted.networks {
            match found.networks.iter().find(|there| there.name == network.name) {
                None if network.external => {
                    return Err(DockerError::External { kind: "network", name: network.name.clone() });
                }
                None => plan.networks.push(network.key.clone()),
                Some(_) if network.external => {}
                Some(there) if there.project.as_deref() != Some(&wanted.project) => {
                    plan.warnings
                        .push(format!("the network `{}` was made by somebody else; it is used as it is", there.name));
                }
                Some(there) if there.hash.as_ref().is_some_and(|hash| *hash != network.hash) => {
                    return Err(DockerError::Network(network.name.clone()));
                }
                Some(_) => {}
            }
        }
        for volume in &wanted.volumes {
            match found.volumes.get(&volume.name) {
                None if volume.external => {
                    return Err(DockerError::External { kind: "volume", name: volume.name.clone() });
                }
                None => plan.volumes.push(volume.key.clone()),
                Some(Some(hash)) if !volume.external && *hash != volume.hash => plan.warnings.push(format!(
                    "the volume `{}` is not what the compose files say any more; it is kept as it is, with its data",
                    volume.name
                )),
                Some(_) => {}
            }
        }
        plan.steps = steps(wanted, found);
        plan.orphans = found
            .containers
            .iter()
            .filter(|container| !container.one_off && wanted.service(&container.service).is_none())
            .map(|container| container.name.clone())
            .collect();
        Ok(plan)
    }

    /// Whether everything is as it should be.
    pub fn is_done(&self) -> bool {
        self.networks.is_empty()
            && self.volumes.is_empty()
            && self.steps.iter().all(|step| step.verdict == Verdict::Keep && step.surplus.is_empty())
    }

    /// What is done, a line each.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        lines.extend(self.networks.iter().map(|key| format!("network {key}: create")));
        lines.extend(self.volumes.iter().map(|key| format!("volume {key}: create")));
        for step in &self.steps {
            match &step.verdict {
                Verdict::Create => lines.push(format!("{}: create", step.service)),
                Verdict::Start => lines.push(format!("{}: start", step.service)),
                Verdict::Restart(other) => lines.push(format!("{}: start again (with `{other}`)", step.service)),
                Verdict::Recreate(reasons) => {
                    let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
                    lines.push(format!("{}: recreate ({})", step.service, reasons.join("; ")));
                }
                Verdict::Keep => {}
            }
            lines.extend(
                step.surplus.iter().map(|left| format!("{}: remove the left-over `{}`", step.service, left.name)),
            );
        }
        lines
    }
}

/// What to do about each service, dependencies first: what is done about those decides too.
fn steps(wanted: &Wanted, found: &Found) -> Vec<Step> {
    // Containers that stay, by their services.
    let mut staying: BTreeMap<String, String> = BTreeMap::new();
    let mut steps: Vec<Step> = Vec::new();
    for service in &wanted.services {
        let mut step = step(service, found, &staying);
        let is_made_anew = |dependency: &&Dependency| {
            dependency.restarts
                && steps.iter().any(|earlier| {
                    earlier.service == dependency.service && matches!(earlier.verdict, Verdict::Recreate(_))
                })
        };
        if let (Verdict::Keep, Some(dependency)) = (&step.verdict, service.depends_on.iter().find(is_made_anew)) {
            step.verdict = Verdict::Restart(dependency.service.clone());
        }
        if let (Verdict::Keep | Verdict::Start | Verdict::Restart(_), Some(container)) =
            (&step.verdict, &step.container)
        {
            staying.insert(service.name.clone(), container.id.clone());
        }
        steps.push(step);
    }
    steps
}

fn step(service: &WantedService, found: &Found, staying: &BTreeMap<String, String>) -> Step {
    let hashes = service.hashes(staying);
    let is_right = |container: &FoundContainer| {
        container.hash.as_ref().is_some_and(|hash| *hash == hashes.own || *hash == hashes.newer)
    };
    let mut own: Vec<FoundContainer> = found
        .containers
        .iter()
        .filter(|container| container.service == service.name && !container.one_off)
        .cloned()
        .collect();
    // The one of the right name; of those that a cut-off run left, the one that is right already.
    own.sort_by_key(|container| (container.name != service.container, !is_right(container), container.number));
    let mut own = own.into_iter();
    let container = own.next();
    let verdict = match &container {
        None => Verdict::Create,
        Some(container) => {
            let lost = service.shares().find(|other| !staying.contains_key(*other));
            let reason = match lost {
                Some(other) => Some(Reason::Shared(other.to_owned())),
                None => (!is_right(container)).then_some(Reason::Configuration),
            };
            verdict(service, container, found, reason)
        }
    };
    Step { service: service.name.clone(), verdict, container, surplus: own.collect() }
}

fn verdict(service: &WantedService, container: &FoundContainer, found: &Found, reason: Option<Reason>) -> Verdict {
    let mut reasons: Vec<Reason> = reason.into_iter().collect();
    // What Docker Compose put in carries no such mark, and is left as it is.
    if container.granted.is_some() && container.granted != service.granted_hash() {
        reasons.push(Reason::Granted);
    }
    if found.images.get(&service.image).is_some_and(|image| container.image.as_ref() != Some(image)) {
        reasons.push(Reason::Image);
    }
    if container.state == State::Dead {
        reasons.push(Reason::Dead);
    }
    if container.state == State::Running {
        for name in service.networks() {
            let there = found.networks.iter().find(|network| network.name == name);
            let id = container.networks.get(name);
            if id.is_none() || there.is_some_and(|there| Some(&there.id) != id) {
                reasons.push(Reason::Network(name.to_owned()));
            }
        }
    }
    for name in service.volumes() {
        if !container.volumes.values().any(|volume| volume == name) {
            reasons.push(Reason::Volume(name.to_owned()));
        }
    }
    if !reasons.is_empty() {
        return Verdict::Recreate(reasons);
    }
    match container.state {
        State::Running | State::Restarting => Verdict::Keep,
        State::Created | State::Exited | State::Paused | State::Dead => Verdict::Start,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::compose::Loader;
    use crate::docker::FoundNetwork;

    const STACK: &str = "services:\n  db: {image: db:1, volumes: ['data:/d']}\n  web: {image: web:1, depends_on: [db]}\nvolumes: {data: }\n";

    fn wanted(text: &str) -> Wanted {
        let folder = tempfile::Builder::new().prefix("shop").tempdir().unwrap();
        fs::write(folder.path().join("docker-compose.yml"), format!("name: shop\n{text}")).unwrap();
        let loader = Loader::new(folder.path(), &[]);
        Wanted::of(&loader.load().unwrap().project).unwrap()
    }

    /// Everything as it should be.
    fn right(wanted: &Wanted) -> Found {
        let container = |service: &WantedService| FoundContainer {
            id: format!("id-{}", service.name),
            name: service.container.clone(),
            service: service.name.clone(),
            number: 1,
            state: State::Running,
            hash: Some(service.hashes(&BTreeMap::new()).own),
            image: Some("sha256:1".to_owned()),
            networks: BTreeMap::from([("shop_default".to_owned(), "net".to_owned())]),
            volumes: service.volumes().map(|name| ("/d".to_owned(), name.to_owned())).collect(),
            ..FoundContainer::default()
        };
        Found {
            containers: wanted.services.iter().map(container).collect(),
            networks: vec![FoundNetwork {
                id: "net".to_owned(),
                name: "shop_default".to_owned(),
                project: Some("shop".to_owned()),
                hash: Some(wanted.networks[0].hash.clone()),
            }],
            volumes: wanted.volumes.iter().map(|volume| (volume.name.clone(), Some(volume.hash.clone()))).collect(),
            images: wanted.services.iter().map(|service| (service.image.clone(), "sha256:1".to_owned())).collect(),
        }
    }

    /// What is said after one thing was changed.
    fn lines(change: impl FnOnce(&mut Found)) -> Vec<String> {
        let wanted = wanted(STACK);
        let mut found = right(&wanted);
        change(&mut found);
        let plan = Plan::make(&wanted, &found).unwrap();
        assert_eq!(plan.is_done(), plan.lines().is_empty());
        plan.lines()
    }

    #[test]
    fn dependencies_stand_first_and_nothing_is_done_about_what_is_right() {
        let wanted = wanted(
            "services:\n  a: {image: i, depends_on: [b]}\n  b: {image: i, depends_on: [c]}\n  c: {image: i}\nvolumes: {data: }\n",
        );
        let names: Vec<_> = wanted.services.iter().map(|service| service.name.as_str()).collect();
        assert_eq!(names, ["c", "b", "a"]);
        assert!(lines(|_| ()).is_empty());
        assert!(lines(|found| found.containers[1].state = State::Restarting).is_empty());
    }

    #[test]
    fn only_what_is_wrong_is_touched() {
        for (change, expected) in [
            (
                Box::new(|found: &mut Found| found.containers[1].hash = None) as Box<dyn FnOnce(&mut Found)>,
                "web: recreate (its configuration changed)",
            ),
            (
                Box::new(|found| found.containers[0].image = Some("sha256:2".to_owned())),
                "db: recreate (its image changed)",
            ),
            (
                Box::new(|found| found.containers[0].volumes.clear()),
                "db: recreate (the volume `shop_data` is not in it)",
            ),
            (
                Box::new(|found| found.containers[1].networks.clear()),
                "web: recreate (it is not on the network `shop_default`)",
            ),
            (Box::new(|found| found.containers[1].state = State::Exited), "web: start"),
            (Box::new(|found| found.containers[1].state = State::Paused), "web: start"),
            (Box::new(|found| found.containers[1].state = State::Dead), "web: recreate (it is dead)"),
            (Box::new(|found| drop(found.containers.remove(0))), "db: create"),
            (Box::new(|found| found.volumes.clear()), "volume data: create"),
        ] {
            assert_eq!(lines(change), [expected]);
        }
    }

    #[test]
    fn what_wants_to_be_started_again_with_another_is_and_nothing_else() {
        let text = "services:\n  db: {image: i}\n  web: {image: i, depends_on: {db: {condition: service_started, restart: true}}}\n  job: {image: i, depends_on: [db]}\n  far: {image: i, depends_on: {web: {condition: service_started, restart: true}}}\nvolumes: {data: }\n";
        let wanted = wanted(text);
        let mut found = right(&wanted);
        assert!(Plan::make(&wanted, &found).unwrap().is_done());
        found.containers[0].hash = None;
        let lines = Plan::make(&wanted, &found).unwrap().lines();
        assert_eq!(lines, ["db: recreate (its configuration changed)", "web: start again (with `db`)"]);
        assert_eq!(wanted.with_restarted(vec!["db".to_owned()]), ["db", "web", "far"]);
    }

    #[test]
    fn a_container_that_shares_another_ones_namespaces_goes_with_it() {
        let text = "services:\n  db: {image: i, volumes: [/v]}\n  side: {image: i, network_mode: 'service:db', volumes_from: ['db:ro']}\nvolumes: {data: }\n";
        let wanted = wanted(text);
        let mut found = right(&wanted);
        // Its hash holds the id of the container that it shares something with.
        let containers = BTreeMap::from([("db".to_owned(), "id-db".to_owned())]);
        assert_ne!(wanted.services[1].hashes(&containers), wanted.services[1].hashes(&BTreeMap::new()));
        found.containers[1].hash = Some(wanted.services[1].hashes(&containers).own);
        assert!(Plan::make(&wanted, &found).unwrap().is_done());
        found.containers[0].hash = None;
        let lines = Plan::make(&wanted, &found).unwrap().lines();
        assert_eq!(lines[1], "side: recreate (it shares something with `db`, which is made anew)");
    }

    #[test]
    fn a_secret_that_was_put_in_is_put_in_anew_when_it_is_another() {
        let text =
            "services: {a: {image: i, configs: [c]}, b: {image: i}}\nconfigs: {c: {content: one}}\nvolumes: {data: }\n";
        let wanted = wanted(text);
        let mut found = right(&wanted);
        // Made by Docker Compose, which leaves no mark.
        assert!(Plan::make(&wanted, &found).unwrap().is_done());
        found.containers[0].granted = wanted.services[0].granted_hash();
        assert!(Plan::make(&wanted, &found).unwrap().is_done());
        found.containers[0].granted = Some("another".to_owned());
        let lines = Plan::make(&wanted, &found).unwrap().lines();
        assert_eq!(lines, ["a: recreate (its secrets or configs changed)"]);
    }

    #[test]
    fn what_a_cut_off_run_left_is_taken_up_or_removed() {
        let left = |found: &Found, hash: Option<String>| FoundContainer {
            name: "0123456789ab_shop-web-1".to_owned(),
            state: State::Created,
            hash,
            ..found.containers[1].clone()
        };
        // Made and not yet in its place.
        let said = lines(|found| {
            let new = left(found, Some("other".to_owned()));
            found.containers.push(new);
        });
        assert_eq!(said, ["web: remove the left-over `0123456789ab_shop-web-1`"]);
        // In nobody's place, since the old one was gone already.
        let said = lines(|found| found.containers[1] = left(found, found.containers[1].hash.clone()));
        assert_eq!(said, ["web: start"]);
    }

    #[test]
    fn volumes_and_orphans_are_kept_and_told() {
        let wanted = wanted(STACK);
        let mut found = right(&wanted);
        found.volumes.insert("shop_data".to_owned(), Some("older".to_owned()));
        let orphan =
            FoundContainer { name: "shop-old-1".to_owned(), service: "old".to_owned(), ..FoundContainer::default() };
        found.containers.push(orphan);
        let plan = Plan::make(&wanted, &found).unwrap();
        assert!(plan.is_done() && plan.warnings[0].contains("it is kept as it is, with its data"));
        assert_eq!(plan.orphans, ["shop-old-1"]);
    }

    #[test]
    fn networks_that_changed_and_external_ones_that_are_missing_stop_everything() {
        let wanted = wanted("services: {a: {image: i, networks: [n]}}\nnetworks: {n: {external: true, name: ext}}\n");
        let error = Plan::make(&wanted, &Found::default()).unwrap_err().to_string();
        assert_eq!(error, "the network `ext` is `external` and is not there");
        let wanted = super::tests::wanted(STACK);
        let mut found = right(&wanted);
        found.networks[0].hash = Some("older".to_owned());
        assert!(matches!(Plan::make(&wanted, &found), Err(DockerError::Network(name)) if name == "shop_default"));
    }

    #[test]
    fn a_container_of_a_newer_compose_is_right_too() {
        let wanted = wanted("services: {a: {image: i, volumes: ['/srv:/srv']}}\nvolumes: {data: }\n");
        let service = &wanted.services[0];
        let hashes = service.hashes(&BTreeMap::new());
        assert_ne!(hashes.own, hashes.newer);
        let container = FoundContainer {
            service: service.name.clone(),
            hash: Some(hashes.newer),
            state: State::Running,
            ..FoundContainer::default()
        };
        let found = Found { containers: vec![container], ..Found::default() };
        let reason = Verdict::Recreate(vec![Reason::Configuration]);
        assert_ne!(step(service, &found, &BTreeMap::new()).verdict, reason);
    }
}
