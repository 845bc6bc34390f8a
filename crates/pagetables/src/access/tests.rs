use super::*;

fn proc() -> std::fs::File {
    std::fs::File::open("/proc").expect("/proc is mounted")
}

#[test]
fn files_of_a_process_are_read_whole() {
    let us = std::process::id();
    let mut text = Vec::new();
    read(proc().as_fd(), (us, "cmdline"), usize::MAX, &mut text).expect("our own");
    assert_eq!(Some(text), std::fs::read("/proc/self/cmdline").ok());
    let mut smaps = Vec::new();
    read_system((us, "smaps"), &mut smaps).expect("our own");
    assert!(smaps.ends_with(b"\n") && smaps.windows(8).any(|part| part == b"VmFlags:"));
}

/// A file that is longer than a worker's memory is read in several pieces.
#[test]
fn long_files_are_read_in_pieces() {
    // Each change of protection makes one more mapping: about 3,000, whose smaps has more than 1
    // MiB.
    let script = "
import ctypes, mmap, sys
area = mmap.mmap(-1, 6000 * 4096)
at = ctypes.addressof(ctypes.c_char.from_buffer(area))
for page in range(0, 6000, 2):
    ctypes.CDLL(None).mprotect(ctypes.c_void_p(at + page * 4096), 4096, 1)
print(flush=True)
sys.stdin.read()
";
    let mut child = crate::testing::Program::python(script);
    child.line().expect("it is ready");
    let (mut pieces, mut lines) = (0, 0);
    let done = read_pieces(proc().as_fd(), (child.id(), "smaps"), &mut |piece| {
        pieces += 1;
        lines += piece.iter().filter(|byte| **byte == b'\n').count();
        true
    });
    let expected = std::fs::read(format!("/proc/{}/smaps", child.id()));
    let expected = expected.expect("it is there");
    child.end();
    done.expect("it can be read");
    assert!(pieces > 3, "{pieces}");
    assert_eq!(
        lines,
        expected.iter().filter(|byte| **byte == b'\n').count()
    );
}

#[test]
fn reading_stops_at_the_limit() {
    let mut text = b"before".to_vec();
    read(
        proc().as_fd(),
        (std::process::id(), "smaps"),
        100,
        &mut text,
    )
    .expect("our own");
    assert!(text.starts_with(b"before") && text.len() >= 106);
}

#[test]
fn a_process_that_is_gone_is_an_error() {
    let error = open(4_194_305, "pagemap").expect_err("there is none");
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    let error = write((4_194_305, "clear_refs"), b"1", Duration::ZERO).expect_err("there is none");
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert!(!is_locked(&error) && is_locked(&locked_error()));
}

#[test]
fn an_opened_file_can_be_read() {
    let file = std::fs::File::from(open(std::process::id(), "pagemap").expect("our own"));
    let mut word = [0; 8];
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut word, 0).expect("a word of our pagemap");
}

#[test]
fn bits_are_cleared_by_a_worker() {
    let took = write(
        (std::process::id(), "clear_refs"),
        b"2",
        Duration::from_millis(10),
    );
    assert!(took.expect("our own") > Duration::ZERO);
}

#[test]
fn advice_reaches_the_kernel() {
    let pid = std::process::id();
    let number = i32::try_from(pid).expect("a process id");
    // SAFETY: no memory is handed over.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, number, 0) };
    let fd = i32::try_from(fd).expect("a descriptor");
    assert!(fd >= 0, "{}", io::Error::last_os_error());
    // SAFETY: the kernel just made this descriptor for us.
    let pidfd = unsafe { std::os::fd::FromRawFd::from_raw_fd(fd) };
    let memory = vec![1u8; 64 << 12];
    let start = (memory.as_ptr().addr() as u64).next_multiple_of(4096);
    let ranges = [start..start + 4096, start + 8192..start + 16384];
    for keeps_files in [false, true] {
        let done = advise((pid, &pidfd), &ranges, Advice::Cold, keeps_files);
        assert_eq!(done.expect("our own memory"), 12288);
    }
    let unmapped = std::slice::from_ref(&(4096..8192));
    let error = advise((pid, &pidfd), unmapped, Advice::Cold, false).expect_err("nothing there");
    assert_eq!(error.raw_os_error(), Some(libc::ENOMEM));
    assert!(memory.iter().all(|byte| *byte == 1));
}

/// If many threads read files at once, each thread gets the file that it requested.
#[test]
fn each_thread_gets_its_own_result() {
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for pid in [1, std::process::id(), 2] {
                    let mut text = Vec::new();
                    read(proc().as_fd(), (pid, "stat"), usize::MAX, &mut text)
                        .expect("it is there");
                    assert!(text.starts_with(format!("{pid} ").as_bytes()));
                }
            });
        }
    });
}

/// A failed call of a worker does not change `errno` of the thread that started the worker.
#[test]
fn errno_stays_the_threads_own() {
    std::fs::File::open("/proc/no such file").expect_err("there is none");
    let before = io::Error::last_os_error().raw_os_error();
    let mut pool_of_own = Worker::start().expect("processes can be started");
    pool_of_own.header().operation = Operation::Open;
    pool_of_own.header().path[..2].copy_from_slice(b"x\0");
    let busy = pool_of_own.begin(None).expect("it is there");
    let Waited::Done(mut worker, None) = busy.wait(Duration::from_secs(10)) else {
        panic!("it opens nothing");
    };
    assert_eq!(worker.header().result, -i64::from(libc::ENOENT));
    drop(worker);
    assert_eq!(before, Some(libc::ENOENT));
}
