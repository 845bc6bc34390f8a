//! A target that is managed: its manager tells, because two who clear bits of one process know no ages.
//!
//! Invariant: the manager's reports are passed on as they are, but for notes: that they cover more than was asked, that
//! the manager no longer answers.

use std::thread::sleep;
use std::time::{Duration, Instant};

use daemon::control::{self, ControlError, Managed, Request, Response, Tenant, TenantAsk};
use host::report::Report;

use super::{Settings, Target, TenantName, Watching};
use crate::failure::Failure;

/// A manager answers between two looks.
const WITHIN: Duration = Duration::from_secs(20);
/// A manager that is busy, or a tree's that is started again, is waited for, since it answered last.
const AWAY_MAX: Duration = Duration::from_secs(120);
const AGAIN_EVERY: Duration = Duration::from_millis(500);
/// One that does not even say that it is there in this time is stopped, or another's.
const SOON: Duration = Duration::from_secs(3);

/// Asks a manager again and again.
pub(super) struct Asked {
    tenant: Tenant,
    request: Request,
    every: Duration,
    /// What every report says beside its own notes.
    note: Option<String>,
    /// What was asked when it was found, and has not been passed on.
    first: Option<Report>,
    last: Option<(Instant, Report)>,
    is_over: bool,
}

impl Asked {
    /// The manager of what is to be watched; none if there is none that answers us with a report, or if it was said how
    /// ages are to be read.
    pub(super) fn find(settings: &Settings) -> Option<Asked> {
        if settings.source.is_some() || settings.max_wait.is_some() {
            return None;
        }
        let wanted = match &settings.target {
            Target::Pid(pid) => Tenant::Pid(*pid),
            Target::Cgroup(path) => Tenant::Group(super::group(path).ok()?.path),
            Target::All | Target::Tenant(_) => return None,
        };
        let Managed { tenant, manager } = control::find_begun(&wanted).ok().flatten()?;
        // Whom it does not answer (another user's), or whom something answers that is no manager, looks with eyes of his own.
        let pong = control::ask(&tenant, &Request::Ping {}, SOON).ok()?;
        if !matches!(pong, Response::Pong(_)) {
            return None;
        }
        let note = (tenant != wanted).then(|| {
            format!("{wanted} is managed with {tenant} (manager {manager}): all that it manages is reported")
        });
        let mut asked = Asked {
            tenant,
            request: Request::Report {},
            every: settings.age_every,
            note,
            first: None,
            last: None,
            is_over: false,
        };
        match asked.ask() {
            Ok(report) => asked.first = Some(report),
            // It has ended, or let go, since it was found. One that is only slow is waited for: two who clear bits of one
            // process know no ages.
            Err(ControlError::Timeout { .. }) => {}
            Err(_) => return None,
        }
        Some(asked)
    }

    /// A tenant of `pagetide serve`.
    pub(super) fn of_tenant(name: &TenantName, every: Duration) -> Result<Asked, Failure> {
        let tenant = Tenant::Tree(name.root.clone());
        control::ask(&tenant, &Request::Ping {}, SOON)?;
        Ok(Asked {
            tenant,
            request: Request::Tenant {
                path: name.path.clone(),
                ask: TenantAsk::Report,
            },
            every,
            note: None,
            first: None,
            last: None,
            is_over: false,
        })
    }

    /// Whether an answer is worth waiting for: who is busy or stopped has not let go, and tenants outlive their `serve`, which is about to be started
    /// again. (The story: a log of a tenant ended, with success, when the service was restarted.)
    fn is_to_come(&self, error: &ControlError, since: Instant) -> bool {
        let is_soon = since.elapsed() < AWAY_MAX.max(self.every * 2);
        let may_return = matches!(self.tenant, Tenant::Tree(_));
        match error {
            ControlError::Timeout { .. } => is_soon,
            ControlError::NotManaged { .. }
            | ControlError::Ended { .. }
            | ControlError::Io { .. } => is_soon && may_return,
            _ => false,
        }
    }

    fn ask(&self) -> Result<Report, ControlError> {
        match control::ask(&self.tenant, &self.request, WITHIN)? {
            Response::Report(mut report) => {
                report.notes.extend(self.note.clone());
                Ok(*report)
            }
            _ => Err(ControlError::NotManaged {
                tenant: self.tenant.clone(),
            }),
        }
    }
}

impl Watching for Asked {
    fn next(&mut self) -> Result<Report, Failure> {
        if let Some((at, _)) = &self.last {
            sleep(self.every.saturating_sub(at.elapsed()));
        }
        let mut answer = self.first.take().map_or_else(|| self.ask(), Ok);
        let since = self.last.as_ref().map(|(at, _)| *at);
        while let (Err(error), Some(since)) = (&answer, since)
            && self.is_to_come(error, since)
        {
            sleep(AGAIN_EVERY);
            answer = self.ask();
        }
        let report = match (answer, self.last.take()) {
            (Ok(report), _) => report,
            // The program has ended, or was let go of: what was said last is the last.
            (Err(error), Some((_, mut report))) => {
                self.is_over = true;
                report
                    .notes
                    .push(format!("the manager no longer answers: {error}"));
                report
            }
            (Err(error), None) => return Err(error.into()),
        };
        self.last = Some((Instant::now(), report.clone()));
        Ok(report)
    }

    fn finished(&self) -> bool {
        self.is_over
    }

    fn has_watched(&self) -> bool {
        true
    }
}
