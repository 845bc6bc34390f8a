//! A wall by hand: `wall manage CMD [ARG]...` makes one, starts its guard and CMD in it, and obeys lines on
//! standard input; `wall left [PATH]` takes up what dead managers left and removes the one at PATH. Used by the tests, on both
//! versions.
//!
//! Lines: `max|high|swap BYTES|none`, `reclaim BYTES [SWAPPINESS]`, `get`, `lift`, `dismiss`, `guard`,
//! `remove`. Each is answered by one line; `error: ...` if it failed.
#![forbid(unsafe_code)]

use std::io::{self, BufRead, Write};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Instant;

use host::system::Proc;
use host::wall::{Wall, WallError, guard};

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
            eprintln!("usage: wall manage CMD [ARG]... | wall left [PATH]");
            return 2.into();
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Wall(error)) => {
            eprintln!("wall: {error}\n  {}", error.hint());
            3.into()
        }
        Err(Failure::Io(error)) => {
            eprintln!("wall: {error}");
            1.into()
        }
    }
}

enum Failure {
    Wall(WallError),
    Io(io::Error),
}

impl From<WallError> for Failure {
    fn from(error: WallError) -> Failure {
        Failure::Wall(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Io(error)
    }
}

fn own(proc: &Proc) -> Result<host::system::Identity, WallError> {
    let pid = std::process::id();
    let gone = host::system::Error::NoProcess { pid };
    Ok(proc.identity(pid)?.ok_or(gone)?)
}

/// CMD, which waits in a shell until it is in the wall.
struct Program(Child);

impl Program {
    fn start(command: &[&str], wall: &Wall) -> io::Result<Program> {
        let wait = "read go && exec \"$@\"";
        let child = Command::new("sh")
            .args(["-c", wait, "sh"])
            .args(command)
            .stdin(Stdio::piped())
            .spawn()?;
        let mut program = Program(child);
        wall.enter(program.0.id())?;
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
    let proc = Proc::system().map_err(WallError::from)?;
    let wall = Wall::make(&proc, own(&proc)?, &[])?;
    let done = obey(command, &wall);
    wall.remove()?;
    done.map_err(Failure::Io)
}

fn obey(command: &[&str], wall: &Wall) -> io::Result<()> {
    let mut guard = Some(guard::start(wall, Path::new("/proc/self/exe"))?);
    let program = Program::start(command, wall)?;
    println!(
        "wall {} guard {} pid {}",
        wall.group().dir.display(),
        guard.as_ref().map_or(0, guard::Guard::pid),
        program.0.id()
    );
    for line in io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        let done = match &words[..] {
            ["max", bytes] => wall.set_max(bytes.parse().ok()).map(|()| "ok".to_owned()),
            ["high", bytes] => wall.set_high(bytes.parse().ok()).map(|()| "ok".to_owned()),
            ["swap", bytes] => wall
                .set_swap_max(bytes.parse().ok())
                .map(|()| "ok".to_owned()),
            ["reclaim", bytes] => reclaim(wall, bytes, None),
            ["reclaim", bytes, swappiness] => reclaim(wall, bytes, swappiness.parse().ok()),
            ["get"] => get(wall),
            ["lift"] => wall.lift().map(|()| "ok".to_owned()),
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
            ["remove"] => wall.remove().map(|gone| gone.to_string()),
            _ => Ok("what?".to_owned()),
        };
        println!("{}", done.unwrap_or_else(|error| format!("error: {error}")));
    }
    drop(program);
    Ok(())
}

fn reclaim(wall: &Wall, bytes: &str, swappiness: Option<u8>) -> io::Result<String> {
    let begin = Instant::now();
    let fell = wall.reclaim(bytes.parse().unwrap_or(0), swappiness)?;
    Ok(format!("fell {fell} ms {}", begin.elapsed().as_millis()))
}

fn get(wall: &Wall) -> io::Result<String> {
    let word = |limit: Option<u64>| limit.map_or("none".to_owned(), |bytes| bytes.to_string());
    Ok(format!(
        "charged {} peak {} cache {} oom {} max {} pids {}",
        wall.charged()?,
        wall.peak()?,
        wall.cache_unmapped()?,
        wall.oom_kills()?,
        word(wall.max()?),
        wall.pids()?.len()
    ))
}

fn left(remove: Option<&str>) -> Result<(), Failure> {
    let proc = Proc::system().map_err(WallError::from)?;
    for wall in Wall::left_behind(&proc, own(&proc)?)? {
        let max = wall.max().ok().flatten();
        let is_meant = remove.is_some_and(|path| wall.group().dir == Path::new(path));
        let gone = is_meant && wall.remove()?;
        let (dir, pids) = (wall.group().dir.display(), wall.pids().unwrap_or_default());
        println!(
            "left {dir} pids {} max {} gone {gone}",
            pids.len(),
            max.map_or("none".to_owned(), |bytes| bytes.to_string())
        );
    }
    Ok(())
}
