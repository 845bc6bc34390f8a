//! Finds and runs the job of `pagetide sim`: a built-in experiment, by its name, or an experiment
//! file.
//!
//! Invariant: all errors of the name, the file and the assignments are found before the run starts.

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
        /// The name that was requested.
        name: String,
        /// The experiment with the most similar name; `None` if none is similar.
        nearest: Option<&'static str>,
    },
    /// The file cannot be read.
    #[error("cannot read {path}: {why}")]
    Read {
        /// Path of the file.
        path: String,
        /// Error of the operating system.
        why: std::io::Error,
    },
    /// The file is not a valid experiment.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The value cannot be set for a built-in experiment.
    #[error("`{given}` cannot be set: {why}")]
    Set {
        /// The value that the user wrote.
        given: String,
        /// Reason why it cannot be set.
        why: String,
    },
}

impl JobError {
    /// Returns whether the error is in the command line, not in a file.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        matches!(self, Self::Unknown { .. } | Self::Set { .. })
    }

    /// Returns what the user can do about the error.
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

/// A job: what to run.
pub enum Job {
    /// A built-in experiment.
    BuiltIn(&'static Experiment, Settings),
    /// A file.
    File {
        /// Name of the experiment, or of its file if it has none.
        name: String,
        /// The runs that the file describes.
        plans: Box<Plans>,
    },
}

impl Job {
    /// Finds the experiment or file that `what` names. `set` has assignments `key=value`. `seed`
    /// and `scale`, if given, override those of `set`.
    ///
    /// # Errors
    /// If there is no such experiment, or the file or an assignment is wrong.
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

    /// Returns the name of the experiment.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::BuiltIn(experiment, _) => experiment.name,
            Self::File { name, .. } => name,
        }
    }

    /// Runs the experiment. `progress` gets the completed share, 0 to 1.
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

/// Returns the text of a file. Reads at most one byte more than [`TEXT_MAX`]: a link to /dev/zero
/// must not fill all memory.
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

    /// Regression: a file whose name ends in .toml was read to its end before its length was
    /// checked.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_without_an_end_is_refused() {
        let link = std::env::temp_dir().join(format!("pagetide-{}.toml", std::process::id()));
        std::os::unix::fs::symlink("/dev/zero", &link).expect("a link");
        let path = link.to_string_lossy();
        let (message, read) = (error(&path, ""), text_of(&path).map(|text| text.len()));
        std::fs::remove_file(&link).expect("it is there");
        assert!(message.contains("1048576 are the most"), "{message}");
        // Reading stops one byte above the limit, so memory is bounded.
        assert_eq!(read.ok(), Some(TEXT_MAX + 1));
    }

    #[test]
    fn a_name_is_found_or_refused() {
        assert_eq!(error("memcg-lru", "seed=4 scale=16"), "memcg-lru");
        assert!(error("memcg-lur", "").contains("did you mean `memcg-lru`?"));
        assert!(error("zzzzzzzzzzzzzzz", "").contains("--list"));
        assert!(error("memcg-lru", "seed=x").contains("no whole number"));
        assert!(error("memcg-lru", "scale=0").contains("1 to 4096"));
        assert!(error("memcg-lru", "sede=1").contains("seed=N"));
        assert!(error("memcg-lru", "seed").contains("KEY=VALUE"));
    }
}
