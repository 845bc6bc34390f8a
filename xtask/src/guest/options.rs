//! The options of `cargo xtask guest`. Options come first. The first word that is not an option, or
//! the first one after `--`, begins the words that are passed on unchanged.

use std::path::Path;
use std::time::Duration;

use super::Machine;
use super::files::GuestFiles;

/// Debian's kernels for clouds, in which everything that a virtual machine needs is built in. The
/// last one is from Debian 13's backports: Debian 12 does not have it, so its package must be
/// unpacked by hand. The first one is the default.
pub(super) const KERNELS: [&str; 3] = ["6.12", "6.1", "6.17"];

/// The options of the command line; `None` is the default, which differs between a program and the
/// suite.
#[derive(Default, PartialEq, Eq, Debug)]
pub(super) struct Options {
    pub(super) kernel: Option<String>,
    memory_mib: Option<u32>,
    cpus: Option<u32>,
    seconds: Option<u32>,
    zram_mib: Option<u32>,
    pub(super) nodes: Option<u32>,
    arguments: Vec<String>,
    /// Files to copy: path on this machine, and name below `/files` in the guest.
    files: Vec<(String, String)>,
    /// The program and its arguments, or the scripts of the suite.
    pub(super) operands: Vec<String>,
}

impl Options {
    pub(super) fn machine(&self, kernel: &str, limit: Duration, zram_mib: u32) -> Machine {
        Machine {
            kernel: self.kernel.as_deref().unwrap_or(kernel).to_owned(),
            memory_mib: self.memory_mib.unwrap_or(1024),
            cpus: self.cpus.unwrap_or(2),
            limit: self
                .seconds
                .map_or(limit, |seconds| Duration::from_secs(seconds.into())),
            zram_mib: self.zram_mib.unwrap_or(zram_mib),
            nodes: self.nodes.unwrap_or(1),
            arguments: self.arguments.join(" "),
        }
    }

    /// Copies the files named with `-f`.
    pub(super) fn copy_files(&self, files: &GuestFiles) -> Result<(), String> {
        let copy = |host: &str, name: &str| files.copy(Path::new(host), &format!("files/{name}"));
        self.files
            .iter()
            .try_for_each(|(host, name)| copy(host, name))
    }
}

pub(super) fn parse(args: &[&str]) -> Result<Options, String> {
    let mut options = Options::default();
    let mut rest = args;
    while let [word, after @ ..] = rest {
        if *word == "--" {
            rest = after;
            break;
        }
        if !word.starts_with('-') {
            break;
        }
        let [value, after @ ..] = after else {
            return Err(format!("{word} is no option, or lacks its value"));
        };
        option(&mut options, word, value)?;
        rest = after;
    }
    options.operands = rest.iter().map(|word| (*word).to_owned()).collect();
    Ok(options)
}

fn option(options: &mut Options, name: &str, value: &str) -> Result<(), String> {
    match name {
        "-k" if KERNELS.contains(&value) => options.kernel = Some(value.to_owned()),
        "-k" => {
            return Err(format!(
                "{value}: there are the kernels {}",
                KERNELS.join(", ")
            ));
        }
        "-m" => options.memory_mib = Some(number(name, value, 64)?),
        "-c" => options.cpus = Some(number(name, value, 1)?),
        "-t" => options.seconds = Some(number(name, value, 1)?),
        "-z" => options.zram_mib = Some(number(name, value, 0)?),
        "-n" => options.nodes = Some(number(name, value, 1)?),
        "-a" => options.arguments.push(value.to_owned()),
        "-f" => options.files.push(file(value)?),
        _ => return Err(format!("{name} is no option")),
    }
    Ok(())
}

fn number(name: &str, value: &str, least: u32) -> Result<u32, String> {
    value
        .parse()
        .ok()
        .filter(|number| *number >= least)
        .ok_or_else(|| format!("{name} wants a whole number from {least} on, not `{value}`"))
}

/// Parses `HOST[:NAME]`; the name is a path below `/files`, by default the file's own name.
fn file(value: &str) -> Result<(String, String), String> {
    let (host, name) = match value.rsplit_once(':') {
        Some((host, name)) => (host, name),
        None => (value, value.rsplit('/').next().unwrap_or(value)),
    };
    let is_plain = |part: &str| !matches!(part, "" | "." | "..");
    if host.is_empty() || !name.split('/').all(is_plain) {
        return Err(format!(
            "-f {value}: wants HOST[:NAME], with NAME a path below /files"
        ));
    }
    Ok((host.to_owned(), name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_before_the_program_and_its_arguments() {
        let words = "-k 6.1 -z 256 -a no5lvl -a x=1 -t 9 -n 2 -- prog -k --";
        let options = parse(&words.split(' ').collect::<Vec<_>>()).expect("all are right");
        assert_eq!(options.operands, ["prog", "-k", "--"]);
        let machine = options.machine(KERNELS[0], Duration::from_secs(300), 0);
        let wanted = Machine {
            kernel: "6.1".to_owned(),
            memory_mib: 1024,
            cpus: 2,
            limit: Duration::from_secs(9),
            zram_mib: 256,
            nodes: 2,
            arguments: "no5lvl x=1".to_owned(),
        };
        assert_eq!(machine, wanted);
        let options = parse(&["-c", "1", "prog", "-z"]).expect("all are right");
        assert_eq!(options.operands, ["prog", "-z"]);
        assert_eq!((options.cpus, options.nodes), (Some(1), None));
    }

    #[test]
    fn wrong_options_are_errors() {
        for (words, part) in [
            ("-x 1", "-x is no option"),
            ("-m", "lacks its value"),
            ("-m 1", "from 64 on"),
            ("-c two", "`two`"),
            ("-n 0", "from 1 on"),
            ("-k 5.10", "6.12, 6.1, 6.17"),
            ("-f a:../b", "below /files"),
            ("-f a:/b", "below /files"),
        ] {
            let why = parse(&words.split(' ').collect::<Vec<_>>()).unwrap_err();
            assert!(why.contains(part), "{words}: {why}");
        }
    }

    #[test]
    fn a_file_keeps_its_name_by_default() {
        let pair = |host: &str, name: &str| Ok((host.to_owned(), name.to_owned()));
        assert_eq!(file("a/b.bin"), pair("a/b.bin", "b.bin"));
        assert_eq!(file("a/b.bin:c/d"), pair("a/b.bin", "c/d"));
    }
}
