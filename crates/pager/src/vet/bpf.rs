//! Classic BPF as seccomp(2) runs it, to ask a filter what it would say.
//!
//! Invariant: evaluation is total and bounded. Jumps only go forward (their offsets are unsigned),
//! so a program of n instructions takes at most n steps; whatever the kernel's checker would not
//! have let in is an error, never a guess. Source: `Documentation/networking/filter.rst` (the
//! instruction set), seccomp(2) and `struct seccomp_data` in linux/seccomp.h (the input).

/// `struct sock_filter`: one instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BpfInsn {
    /// Class, size, mode or operation.
    pub code: u16,
    /// Instructions to skip when true.
    pub jt: u8,
    /// Instructions to skip when false.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

/// `struct seccomp_data`: what a filter sees of a system call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeccompData {
    /// Number of the system call.
    pub nr: u32,
    /// `AUDIT_ARCH_*`.
    pub arch: u32,
    /// Address of the instruction after the call.
    pub instruction_pointer: u64,
    /// Arguments, pointers as numbers.
    pub args: [u64; 6],
}

/// `AUDIT_ARCH_X86_64` (linux/audit.h).
pub(super) const ARCH_X86_64: u32 = 0xc000_003e;

/// What a filter decides, without its 16 bits of data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Action {
    /// End the process with SIGSYS (also any value the kernel does not know).
    KillProcess,
    /// End the thread with SIGSYS.
    KillThread,
    /// SIGSYS to the program's own handler.
    Trap,
    /// The call fails with this errno.
    Errno(u16),
    /// A supervisor decides.
    UserNotif,
    /// A tracer decides; without one the call fails with ENOSYS.
    Trace,
    /// Allowed, and logged.
    Log,
    /// Allowed.
    Allow,
}

impl Action {
    /// Decodes a filter's return value (linux/seccomp.h, `SECCOMP_RET_*`).
    #[must_use]
    pub fn from_ret(value: u32) -> Action {
        match value & 0xffff_0000 {
            0x0000_0000 => Action::KillThread,
            0x0003_0000 => Action::Trap,
            0x0005_0000 => Action::Errno(u16::try_from(value & 0xffff).unwrap_or(u16::MAX)),
            0x7fc0_0000 => Action::UserNotif,
            0x7ff0_0000 => Action::Trace,
            0x7ffc_0000 => Action::Log,
            0x7fff_0000 => Action::Allow,
            _ => Action::KillProcess,
        }
    }

    /// Whether the call is made without anybody's leave.
    #[must_use]
    pub const fn allows(self) -> bool {
        matches!(self, Action::Log | Action::Allow)
    }

    /// Which of two filters' verdicts the kernel follows: the stricter one.
    #[must_use]
    pub fn stricter(self, other: Action) -> Action {
        match (self, other) {
            // Among errnos the one found first stands, that is the newest filter's.
            (Action::Errno(_), Action::Errno(_)) => self,
            _ => self.min(other),
        }
    }
}

/// Why a program has no verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BpfError {
    /// Longer than the kernel's BPF_MAXINSNS, or empty.
    #[error("a filter of {0} instructions cannot be")]
    Length(usize),
    /// An instruction that seccomp does not know.
    #[error("instruction {at} ({code:#x}) is unknown")]
    Unknown {
        /// Its place.
        at: usize,
        /// Its code.
        code: u16,
    },
    /// A jump or the end of the program without a return.
    #[error("the program runs over its end")]
    NoReturn,
}

/// `BPF_MAXINSNS` (linux/bpf_common.h).
const INSNS_MAX: usize = 4096;
const MEMWORDS: usize = 16;
const DATA_BYTES: u32 = 64;

/// Runs one filter over one system call.
///
/// # Errors
/// [`BpfError`] for a program that the kernel would not have accepted.
pub fn evaluate(program: &[BpfInsn], data: &SeccompData) -> Result<Action, BpfError> {
    if program.is_empty() || program.len() > INSNS_MAX {
        return Err(BpfError::Length(program.len()));
    }
    let mut machine = Machine {
        a: 0,
        x: 0,
        mem: [0; MEMWORDS],
        data,
    };
    let mut at = 0;
    while let Some(insn) = program.get(at) {
        let unknown = BpfError::Unknown {
            at,
            code: insn.code,
        };
        match machine.step(insn).ok_or(unknown)? {
            Step::Return(value) => return Ok(Action::from_ret(value)),
            Step::Skip(count) => at = at.saturating_add(1).saturating_add(count),
        }
    }
    Err(BpfError::NoReturn)
}

enum Step {
    Return(u32),
    Skip(usize),
}

struct Machine<'a> {
    a: u32,
    x: u32,
    mem: [u32; MEMWORDS],
    data: &'a SeccompData,
}

// Fields of `code` (linux/bpf_common.h).
const CLASS: u16 = 0x07;
const SRC_X: u16 = 0x08;

impl Machine<'_> {
    /// One instruction; `None` if seccomp has none like it.
    fn step(&mut self, insn: &BpfInsn) -> Option<Step> {
        let k = insn.k;
        match insn.code & CLASS {
            0x00 => self.a = self.load(insn)?,
            0x01 => self.x = self.load_x(insn)?,
            0x02 if insn.code == 0x02 => *self.word(k)? = self.a,
            0x03 if insn.code == 0x03 => *self.word(k)? = self.x,
            0x04 => match self.alu(insn)? {
                Some(value) => self.a = value,
                // A division by X = 0 ends the program with 0.
                None => return Some(Step::Return(0)),
            },
            0x05 => return self.jump(insn),
            0x06 => return self.ret(insn),
            0x07 if insn.code == 0x07 => self.x = self.a,
            0x07 if insn.code == 0x87 => self.a = self.x,
            _ => return None,
        }
        Some(Step::Skip(0))
    }

    fn word(&mut self, k: u32) -> Option<&mut u32> {
        self.mem.get_mut(usize::try_from(k).ok()?)
    }

    /// LD: immediate, absolute (32 bits of the data, aligned), scratch word, length.
    fn load(&mut self, insn: &BpfInsn) -> Option<u32> {
        match insn.code {
            0x00 => Some(insn.k),
            0x20 => self.data_word(insn.k),
            0x60 => self.word(insn.k).copied(),
            0x80 => Some(DATA_BYTES),
            _ => None,
        }
    }

    /// LDX: the same without the data.
    fn load_x(&mut self, insn: &BpfInsn) -> Option<u32> {
        match insn.code {
            0x01 => Some(insn.k),
            0x61 => self.word(insn.k).copied(),
            0x81 => Some(DATA_BYTES),
            _ => None,
        }
    }

    fn data_word(&self, offset: u32) -> Option<u32> {
        if offset >= DATA_BYTES || !offset.is_multiple_of(4) {
            return None;
        }
        let halves = |value: u64| [low(value), low(value >> 32)];
        let index = usize::try_from(offset / 4).ok()?;
        match index {
            0 => Some(self.data.nr),
            1 => Some(self.data.arch),
            2 | 3 => Some(halves(self.data.instruction_pointer)[index - 2]),
            _ => {
                let arg = self.data.args.get((index - 4) / 2)?;
                Some(halves(*arg)[index % 2])
            }
        }
    }

    fn operand(&self, insn: &BpfInsn) -> u32 {
        if insn.code & SRC_X == 0 {
            insn.k
        } else {
            self.x
        }
    }

    /// `Some(None)` is the division by zero; `None` an unknown operation.
    fn alu(&self, insn: &BpfInsn) -> Option<Option<u32>> {
        let (a, b) = (self.a, self.operand(insn));
        if insn.code & !(CLASS | SRC_X) > 0xf0 {
            return None;
        }
        Some(match insn.code & 0xf0 {
            0x00 => Some(a.wrapping_add(b)),
            0x10 => Some(a.wrapping_sub(b)),
            0x20 => Some(a.wrapping_mul(b)),
            0x30 => a.checked_div(b),
            0x40 => Some(a | b),
            0x50 => Some(a & b),
            0x60 => Some(a.wrapping_shl(b)),
            0x70 => Some(a.wrapping_shr(b)),
            0x80 => Some(a.wrapping_neg()),
            0xa0 => Some(a ^ b),
            _ => return None,
        })
    }

    fn jump(&self, insn: &BpfInsn) -> Option<Step> {
        let (a, b) = (self.a, self.operand(insn));
        let taken = match insn.code {
            0x05 => return Some(Step::Skip(usize::try_from(insn.k).ok()?)),
            0x15 | 0x1d => a == b,
            0x25 | 0x2d => a > b,
            0x35 | 0x3d => a >= b,
            0x45 | 0x4d => a & b != 0,
            _ => return None,
        };
        Some(Step::Skip(usize::from(if taken {
            insn.jt
        } else {
            insn.jf
        })))
    }

    fn ret(&self, insn: &BpfInsn) -> Option<Step> {
        match insn.code {
            0x06 => Some(Step::Return(insn.k)),
            0x16 => Some(Step::Return(self.a)),
            _ => None,
        }
    }
}

fn low(value: u64) -> u32 {
    u32::try_from(value & 0xffff_ffff).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
