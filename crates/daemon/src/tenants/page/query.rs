//! The parameters of the page, which its links contain.

use super::super::history::Range;
use crate::http;

/// The order in which tenants are listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::tenants) enum Sort {
    /// By name, as a tree.
    #[default]
    Name,
    Resident,
    Swapped,
    Cold,
    Back,
    Waited,
}

impl Sort {
    const ALL: [Sort; 6] = [
        Sort::Name,
        Sort::Resident,
        Sort::Swapped,
        Sort::Cold,
        Sort::Back,
        Sort::Waited,
    ];

    const fn name(self) -> &'static str {
        match self {
            Sort::Name => "name",
            Sort::Resident => "resident",
            Sort::Swapped => "swapped",
            Sort::Cold => "cold",
            Sort::Back => "back",
            Sort::Waited => "waited",
        }
    }
}

/// The parameters of the page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::tenants) struct Query {
    /// Name of the tenant that is shown over time.
    pub(in crate::tenants) tenant: String,
    pub(super) range: Range,
    pub(super) sort: Sort,
    /// Only tenants with this text in their names are listed.
    pub(super) find: String,
}

impl Query {
    /// Reads the parameters of a request; a missing or unknown one has its default.
    pub(in crate::tenants) fn of(query: &http::Query) -> Query {
        let known = |name: &str| query.get(name).unwrap_or_default();
        let range = Range::ALL
            .into_iter()
            .find(|one| one.name() == known("range"));
        let sort = Sort::ALL
            .into_iter()
            .find(|one| one.name() == known("sort"));
        Query {
            tenant: query
                .get("tenant")
                .filter(|name| !name.is_empty())
                .unwrap_or("/")
                .to_owned(),
            range: range.unwrap_or(Range::Hour),
            sort: sort.unwrap_or_default(),
            find: known("find").to_owned(),
        }
    }

    /// Returns the target of a link to this page with these parameters.
    pub(super) fn link(&self) -> String {
        let mut link = format!(
            "/?tenant={}&range={}",
            http::encoded(&self.tenant),
            self.range.name()
        );
        if self.sort != Sort::Name {
            link += &format!("&sort={}", self.sort.name());
        }
        if !self.find.is_empty() {
            link += &format!("&find={}", http::encoded(&self.find));
        }
        link
    }

    /// Returns names and values of all parameters except `find`, for a form that has a field for
    /// `find`.
    pub(super) fn hidden(&self) -> [(&'static str, &str); 3] {
        [
            ("tenant", &self.tenant),
            ("range", self.range.name()),
            ("sort", self.sort.name()),
        ]
    }
}
