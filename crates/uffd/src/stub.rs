//! The stub: the only code of ours that a target's own thread ever runs.
//!
//! Invariant: once the thread has been sent here (one `PTRACE_SETREGS`), it needs nobody: it maps
//! room for the keeper's image, waits a bounded time for the manager to fill it, clones the first
//! process, reaps it, and goes back to where it was with every register as before. A manager that
//! dies at any point in between costs the thread two seconds at most, and nothing else.
//!
//! The code is copied to unused bytes at the end of an executable mapping of the target; its
//! parameters follow it. It uses only general registers, which it saves on the thread's stack
//! below the red zone, with all signals blocked.

use core::arch::global_asm;

/// Parameters, in the order in which they follow the code.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Where the thread goes on afterwards.
    pub resume: u64,
    /// First byte of the room to map (a free range); the header page of the image.
    pub image: u64,
    /// Bytes of the room.
    pub image_len: u64,
    /// First byte of the executable part.
    pub text: u64,
    /// Bytes of the executable part.
    pub text_len: u64,
    /// Where the first process starts.
    pub entry: u64,
    /// Top of its stack.
    pub stack: u64,
    /// All signals: the mask to run under.
    pub sigmask: u64,
    /// How long to sleep between looks at the ready mark: seconds, nanoseconds.
    pub nap: [u64; 2],
    /// How many looks.
    pub looks: u64,
}

/// Offset in the stub of code that makes the system call in the registers, then exits.
pub const LEAVE_OFFSET: u64 = 2;

/// First header word of the image: the manager has written everything.
pub const READY: u64 = 0x7972_6165_7265_6f6b;

global_asm!(
    ".pushsection .text.pagetide_stub,\"ax\",@progbits",
    ".globl pagetide_stub_begin",
    ".globl pagetide_stub_params",
    "pagetide_stub_begin:",
    "jmp 1f",
    // LEAVE_OFFSET: the keeper's last steps, outside the image that it unmaps.
    "syscall",
    "mov eax, 231",
    "xor edi, edi",
    "syscall",
    "1:",
    "lea rsp, [rsp - 256]",
    "pushfq",
    "push rax",
    "push rbx",
    "push rcx",
    "push rdx",
    "push rsi",
    "push rdi",
    "push rbp",
    "push r8",
    "push r9",
    "push r10",
    "push r11",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "cld",
    "mov rbp, rsp",
    "and rsp, -16",
    "sub rsp, 32",
    // Block signals; the old mask goes to [rsp].
    "mov eax, 14",
    "mov edi, 2",
    "lea rsi, [rip + pagetide_stub_params + 56]",
    "mov rdx, rsp",
    "mov r10d, 8",
    "syscall",
    // Map the room, exactly there or not at all.
    "mov rbx, [rip + pagetide_stub_params + 8]",
    "mov eax, 9",
    "mov rdi, rbx",
    "mov rsi, [rip + pagetide_stub_params + 16]",
    "mov edx, 3",
    "mov r10d, 0x100022",
    "mov r8, -1",
    "xor r9d, r9d",
    "syscall",
    "cmp rax, rbx",
    "jne 9f",
    // No child inherits it.
    "mov eax, 28",
    "mov rdi, rbx",
    "mov rsi, [rip + pagetide_stub_params + 16]",
    "mov edx, 10",
    "syscall",
    // Wait for the manager.
    "mov r12, [rip + pagetide_stub_params + 80]",
    "movabs r13, 0x7972616572656f6b",
    "2:",
    "cmp [rbx], r13",
    "je 3f",
    "mov eax, 35",
    "lea rdi, [rip + pagetide_stub_params + 64]",
    "xor esi, esi",
    "syscall",
    "dec r12",
    "jnz 2b",
    // Nobody came: leave nothing.
    "mov eax, 11",
    "mov rdi, rbx",
    "mov rsi, [rip + pagetide_stub_params + 16]",
    "syscall",
    "jmp 9f",
    "3:",
    "mov eax, 10",
    "mov rdi, [rip + pagetide_stub_params + 24]",
    "mov rsi, [rip + pagetide_stub_params + 32]",
    "mov edx, 5",
    "syscall",
    // clone(CLONE_VM | CLONE_UNTRACED): a process with this memory and its own descriptors.
    "mov eax, 56",
    "mov edi, 0x800100",
    "mov rsi, [rip + pagetide_stub_params + 48]",
    "xor edx, edx",
    "xor r10d, r10d",
    "xor r8d, r8d",
    "syscall",
    "test rax, rax",
    "jz 4f",
    "js 5f",
    // Reap it: wait4(pid, 0, __WALL, 0).
    "mov edi, eax",
    "mov eax, 61",
    "xor esi, esi",
    "mov edx, 0x40000000",
    "xor r10d, r10d",
    "syscall",
    "5:",
    "mov qword ptr [rbx + 8], 1",
    "9:",
    "mov eax, 14",
    "mov edi, 2",
    "mov rsi, rsp",
    "xor edx, edx",
    "mov r10d, 8",
    "syscall",
    "mov rsp, rbp",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop r11",
    "pop r10",
    "pop r9",
    "pop r8",
    "pop rbp",
    "pop rdi",
    "pop rsi",
    "pop rdx",
    "pop rcx",
    "pop rbx",
    "pop rax",
    "popfq",
    "lea rsp, [rsp + 256]",
    "jmp [rip + pagetide_stub_params]",
    "4:",
    "mov rdi, rbx",
    "jmp [rip + pagetide_stub_params + 40]",
    ".balign 8",
    "pagetide_stub_params:",
    ".popsection",
);

unsafe extern "C" {
    static pagetide_stub_begin: u8;
    static pagetide_stub_params: u8;
}

/// The stub with its parameters, ready to be written to its place.
#[must_use]
pub fn bytes(params: &Params) -> Vec<u8> {
    // SAFETY: both symbols are in one section of this program, begin before params; code is
    // readable for as long as the program runs.
    let code = unsafe {
        let begin = &raw const pagetide_stub_begin;
        let end = &raw const pagetide_stub_params;
        std::slice::from_raw_parts(begin, end.offset_from_unsigned(begin))
    };
    let mut out = code.to_vec();
    let words = [
        params.resume,
        params.image,
        params.image_len,
        params.text,
        params.text_len,
        params.entry,
        params.stack,
        params.sigmask,
        params.nap[0],
        params.nap[1],
        params.looks,
    ];
    for word in words {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out
}
