//! What the commands call: run a program under management, attach to one, adopt, detach.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::Error;
pub use crate::kernel::Kernel;
use crate::options::Options;
use crate::record::Recorder;
use crate::report::Report;
use crate::supervisor::{Ended, Supervisor};
use crate::target::{Target, link};
use crate::vet;
use engine::Millis;

/// What the caller of [`attach`] wants next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tick {
    /// Go on.
    Continue,
    /// Give everything back and return.
    Detach,
}

/// Signals that are passed on to the program. (A terminal sends its own to the whole group.)
const PASSED_ON: [i32; 5] = [
    signal_hook::consts::SIGTERM,
    signal_hook::consts::SIGHUP,
    signal_hook::consts::SIGUSR1,
    signal_hook::consts::SIGUSR2,
    signal_hook::consts::SIGCONT,
];
/// Signals that the terminal sends to the program as well: only survived.
const SURVIVED: [i32; 2] = [signal_hook::consts::SIGINT, signal_hook::consts::SIGQUIT];

/// Starts a program under management and stays until it ends: the last report and the exit code
/// as a shell would give it.
///
/// # Errors
/// The program cannot be started, or the options contradict themselves.
pub fn run(
    command: &[OsString],
    options: &Options,
    tick: &mut dyn FnMut(&Report),
) -> Result<(Report, i32), Error> {
    run_recorded(command, options, None, Some(tick))
}

/// [`run`], noting what happens in `recorder`, which the caller ends.
///
/// # Errors
/// As [`run`].
pub fn run_recorded(
    command: &[OsString],
    options: &Options,
    recorder: Option<Recorder>,
    mut tick: Option<&mut dyn FnMut(&Report)>,
) -> Result<(Report, i32), Error> {
    options.check()?;
    let Some((program, args)) = command.split_first() else {
        return Err(Error::failed(
            "cannot run a program",
            "none is named",
            "pagetide run -- CMD",
        ));
    };
    host(&format!("cannot run {}", program.display()))?;
    let signals = Signals::catch(program)?;
    let mut child = Command::new(program).args(args).spawn().map_err(|e| {
        let what = format!("cannot run {}", program.display());
        Error::failed(what, e, "is it installed, executable, and on PATH?")
    })?;
    let pid = child.id().cast_signed();
    let (first, problem) = match start(pid, options, &mut child) {
        Ok(target) => (target, None),
        Err(e) => (None, Some(e)),
    };
    if let Some(problem) = problem {
        // Not silently unmanaged: a program that asked for limits does not run without them.
        let _ = child.kill();
        let _ = child.wait();
        return Err(problem);
    }
    let mut supervisor = Supervisor::new(pid, first, options)?;
    if let Some(recorder) = recorder {
        supervisor.record(recorder);
    }
    loop {
        signals.pass_on(pid);
        let status = child.try_wait().ok().flatten();
        if let Some(status) = status {
            let code = code_of(status);
            return Ok((supervisor.finish(Some(code)), code));
        }
        if supervisor.tick() == Some(Ended::Detach) {
            // Nobody manages it any more; its exit status is still ours to pass on.
            let report = supervisor.finish(None);
            let status = child
                .wait()
                .map_err(|e| Error::failed("waiting failed", e, "none"))?;
            return Ok((report, code_of(status)));
        }
        if let Some(tick) = &mut tick
            && supervisor.report_due()
        {
            tick(&supervisor.report());
        }
        supervisor.pause();
    }
}

/// What the host must offer to manage anything, looked at before anything is started.
fn host(what: &str) -> Result<(), Error> {
    let findings = vet::host::judge(&vet::host::Facts::gather(&Kernel));
    let missing = findings
        .into_iter()
        .find(|f| f.state == vet::host::State::Missing);
    let Some(missing) = missing else {
        return Ok(());
    };
    let why = format!("{}: {}", missing.topic, missing.detail);
    let hint = format!(
        "{}\n`pagetide doctor` shows everything that is missing",
        missing.remedy.unwrap_or_default()
    );
    Err(Error::missing(what, why, hint.trim_start()))
}

/// Puts a keeper beside the program just started; `None` if it ended at once.
fn start(pid: i32, options: &Options, child: &mut Child) -> Result<Option<Target>, Error> {
    let vetted = vet::target(pid.unsigned_abs(), &Kernel).map_err(Error::from);
    match vetted.and_then(|_| Target::start(pid, options, Millis(0))) {
        Ok(target) => Ok(Some(target)),
        Err(e) => {
            // A program that is just ending cannot be managed, and is no error of ours.
            for _ in 0..30 {
                if matches!(child.try_wait(), Ok(Some(_))) {
                    return Ok(None);
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            Err(e)
        }
    }
}

fn code_of(status: ExitStatus) -> i32 {
    status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Signals that arrived for us.
struct Signals {
    arrived: Vec<(i32, Arc<AtomicUsize>)>,
}

impl Signals {
    fn catch(program: &OsString) -> Result<Signals, Error> {
        let mut arrived = Vec::new();
        for signal in PASSED_ON.into_iter().chain(SURVIVED) {
            let flag = Arc::new(AtomicUsize::new(0));
            signal_hook::flag::register_usize(signal, Arc::clone(&flag), 1).map_err(|e| {
                Error::failed(format!("cannot run {}", program.display()), e, "none")
            })?;
            arrived.push((signal, flag));
        }
        Ok(Signals { arrived })
    }

    fn pass_on(&self, pid: i32) {
        for (signal, flag) in &self.arrived {
            if flag.swap(0, Ordering::Relaxed) == 1 && PASSED_ON.contains(signal) {
                // It may have ended just now; then there is nobody to tell.
                let _ = uffd::process::kill(pid, *signal);
            }
        }
    }
}

fn id(pid: u32) -> Result<i32, Error> {
    i32::try_from(pid)
        .map_err(|_| Error::failed(format!("no process {pid}"), "not a process id", "see ps"))
}

/// Manages a live process until it ends, is detached, or `tick` says [`Tick::Detach`].
///
/// # Errors
/// It cannot be managed; it is then untouched.
pub fn attach(
    pid: u32,
    options: &Options,
    tick: &mut dyn FnMut(&Report) -> Tick,
) -> Result<Report, Error> {
    options.check()?;
    vet::target(pid, &Kernel)?;
    host(&format!("cannot attach to process {pid}"))?;
    let pid = id(pid)?;
    if link::find_keeper(pid).is_some() {
        return Err(Error::failed(
            format!("cannot attach to process {pid}"),
            "it has a keeper whose manager died",
            format!("take it over with `pagetide adopt {pid}`"),
        ));
    }
    let target = Target::start(pid, options, Millis(0))?;
    supervise(pid, target, options, tick)
}

/// Takes over a target whose manager died, until it ends or is detached.
///
/// # Errors
/// No keeper serves it, or it has a manager.
pub fn adopt(
    pid: u32,
    options: &Options,
    tick: &mut dyn FnMut(&Report) -> Tick,
) -> Result<Report, Error> {
    options.check()?;
    let pid = id(pid)?;
    let target = Target::adopt(pid, options, Millis(0))?;
    supervise(pid, target, options, tick)
}

fn supervise(
    pid: i32,
    target: Target,
    options: &Options,
    tick: &mut dyn FnMut(&Report) -> Tick,
) -> Result<Report, Error> {
    let mut supervisor = Supervisor::new(pid, Some(target), options)?;
    loop {
        match supervisor.tick() {
            Some(Ended::Detach) => return Ok(supervisor.finish(None)),
            Some(Ended::Gone) => return Ok(supervisor.finish(None)),
            None => {}
        }
        if supervisor.report_due() && tick(&supervisor.report()) == Tick::Detach {
            return supervisor.release();
        }
        supervisor.pause();
    }
}

/// Gives everything back to a target that has a keeper but no manager.
///
/// # Errors
/// No keeper serves it; its pages cannot all be brought back (it is then still served).
pub fn detach(pid: u32) -> Result<(), Error> {
    Target::adopt(id(pid)?, &Options::default(), Millis(0))?.release()
}
