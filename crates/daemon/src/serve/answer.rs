//! Responses to requests at the control socket.
//!
//! Invariant: a request that cannot be done gets a response that says why; the manager goes on all
//! the same.

use host::manage::Manager;

use crate::control::{Answer, Done, Pong, Request, Response};
use crate::error::Error;

use super::RunningManager;

impl RunningManager {
    /// Serves the requests that have arrived.
    pub(super) fn answer(&mut self) {
        let RunningManager {
            manager,
            server,
            shares,
            options,
            detached,
            ..
        } = self;
        server.poll_later(&mut |request| {
            let answer = match request {
                Request::Detach { bring_back } => match detach(manager, bring_back) {
                    Ok(response) => {
                        detached.push(response);
                        return Answer::Later(detached.len() as u64);
                    }
                    Err(error) => Err(error),
                },
                Request::Limits { set: Some(limits) } => {
                    let mut other = options.clone();
                    other.limits = *limits;
                    other.check().map_err(Error::from).map(|()| {
                        *shares = shares.with(*limits);
                        manager.set_limits(shares.now());
                        Response::Limits(limits)
                    })
                }
                Request::Limits { set: None } => Ok(Response::Limits(Box::new(shares.limits()))),
                other => simple(manager, &other),
            };
            Answer::Now(answer.unwrap_or_else(Response::Error))
        });
    }
}

fn detach(manager: &mut Manager, bring_back: bool) -> Result<Response, Error> {
    let pages = match bring_back {
        true => manager.bring_back()?,
        false => 0,
    };
    Ok(Response::Detached { pages })
}

/// Serves a request that at most moves pages, and changes no setting.
fn simple(manager: &mut Manager, request: &Request) -> Result<Response, Error> {
    Ok(match request {
        Request::Report {} => {
            let mut report = manager.report();
            report.set_curve(manager.curve());
            Response::Report(Box::new(report))
        }
        Request::Stat {} => {
            let named = |(name, count): (&str, u64)| (name.to_owned(), count);
            Response::Stat(manager.stat()?.into_iter().map(named).collect())
        }
        Request::Reclaim { what } => Response::Reclaimed(Done::from(manager.reclaim(*what)?)),
        Request::Manages { pid } => Response::Manages(manager.manages(*pid)?),
        Request::Tenant { path, .. } => {
            let what = format!("there is no tenant {path}: one target is managed here");
            return Err(Error::failed(
                what,
                "send it to `pagetide serve`: only that has tenants",
            ));
        }
        Request::Ping {} | Request::Detach { .. } | Request::Limits { .. } => {
            Response::Pong(Pong {
                manager: std::process::id(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
            })
        }
    })
}
