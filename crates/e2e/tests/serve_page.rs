//! The web page of `pagetide serve --listen`: what a browser shows, which history it keeps, and
//! what is refused.
#![forbid(unsafe_code)]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use e2e::guard::{Run, Running};
use e2e::idle_program::IdleProgram;
use e2e::past::{self, Past};
use e2e::temp::{TempDir, serial, target_dir};
use e2e::tenants::Tree;
use e2e::web::ListenAddress;
use e2e::{browser, pagetide, programs, wait};

const SOON: Duration = Duration::from_secs(60);

/// A `serve` with a web page: its tree, its address, and its history file.
struct ServedPage {
    tree: Tree,
    place: ListenAddress,
    history: String,
    /// The last field, so that the directory is removed after the others are dropped.
    _folder: TempDir,
}

/// Starts `serve` with a page. Before that, writes a history of tenants with these names, if any.
fn start_with_page(names: &[&str]) -> ServedPage {
    let folder = TempDir::new();
    let (token, history) = (folder.file("token"), folder.file("history"));
    if !names.is_empty() {
        let names: Vec<String> = names.iter().map(|name| format!("/{name}")).collect();
        past::write(history.as_ref(), &Past::some(&names, 3));
    }
    let options = [
        "--age-every",
        "500ms",
        "--listen",
        "127.0.0.1:0",
        "--token-file",
        &token,
        "--history",
        &history,
    ];
    let tree = Tree::serve(&options);
    let place = ListenAddress::tcp_of(&tree);
    wait::until("the first look is told", SOON, || {
        place.get("/").status == 200
    });
    ServedPage {
        tree,
        place,
        history,
        _folder: folder,
    }
}

/// Runs `tests/page/look.py` in a browser, with a light and a dark theme, wide and narrow, without
/// an error of the browser: keys, pointer, sorting, finding and refreshing work, the page requests
/// nothing from elsewhere, and nothing is wider than the screen.
#[test]
fn everything_on_the_page_works_in_a_browser() {
    let _serial = serial();
    let names = ["", "web", "web/a", "t1", "t2", "t11", "a<b>\"'&"];
    let shown = start_with_page(&names);
    for name in names.iter().filter(|name| !name.is_empty()) {
        shown.tree.make(name);
    }
    let used = start_in_use(&shown.tree, "web/a");
    let idle_programs: Vec<IdleProgram> = [("t1", 32), ("t2", 16)]
        .iter()
        .map(|(name, mib)| IdleProgram::start(shown.tree.inside(name), *mib))
        .collect();
    wait::until("they are seen", SOON, || {
        shown.place.get("/?tenant=/web").body.contains("<b>6")
    });
    check_curve(&shown, "/web");
    let pictures = target_dir().join("e2e/page");
    let seen = browser::open_dashboard(&shown.place, &pictures, "/web");
    let problems = seen["problems"].as_array().expect("a list");
    assert!(problems.is_empty(), "{problems:#?}");
    for name in ["light-wide", "dark-wide", "light-phone", "dark-phone"] {
        assert!(pictures.join(format!("{name}.png")).is_file(), "{name}");
    }
    drop((used, idle_programs));
}

/// Starts a program in a tenant that uses a tenth of its 64 MiB all the time, and the rest rarely.
fn start_in_use(tree: &Tree, name: &str) -> Running {
    let program = programs::c("paced");
    // The program ends with its standard input, so that stays open.
    let command = format!("exec {program} tail 64 20000 300 < <(exec sleep 300 2>/dev/null)");
    let words = ["bash".to_owned(), "-c".to_owned(), command];
    let running = Run::new(tree.inside(name).into_iter().chain(words)).start();
    wait::until("it has touched all of it", SOON, || {
        running.stdout().starts_with("ready")
    });
    running
}

/// Bytes in use, parsed from the page's text below its curve; `None` if the page has no curve.
fn bytes_in_use(page: &str) -> Option<f64> {
    let (_, rest) = page.split_once("<dd>sizes below ")?;
    let (words, _) = rest.split_once(", which is in use")?;
    let (number, unit) = words.split_once(' ')?;
    let scale = match unit {
        "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * scale)
}

/// Whether the two sizes are about the same: a scan may come between the page and the report.
fn is_about_the_same((bytes, reported): (u64, f64)) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "a size in a test")]
    let bytes = bytes as f64;
    (0.8..1.25).contains(&(reported / bytes))
}

/// Checks that the page has the same curve as `report --curve`. (The curve begins at the size that
/// is used between two scans.)
fn check_curve(shown: &ServedPage, tenant: &str) {
    wait::until("page and report tell one curve", SOON, || {
        let page = shown.place.get(&format!("/?tenant={tenant}")).body;
        let root = shown.tree.root();
        let words = ["report", "--root", root, "--curve", "--json", tenant];
        let report = pagetide::command(words).finish(SOON);
        let report: serde_json::Value = serde_json::from_str(&report.stdout).unwrap_or_default();
        let known = report["curve"]["known_from_bytes"].as_u64();
        let is_drawn = page.contains("<path class=\"curve\" d=\"M0 ");
        is_drawn
            && known
                .zip(bytes_in_use(&page))
                .is_some_and(is_about_the_same)
    });
}

/// Whether the page of a tenant has a heat map for this range of time.
fn has_heat_map(place: &ListenAddress, tenant: &str, range: &str) -> bool {
    let page = place.get(&format!("/?tenant={tenant}&range={range}")).body;
    let heat = page.split_once("Page age over time");
    heat.is_some_and(|(_, rest)| rest.contains("<path") || rest.contains("<rect"))
}

/// After `serve` has ended or was killed, the next `serve` has its history. A file that is no
/// history is renamed and reported, and `serve` starts all the same.
#[test]
fn history_outlives_restarts_and_bad_files() {
    let _serial = serial();
    let mut shown = start_with_page(&["", "web", "gone"]);
    shown.tree.make("web");
    assert!(
        has_heat_map(&shown.place, "/gone", "week"),
        "of a tenant that was there before"
    );
    assert!(
        shown
            .place
            .get("/?tenant=/gone")
            .body
            .contains("This tenant no longer exists.")
    );
    let page = shown.place.get("/?tenant=/nobody");
    assert_eq!(page.status, 404);
    assert!(page.body.contains("no such tenant"));

    let _ = shown.tree.end();
    let mode = std::fs::metadata(&shown.history)
        .expect("it is kept")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600, "others do not see it");
    let restart = |shown: &mut ServedPage| {
        shown.tree.start();
        shown.place = ListenAddress::tcp_of(&shown.tree);
        let place = &shown.place;
        wait::until("it is there again", SOON, || place.get("/").status == 200);
    };
    restart(&mut shown);
    assert!(has_heat_map(&shown.place, "/gone", "week"));
    assert!(!shown.tree.stdout().contains("cannot use"));
    shown.tree.kill();
    restart(&mut shown);
    assert!(has_heat_map(&shown.place, "/gone", "week"));

    shown.tree.kill();
    let whole = std::fs::read(&shown.history).expect("it is kept");
    std::fs::write(&shown.history, &whole[..whole.len() / 2]).expect("written");
    restart(&mut shown);
    let said = shown.tree.stdout();
    assert!(
        said.contains("cannot use the history") && said.contains("cut off"),
        "{said}"
    );
    assert!(
        !has_heat_map(&shown.place, "/gone", "week"),
        "it begins anew"
    );
    assert!(Path::new(&format!("{}.bad", shown.history)).exists());
    let _ = shown.tree.end();
    assert!(Path::new(&shown.history).exists(), "and goes on");
}

/// If the address contains the token, the page sets it as a cookie that scripts cannot read.
/// Without token and cookie the page is refused.
#[test]
fn a_token_in_the_address_becomes_a_cookie() {
    let _serial = serial();
    let shown = start_with_page(&[]);
    let (place, token) = (&shown.place, shown.place.token());
    let host = format!("Host: {}\r\n", place.address());
    let without = place.send(format!("GET / HTTP/1.1\r\n{host}\r\n").as_bytes());
    assert_eq!(without.status, 401);
    let given =
        place.send(format!("GET /?token={token}&range=day HTTP/1.1\r\n{host}\r\n").as_bytes());
    assert_eq!(given.status, 303, "{given:?}");
    assert!(
        given.headers.contains("\r\nLocation: /?range=day\r\n"),
        "{}",
        given.headers
    );
    assert!(!given.headers.contains(&token), "{}", given.headers);
    let cookie = given
        .headers
        .split("\r\nSet-Cookie: ")
        .nth(1)
        .and_then(|rest| rest.split("\r\n").next());
    let cookie = cookie.expect("a cookie");
    for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let pair = cookie.split(';').next().unwrap_or_default();
    let page = place.send(format!("GET / HTTP/1.1\r\n{host}Cookie: {pair}\r\n\r\n").as_bytes());
    assert_eq!(page.status, 200);
    let policy = page
        .headers
        .split("\r\nContent-Security-Policy: ")
        .nth(1)
        .unwrap_or_default();
    let policy = policy.split("\r\n").next().unwrap_or_default();
    for part in [
        "default-src 'none'",
        "script-src 'nonce-",
        "style-src 'nonce-",
        "frame-ancestors 'none'",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(
        !policy.contains("unsafe") && !policy.contains('*'),
        "{policy}"
    );
    let again = place.send(format!("GET / HTTP/1.1\r\n{host}Cookie: {pair}\r\n\r\n").as_bytes());
    let nonce = |page: &str| {
        page.split("nonce=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next())
            .map(str::to_owned)
    };
    assert!(
        nonce(&page.body).is_some() && nonce(&page.body) != nonce(&again.body),
        "a new one each time"
    );
    let head = place.send(place.request_text("HEAD", "/").as_bytes());
    assert_eq!((head.status, head.body.as_str()), (200, ""));
}
