//! A hard-limit cgroup by hand, used by the tests on both cgroup versions. `wall manage CMD
//! [ARG]...` makes one, starts its guard, and CMD in it, and obeys lines on standard input. `wall
//! left [PATH]` lists the groups that dead managers left behind and removes the one at PATH.
//!
//! Lines: `max|high|swap BYTES|none`, `reclaim BYTES [SWAPPINESS]`, `get`, `lift`, `dismiss`,
//! `guard`, `remove`. Each is answered by one line; `error: ...` if it failed.
#![forbid(unsafe_code)]

use std::io::{self, BufRead, Write};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Instant;

use engine::{Bytes, Limit};
use host::hard_limit::{HardLimit, HardLimitError, guard};
use host::system::Proc;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    if args.first().is_some_and(|arg| arg == guard::ARGUMENT) {
        return guard::main(&args[1..]).into();
    }
    let words: Vec<&str> = args.iter().filter_map(|arg| arg.to_str()).collect();
    let done = match &words[..] {
        ["manage", command @ ..] if !command.is_empty() => manage(command),
        ["left"] => left(None),
        ["left", path] => left(Some(path)),
        _ => {
            eprintln!("usage: hard_limit manage CMD [ARG]... | hard_limit left [PATH]");
            return 2.into();
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::HardLimit(error)) => {
            eprintln!("hard_limit: {error}\n  {}", error.hint());
            3.into()
        }
        Err(Failure::Io(error)) => {
            eprintln!("hard_limit: {error}");
            1.into()
        }
    }
}

enum Failure {
    HardLimit(HardLimitError),
    Io(io::Error),
}

impl From<HardLimitError> for Failure {
    fn from(error: HardLimitError) -> Failure {
        Failure::HardLimit(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Io(error)
    }
}

fn own(proc: &Proc) -> Result<host::system::Identity, HardLimitError> {
    let pid = std::process::id();
    let gone = host::system::Error::NoProcess { pid };
    Ok(proc.identity(pid)?.ok_or(gone)?)
}

/// CMD, which waits in a shell until it is in the hard-limit cgroup.
struct Program(Child);

impl Program {
    fn start(command: &[&str], hard_limit: &HardLimit) -> io::Result<Program> {
        let wait = "read go && exec \"$@\"";
        let child = Command::new("sh")
            .args(["-c", wait, "sh"])
            .args(command)
            .stdin(Stdio::piped())
            .spawn()?;
        let mut program = Program(child);
        hard_limit.enter(program.0.id())?;
        let mut line = program.0.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        line.write_all(b"go\n")?;
        Ok(program)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn manage(command: &[&str]) -> Result<(), Failure> {
    let proc = Proc::system().map_err(HardLimitError::from)?;
    let hard_limit = HardLimit::make(&proc, own(&proc)?, &[])?;
    let done = obey(command, &hard_limit);
    hard_limit.remove()?;
    done.map_err(Failure::Io)
}

fn obey(command: &[&str], hard_limit: &HardLimit) -> io::Result<()> {
    let mut guard = Some(guard::start(hard_limit, Path::new("/proc/self/exe"))?);
    let program = Program::start(command, hard_limit)?;
    println!(
        "wall {} guard {} pid {}",
        hard_limit.group().dir.display(),
        guard.as_ref().map_or(0, guard::Guard::pid),
        program.0.id()
    );
    for line in io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        let done = match &words[..] {
            ["max", bytes] => hard_limit.set_max(limit(bytes)).map(|()| "ok".to_owned()),
            ["high", bytes] => hard_limit.set_high(limit(bytes)).map(|()| "ok".to_owned()),
            ["swap", bytes] => hard_limit
                .set_swap_max(limit(bytes))
                .map(|()| "ok".to_owned()),
            ["reclaim", bytes] => reclaim(hard_limit, bytes, None),
            ["reclaim", bytes, swappiness] => reclaim(hard_limit, bytes, swappiness.parse().ok()),
            ["get"] => get(hard_limit),
            ["lift"] => hard_limit.lift().map(|()| "ok".to_owned()),
            ["guard"] => Ok(guard
                .as_ref()
                .is_some_and(guard::Guard::is_alive)
                .to_string()),
            ["dismiss"] => {
                if let Some(guard) = guard.take() {
                    guard.dismiss();
                }
                Ok("ok".to_owned())
            }
            ["remove"] => hard_limit.remove().map(|gone| gone.to_string()),
            _ => Ok("what?".to_owned()),
        };
        println!("{}", done.unwrap_or_else(|error| format!("error: {error}")));
    }
    drop(program);
    Ok(())
}

fn reclaim(hard_limit: &HardLimit, bytes: &str, swappiness: Option<u8>) -> io::Result<String> {
    let begin = Instant::now();
    let fell = hard_limit.reclaim(bytes.parse().unwrap_or(0), swappiness)?;
    Ok(format!("fell {fell} ms {}", begin.elapsed().as_millis()))
}

/// Parses a number of bytes; no limit for any other word.
fn limit(text: &str) -> Limit {
    Limit::from(text.parse().ok().map(Bytes))
}

/// The inverse of [`limit`].
fn word(limit: Limit) -> String {
    let bytes = limit.bytes();
    bytes.map_or("none".to_owned(), |bytes| bytes.0.to_string())
}

fn get(hard_limit: &HardLimit) -> io::Result<String> {
    Ok(format!(
        "charged {} peak {} cache {} oom {} max {} pids {}",
        hard_limit.charged()?,
        hard_limit.peak()?,
        hard_limit.cache_unmapped()?,
        hard_limit.oom_kills()?,
        word(hard_limit.max()?),
        hard_limit.pids()?.len()
    ))
}

fn left(remove: Option<&str>) -> Result<(), Failure> {
    let proc = Proc::system().map_err(HardLimitError::from)?;
    for hard_limit in HardLimit::claim_all(&proc, own(&proc)?)? {
        let max = hard_limit.max().unwrap_or_default();
        let is_meant = remove.is_some_and(|path| hard_limit.group().dir == Path::new(path));
        let gone = is_meant && hard_limit.remove()?;
        let (dir, pids) = (
            hard_limit.group().dir.display(),
            hard_limit.pids().unwrap_or_default(),
        );
        println!(
            "left {dir} pids {} max {} gone {gone}",
            pids.len(),
            word(max)
        );
    }
    Ok(())
}
