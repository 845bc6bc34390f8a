//! Watches a target through its manager: if two processes clear accessed bits of one process,
//! neither knows its ages.
//!
//! Invariant: the manager's reports are passed on unchanged, except for two notes: that a report
//! covers more than the target, and that the manager does not respond any more.

use std::thread::sleep;
use std::time::{Duration, Instant};

use daemon::control::{self, ControlError, Managed, Request, Response, Tenant, TenantAsk};
use host::report::Report;

use super::{Target, TenantName, WatchRequest, Watching};
use crate::failure::Failure;

/// Timeout of a request: a manager responds between two scans.
const WITHIN: Duration = Duration::from_secs(20);
/// Longest wait since the last response for a manager that is busy, or for a `serve` that restarts.
const AWAY_MAX: Duration = Duration::from_secs(120);
const AGAIN_EVERY: Duration = Duration::from_millis(500);
/// Timeout of a ping. A manager that does not respond in this time is stopped, or another user's.
const SOON: Duration = Duration::from_secs(3);

/// Requests reports from a manager again and again.
pub(super) struct ManagedWatch {
    tenant: Tenant,
    request: Request,
    every: Duration,
    /// A note that is added to every report.
    note: Option<String>,
    /// The report that was requested when the manager was found, until it is passed on.
    first: Option<Report>,
    last: Option<(Instant, Report)>,
    is_over: bool,
}

impl ManagedWatch {
    /// Finds the manager of the target. `None` if no manager responds with a report, or if the
    /// settings choose how ages are read.
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
        // If the manager is another user's and does not respond, or what responds is no manager,
        // this process scans the target itself.
        let pong = control::ask(&tenant, &Request::Ping {}, SOON).ok()?;
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
            // The manager has ended or detached since it was found. A slow manager is waited for
            // instead: if two processes clear accessed bits of one process, neither knows its ages.
            Err(ControlError::Timeout { .. }) => {}
            Err(_) => return None,
        }
        Some(requested)
    }

    /// Watches a tenant of `pagetide serve`.
    pub(super) fn of_tenant(name: &TenantName, every: Duration) -> Result<ManagedWatch, Failure> {
        let tenant = Tenant::Tree(name.root.clone());
        control::ask(&tenant, &Request::Ping {}, SOON)?;
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

    /// Returns whether a response is worth waiting for. A busy or stopped manager has not detached;
    /// and tenants outlive their `serve`, which may be restarting.
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
            sleep(AGAIN_EVERY);
            answer = self.ask();
        }
        let report = match (answer, self.last.take()) {
            (Ok(report), _) => report,
            // The program has ended, or the manager has detached: the last report stands.
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
