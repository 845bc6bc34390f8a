//! What `pagetide sim` is asked to run: a built-in experiment by its name, or a file.
//!
//! Invariant: everything that can be refused is refused before the work starts.

mod pictures;

use crate::experiments::{ALL, Experiment, Settings};
use crate::nearest::nearest;
use crate::outcome::Outcome;
use crate::scenario::{Plans, ScenarioError, TEXT_MAX, parse_within, run as run_plans};
use crate::show::Heading;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Why there is nothing to run.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// No experiment has this name.
    #[error("no experiment is called `{name}`")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What may have been meant.
        nearest: Option<&'static str>,
    },
    /// The file cannot be read.
    #[error("cannot read {path}: {why}")]
    Read {
        /// Which.
        path: String,
        /// Why not.
        why: std::io::Error,
    },
    /// The file is no experiment.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A built-in experiment has no such value to set.
    #[error("`{given}` cannot be set: {why}")]
    Set {
        /// What was given.
        given: String,
        /// Why not.
        why: String,
    },
}

impl JobError {
    /// True when the command line is at fault, and not a file.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        matches!(self, Self::Unknown { .. } | Self::Set { .. })
    }

    /// What to do.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Unknown {
                nearest: Some(name),
                ..
            } => format!("did you mean `{name}`? --list names them all"),
            Self::Unknown { .. } => "--list names them all; a file's name ends in .toml".to_owned(),
            Self::Read { .. } => {
                "give the path of an experiment file; docs/simulator.md has some".to_owned()
            }
            Self::Scenario(error) => error.hint.clone(),
            Self::Set { .. } => "built-in experiments take seed=N and scale=K".to_owned(),
        }
    }
}

/// Something to run.
pub enum Job {
    /// A built-in experiment.
    BuiltIn(&'static Experiment, Settings),
    /// A file.
    File {
        /// Its name, or the file's.
        name: String,
        /// What it says.
        plans: Box<Plans>,
    },
}

impl Job {
    /// Finds what `what` means. `set` are assignments `key=value`; `seed` and `scale` win over them.
    ///
    /// # Errors
    /// [`JobError`].
    pub fn find(
        what: &str,
        set: &[String],
        seed: Option<u64>,
        scale: Option<u64>,
    ) -> Result<Self, JobError> {
        let is_file = Path::new(what)
            .extension()
            .is_some_and(|e| e.eq_ignore_ascii_case("toml"));
        if is_file || what.contains('/') {
            return Self::read(what, set, seed, scale);
        }
        let Some(experiment) = ALL.iter().find(|e| e.name == what) else {
            return Err(JobError::Unknown {
                name: what.to_owned(),
                nearest: nearest(what, ALL.iter().map(|e| e.name)),
            });
        };
        let mut settings = Settings { seed: 1, scale: 1 };
        for given in set {
            assign(&mut settings, given)?;
        }
        settings.seed = seed.unwrap_or(settings.seed);
        settings.scale = scale.unwrap_or(settings.scale);
        Ok(Self::BuiltIn(experiment, settings))
    }

    fn read(
        path: &str,
        set: &[String],
        seed: Option<u64>,
        scale: Option<u64>,
    ) -> Result<Self, JobError> {
        if scale.is_some() {
            return Err(JobError::Set {
                given: "--scale".to_owned(),
                why: "a file says its sizes itself".to_owned(),
            });
        }
        let text = text_of(path).map_err(|why| JobError::Read {
            path: path.to_owned(),
            why,
        })?;
        let mut set = set.to_vec();
        set.extend(seed.map(|seed| format!("run.seed={seed}")));
        let folder = Path::new(path).parent().unwrap_or(Path::new(""));
        let plans = parse_within(folder, path, &text, &set)?;
        let stem = Path::new(path).file_stem();
        let stem = stem.map(|stem| stem.to_string_lossy().into_owned());
        let name = plans.runs.first().and_then(|plan| plan.file.name.clone());
        let name = name.or(stem).unwrap_or_default();
        Ok(Self::File {
            name,
            plans: Box::new(plans),
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::BuiltIn(experiment, _) => experiment.name,
            Self::File { name, .. } => name,
        }
    }

    /// Runs it; `progress` is told the part done.
    pub fn run(&self, progress: &mut dyn FnMut(f64)) -> (Heading, Outcome) {
        match self {
            Self::BuiltIn(experiment, settings) => {
                let heading = Heading {
                    name: experiment.name.to_owned(),
                    about: experiment.about.to_owned(),
                    document: Some(experiment.document.to_owned()),
                    seed: settings.seed,
                    scale: settings.scale,
                };
                (heading, (experiment.run)(settings, progress))
            }
            Self::File { name, plans } => {
                let heading = Heading {
                    name: name.clone(),
                    about: plans
                        .runs
                        .first()
                        .map_or_else(String::new, |plan| plan.file.about.clone()),
                    document: None,
                    seed: plans.runs.first().map_or(0, |plan| plan.file.run.seed),
                    scale: 1,
                };
                let threads = std::thread::available_parallelism().map_or(1, usize::from);
                let mut outcome = run_plans(plans, threads, progress);
                outcome.pictures = pictures::pictures(plans, &outcome.tables);
                (heading, outcome)
            }
        }
    }
}

/// What a file says, or so much of it that it is too long: a link to /dev/zero filled all memory.
fn text_of(path: &str) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?
        .take(TEXT_MAX as u64 + 1)
        .read_to_string(&mut text)?;
    Ok(text)
}

fn assign(settings: &mut Settings, given: &str) -> Result<(), JobError> {
    let refuse = |why: &str| JobError::Set {
        given: given.to_owned(),
        why: why.to_owned(),
    };
    let (key, value) = given
        .split_once('=')
        .ok_or_else(|| refuse("it is not KEY=VALUE"))?;
    let number: u64 = value
        .trim()
        .parse()
        .map_err(|_| refuse("its value is no whole number"))?;
    match key.trim() {
        "seed" => settings.seed = number,
        "scale" if (1..=4096).contains(&number) => settings.scale = number,
        "scale" => return Err(refuse("a scale is 1 to 4096")),
        _ => return Err(refuse("there is no such value")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(what: &str, set: &str) -> String {
        let set: Vec<String> = set.split_whitespace().map(str::to_owned).collect();
        match Job::find(what, &set, None, None) {
            Ok(job) => job.name().to_owned(),
            Err(error) => format!("{error}; {}", error.hint()),
        }
    }

    /// A name that ends in .toml was read to its end before its length was looked at.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_without_an_end_is_refused() {
        let link = std::env::temp_dir().join(format!("pagetide-{}.toml", std::process::id()));
        std::os::unix::fs::symlink("/dev/zero", &link).expect("a link");
        let path = link.to_string_lossy();
        let (said, read) = (error(&path, ""), text_of(&path).map(|text| text.len()));
        std::fs::remove_file(&link).expect("it is there");
        assert!(said.contains("1048576 are the most"), "{said}");
        // What is too long is said of any length: that no more was read is what keeps memory.
        assert_eq!(read.ok(), Some(TEXT_MAX + 1));
    }

    #[test]
    fn what_is_asked_for_is_found_or_refused() {
        assert_eq!(error("memcg-lru", "seed=4 scale=16"), "memcg-lru");
        assert!(error("memcg-lur", "").contains("did you mean `memcg-lru`?"));
        assert!(error("zzzzzzzzzzzzzzz", "").contains("--list"));
        assert!(error("memcg-lru", "seed=x").contains("no whole number"));
        assert!(error("memcg-lru", "scale=0").contains("1 to 4096"));
        assert!(error("memcg-lru", "sede=1").contains("seed=N"));
        assert!(error("memcg-lru", "seed").contains("KEY=VALUE"));
    }
}
