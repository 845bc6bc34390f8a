//! Tests with real processes: shells in control groups of their own that fork, daemonize, exec and
//! end.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::*;
use crate::system::testing::OwnGroup;

/// A shell that runs commands for the test. All processes that it starts stay in its control group,
/// and are killed with it.
struct Shell {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    group: OwnGroup,
}

impl Shell {
    /// `front`: a command before the shell; with `setsid` the shell is in a session of its own.
    fn start(name: &str, front: &str) -> Shell {
        let group = OwnGroup::new(name);
        let script = format!(
            "echo $$ > {}/cgroup.procs; exec {front} sh",
            group.dir.display()
        );
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut shell = Shell {
            child,
            input,
            output,
            group,
        };
        shell.run("true");
        shell
    }

    /// Runs a command; returns the last pid that it printed, if any.
    fn run(&mut self, command: &str) -> Option<u32> {
        // One write, because a shell that execs loses what it has read ahead.
        self.input
            .write_all(format!("{command}\necho done\n").as_bytes())
            .expect("the shell reads");
        let mut pid = None;
        loop {
            let mut line = String::new();
            assert!(
                self.output.read_line(&mut line).expect("a line") > 0,
                "the shell ended"
            );
            if line == "done\n" {
                return pid;
            }
            pid = line.trim().parse().ok();
        }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn family(&self, target: Target) -> Family {
        let _ = &self.group;
        let proc = Proc::system().unwrap();
        let groups = Groups::find(&proc).unwrap();
        Family::new(proc, Some(groups), target).unwrap()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// Returns the pids of all members, in ascending order.
fn pids(family: &Family) -> Vec<u32> {
    let mut pids: Vec<u32> = family.members().map(|member| member.identity.pid).collect();
    pids.sort_unstable();
    pids
}

fn sorted<const N: usize>(mut pids: [u32; N]) -> Vec<u32> {
    pids.sort_unstable();
    pids.to_vec()
}

#[test]
fn events_follow_daemons() {
    let mut shell = Shell::start("events", "");
    let mut events = Events::open().unwrap();
    let mut family = shell.family(Target::Descendants(shell.pid()));
    family.update(Some(&mut events), None).unwrap();
    assert_eq!(pids(&family), [shell.pid()]);
    // The parents of these processes end at once. The last one has a new session, too.
    let orphan = shell.run("(sleep 50 > /dev/null & echo $!)").unwrap();
    let session = shell
        .run("(setsid sleep 50 > /dev/null & echo $!)")
        .unwrap();
    let double = shell
        .run("(setsid sh -c 'sleep 50 > /dev/null & echo $!')")
        .unwrap();
    let changes = family.update(Some(&mut events), None).unwrap();
    assert!(!changes.lost && changes.gone.is_empty());
    assert_eq!(
        pids(&family),
        sorted([shell.pid(), orphan, session, double])
    );
    assert_eq!(changes.new.len(), 3);
    // Three subshells ended; one of them may have become `setsid sh` itself.
    let ended = family.ended();
    assert!(
        ended.by_events && ended.unseen == ended.processes && ended.unseen >= 3,
        "{ended:?}"
    );
    assert_eq!(family.maybe_missed(), 0);

    // Short-lived processes are counted exactly, and their statuses are reported.
    shell.run("for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; done");
    kill(orphan);
    let before = family.ended();
    let gone_at = std::time::Instant::now() + std::time::Duration::from_secs(5);
    let mut gone = Vec::new();
    while gone.is_empty() && std::time::Instant::now() < gone_at {
        gone.extend(family.update(Some(&mut events), None).unwrap().gone);
    }
    assert_eq!((gone.len(), gone[0].identity.pid), (1, orphan));
    assert_eq!(gone[0].how, Departure::Ended { status: Some(9) });
    assert_eq!(family.ended().unseen - before.unseen, 10);
}

#[test]
fn execs_are_reported() {
    for with_events in [true, false] {
        let mut shell = Shell::start("execs", "");
        let mut events = with_events.then(|| Events::open().unwrap());
        let mut family = shell.family(Target::Descendants(shell.pid()));
        family.update(events.as_mut(), None).unwrap();
        let identity = family.member(shell.pid()).unwrap().identity;
        assert!(
            family
                .update(events.as_mut(), None)
                .unwrap()
                .execs
                .is_empty()
        );
        shell.run("exec sh -c 'echo done; read x'");
        assert_eq!(
            family.update(events.as_mut(), None).unwrap().execs,
            [identity]
        );
        assert!(
            family
                .update(events.as_mut(), None)
                .unwrap()
                .execs
                .is_empty(),
            "once"
        );
    }
}

#[test]
fn updates_find_orphans_of_an_own_session() {
    let mut shell = Shell::start("session", "setsid");
    let mut family = shell.family(Target::Descendants(shell.pid()));
    let changes = family.update(None, None).unwrap();
    assert_eq!((changes.new.len(), pids(&family)), (1, vec![shell.pid()]));
    let orphan = shell.run("(sleep 50 > /dev/null & echo $!)").unwrap();
    family.update(None, None).unwrap();
    assert_eq!(pids(&family), sorted([shell.pid(), orphan]));
    // A member stays a member even if its session no longer proves its descent.
    kill(shell.pid());
    shell.child.wait().unwrap();
    let changes = family.update(None, None).unwrap();
    assert_eq!((changes.gone.len(), pids(&family)), (1, vec![orphan]));
    assert_eq!(changes.gone[0].how, Departure::Ended { status: None });
    assert_eq!(
        (family.ended().processes, family.ended().by_events),
        (1, false)
    );
}

#[test]
fn updates_find_orphans_in_an_own_control_group() {
    let mut shell = Shell::start("home", "");
    let mut family = shell.family(Target::Descendants(shell.pid()));
    family.update(None, None).unwrap();
    // The process is in a new session, and no update has seen the process that began it: only the
    // control group proves the descent.
    let double = shell
        .run("(setsid sh -c 'sleep 50 > /dev/null & echo $!')")
        .unwrap();
    family.update(None, None).unwrap();
    assert_eq!(pids(&family), sorted([shell.pid(), double]));
    assert_eq!(family.maybe_missed(), 0);
    // A process of another family in the group means that the group proves nothing.
    let stranger = Shell::start("stranger", "");
    family.update(None, None).unwrap();
    std::fs::write(
        shell.group.dir.join("cgroup.procs"),
        stranger.pid().to_string(),
    )
    .unwrap();
    family.update(None, None).unwrap();
    shell
        .run("(setsid sh -c 'sleep 50 > /dev/null & echo $!')")
        .unwrap();
    family.update(None, None).unwrap();
    assert_eq!(pids(&family), sorted([shell.pid(), double]));
    assert_eq!(family.maybe_missed(), 1);
    family.update(None, None).unwrap();
    assert_eq!(family.maybe_missed(), 1, "once");
}

#[test]
fn processes_moved_out_of_a_group_are_gone() {
    for with_events in [true, false] {
        let mut shell = Shell::start("group", "");
        let proc = Proc::system().unwrap();
        let group = Groups::find(&proc).unwrap();
        let group = group.resolve(shell.group.dir.to_str().unwrap()).unwrap();
        let mut events = with_events.then(|| Events::open().unwrap());
        let mut family = shell.family(Target::Group(group));
        family.update(events.as_mut(), None).unwrap();
        let child = shell.run("sleep 50 > /dev/null & echo $!").unwrap();
        shell.run("/bin/true");
        assert_eq!(
            family.update(events.as_mut(), None).unwrap().new[0]
                .identity
                .pid,
            child
        );
        assert_eq!(pids(&family), sorted([shell.pid(), child]));
        assert_eq!(family.ended().unseen, u64::from(with_events));
        let other = OwnGroup::new("other");
        std::fs::write(other.dir.join("cgroup.procs"), child.to_string()).unwrap();
        let changes = family.update(events.as_mut(), None).unwrap();
        assert_eq!(
            (changes.gone.len(), changes.gone[0].how),
            (1, Departure::Moved)
        );
        assert_eq!(pids(&family), [shell.pid()]);
        assert_eq!(family.ended().processes, u64::from(with_events));
    }
}

/// The listing of a group may be older than the events: a listed process may have ended, and a new
/// process may not be listed.
#[test]
fn a_listing_may_be_older_than_its_events() {
    let mut shell = Shell::start("listed", "");
    let proc = Proc::system().unwrap();
    let group = Groups::find(&proc).unwrap();
    let group = group.resolve(shell.group.dir.to_str().unwrap()).unwrap();
    let mut events = Events::open().unwrap();
    let mut family = shell.family(Target::Group(group));
    family.update(Some(&mut events), None).unwrap();
    let ended = shell.run("sleep 50 > /dev/null & echo $!").unwrap();
    let mut update = |family: &mut Family, listed: &[u32]| {
        let listed = Some(listed.to_vec());
        let changes = family.update(Some(&mut events), listed).unwrap();
        changes.new.len()
    };
    assert_eq!(update(&mut family, &[shell.pid(), ended]), 1);
    let child = shell.run("sleep 50 > /dev/null & echo $!").unwrap();
    shell.run(&format!("kill -9 {ended}; wait {ended}; true"));
    assert_eq!(update(&mut family, &[shell.pid(), ended]), 0);
    assert_eq!(pids(&family), [shell.pid()]);
    assert_eq!(update(&mut family, &[shell.pid(), child]), 1);
    assert_eq!(pids(&family), sorted([shell.pid(), child]));
    // A process that was moved in from another group, without an event.
    let mut guest = Command::new("sleep").arg("50").spawn().unwrap();
    let procs = shell.group.dir.join("cgroup.procs");
    std::fs::write(procs, guest.id().to_string()).unwrap();
    let all = [shell.pid(), child, guest.id()];
    assert_eq!(update(&mut family, &all), 1);
    assert_eq!(pids(&family), sorted(all));
    assert_eq!(family.ended().processes, 1);
    guest.kill().unwrap();
    guest.wait().unwrap();
}

#[test]
fn the_target_all_excludes_ourselves_and_the_kernel() {
    let mut shell = Shell::start("all", "");
    let mut events = Events::open().unwrap();
    let mut family = shell.family(Target::All);
    let before = family.update(Some(&mut events), None).unwrap();
    assert!(
        before
            .new
            .iter()
            .any(|member| member.identity.pid == shell.pid())
    );
    assert!(family.member(std::process::id()).is_none() && family.member(2).is_none());
    let child = shell.run("sleep 50 > /dev/null & echo $!").unwrap();
    let changes = family.update(Some(&mut events), None).unwrap();
    assert!(
        changes
            .new
            .iter()
            .any(|member| member.identity.pid == child)
    );
    family.note_peak(shell.pid(), 77);
    kill(shell.pid());
    shell.child.wait().unwrap();
    let changes = family.update(Some(&mut events), None).unwrap();
    assert!(
        changes
            .gone
            .iter()
            .any(|gone| gone.identity.pid == shell.pid())
    );
    assert!(family.ended().peak_resident >= 77);
}

#[test]
fn a_process_whose_first_thread_ended_is_a_member() {
    let mut events = Events::open().unwrap();
    let script = "import threading,os,ctypes,sys,time\n\
        threading.Thread(target=lambda:(sys.stdin.readline(),os._exit(0))).start()\n\
        print('x',flush=True)\n\
        ctypes.CDLL(None).syscall(60,0)\n";
    let mut child = Command::new("/usr/bin/python3")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut family = Family::new(
        Proc::system().unwrap(),
        None,
        Target::Descendants(child.id()),
    )
    .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    family.update(Some(&mut events), None).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert!(
        family
            .update(Some(&mut events), None)
            .unwrap()
            .gone
            .is_empty()
    );
    assert_eq!(pids(&family), [child.id()]);
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_eq!(
        family.update(Some(&mut events), None).unwrap().gone.len(),
        1
    );
}

#[test]
fn children_of_excluded_processes_are_members() {
    for with_events in [true, false] {
        let mut events = with_events.then(|| Events::open().unwrap());
        let proc = Proc::system().unwrap();
        let target = Target::Descendants(std::process::id());
        let mut family = Family::new(proc, None, target).unwrap();
        family.update(events.as_mut(), None).unwrap();
        let mut shell = Shell::start("left", "");
        let child = shell.run("sleep 50 > /dev/null & echo $!").unwrap();
        family.update(events.as_mut(), None).unwrap();
        assert!(family.member(shell.pid()).is_some() && family.member(child).is_some());
        assert!(family.member(std::process::id()).is_none());
    }
}

#[test]
fn no_process_is_an_error_with_a_hint() {
    let error = Family::new(
        Proc::system().unwrap(),
        None,
        Target::Descendants(4_194_304),
    );
    assert!(!error.unwrap_err().hint().is_empty());
}
