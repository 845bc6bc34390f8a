//! Watches a target through its manager. If two processes cleared accessed bits of the same
//! process, neither would know its ages.
//!
//! Invariant: the manager's reports are passed on unchanged, except for two notes: that a report
//! covers more than the target, and that the manager has stopped responding.

use std::thread::sleep;
use std::time::{Duration, Instant};

use daemon::control::{self, ControlError, Managed, Request, Response, Tenant, TenantAsk};
use host::report::Report;

use super::{Target, TenantName, WatchRequest, Watching};
use crate::failure::Failure;

/// Timeout of a request: a manager responds between two scans.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum time since the last response for which a busy manager, or a restarting `serve`, is
/// waited for.
const SILENCE_MAX: Duration = Duration::from_secs(120);
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// Timeout of a ping. A manager that does not respond within it is stopped, or belongs to another
/// user.
const PING_TIMEOUT: Duration = Duration::from_secs(3);

/// Requests reports from a manager repeatedly.
pub(super) struct ManagedWatch {
    tenant: Tenant,
    request: Request,
    every: Duration,
    /// A note that is added to every report.
    note: Option<String>,
    /// The report that was requested when the manager was found; `None` after it was passed on.
    first: Option<Report>,
    last: Option<(Instant, Report)>,
    is_over: bool,
}

impl ManagedWatch {
    /// Finds the manager of the target. `None` if no manager responds with a report, or if the
    /// settings require another way of reading ages.
    pub(super) fn find(settings: &WatchRequest) -> Option<ManagedWatch> {
        if settings.source.is_some() || settings.max_wait.is_some() {
            return None;
        }
        let wanted = match &settings.target {
            Target::Pid(pid) => Tenant::Pid(*pid),
            Target::Cgroup(path) => Tenant::Group(super::group(path).ok()?.path),
            Target::All | Target::Tenant(_) => return None,
        };
        let Managed { tenant, manager } = control::find_begun(&wanted).ok().flatten()?;
        // If the manager belongs to another user and does not respond, or if something else
        // responds, this process scans the target itself.
        let pong = control::ask(&tenant, &Request::Ping {}, PING_TIMEOUT).ok()?;
        if !matches!(pong, Response::Pong(_)) {
            return None;
        }
        let note = (tenant != wanted).then(|| {
            format!("{wanted} is managed with {tenant} (manager {manager}): all that it manages is reported")
        });
        let mut requested = ManagedWatch {
            tenant,
            request: Request::Report {},
            every: settings.age_every,
            note,
            first: None,
            last: None,
            is_over: false,
        };
        match requested.ask() {
            Ok(report) => requested.first = Some(report),
            // The manager has ended or detached since it was found. In contrast, a slow manager is
            // waited for: if this process cleared bits as well, neither would know the ages.
            Err(ControlError::Timeout { .. }) => {}
            Err(_) => return None,
        }
        Some(requested)
    }

    /// Watches a tenant of `pagetide serve`.
    pub(super) fn of_tenant(name: &TenantName, every: Duration) -> Result<ManagedWatch, Failure> {
        let tenant = Tenant::Tree(name.root.clone());
        control::ask(&tenant, &Request::Ping {}, PING_TIMEOUT)?;
        Ok(ManagedWatch {
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

    /// Returns whether a response can still be expected. A busy or stopped manager has not
    /// detached. Tenants outlive their `serve`, which may be restarting.
    fn is_to_come(&self, error: &ControlError, since: Instant) -> bool {
        let is_soon = since.elapsed() < SILENCE_MAX.max(self.every * 2);
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
        match control::ask(&self.tenant, &self.request, REQUEST_TIMEOUT)? {
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

impl Watching for ManagedWatch {
    fn next(&mut self) -> Result<Report, Failure> {
        if let Some((at, _)) = &self.last {
            sleep(self.every.saturating_sub(at.elapsed()));
        }
        let mut answer = self.first.take().map_or_else(|| self.ask(), Ok);
        let since = self.last.as_ref().map(|(at, _)| *at);
        while let (Err(error), Some(since)) = (&answer, since)
            && self.is_to_come(error, since)
        {
            sleep(RETRY_INTERVAL);
            answer = self.ask();
        }
        let report = match (answer, self.last.take()) {
            (Ok(report), _) => report,
            // The program has ended, or the manager has detached: the last report is the result.
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
