//! Offsets of members in the kernel's structures, from the kernel's own type information (BTF).
//!
//! Invariant: any bytes yield a result or `None`, never a panic and never an endless search. Only
//! the types that lead to a requested member are decoded. Format: the kernel's documentation,
//! bpf/btf.rst.

const MAGIC: u16 = 0xeb9f;
/// Nesting depth to which a search for a member descends into unnamed structures and unions.
const DEPTH_MAX: u32 = 8;

/// Kinds of types that have more bytes than the common 12.
mod kind {
    pub(super) const INT: u32 = 1;
    pub(super) const ARRAY: u32 = 3;
    pub(super) const STRUCT: u32 = 4;
    pub(super) const UNION: u32 = 5;
    pub(super) const ENUM: u32 = 6;
    pub(super) const FUNC_PROTO: u32 = 13;
    pub(super) const VAR: u32 = 14;
    pub(super) const DATASEC: u32 = 15;
    pub(super) const DECL_TAG: u32 = 17;
    pub(super) const ENUM64: u32 = 19;
}

/// The type information of a kernel.
#[derive(Debug)]
pub(crate) struct Btf<'a> {
    /// Names, each ending with NUL.
    strings: &'a [u8],
    /// All types, one after another.
    types: &'a [u8],
    /// Offset in `types` of each type; the type with number N is at index N - 1.
    starts: Vec<u32>,
    /// The numbers of structures and enumerations. A search by name goes through them one by one:
    /// about twenty of ten thousand are requested, so sorting all by name would take longer.
    named: Vec<u32>,
}

/// The 12 bytes with which each type begins, decoded.
#[derive(Clone, Copy)]
struct Head {
    /// Offset of the type's name in the strings.
    name: u32,
    /// For a structure: its size in bytes.
    size: u32,
    kind: u32,
    /// Number of members.
    members: u32,
    /// Whether the upper 8 bits of a member's offset are the width of a bit field.
    has_widths: bool,
    /// Offset of the type in [`Btf::types`].
    at: usize,
}

/// The 32-bit word at offset `at`; `None` if it is not all in `bytes`.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(four.try_into().ok()?))
}

impl<'a> Btf<'a> {
    /// Reads the contents of `/sys/kernel/btf/vmlinux`; `None` if they have another format.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Btf<'a>> {
        let magic = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
        if magic != MAGIC {
            return None;
        }
        let at = |index: usize| word(bytes, index).map(|value| value as usize);
        let (head, type_at, type_len) = (at(4)?, at(8)?, at(12)?);
        let (string_at, string_len) = (at(16)?, at(20)?);
        let part = |from: usize, len: usize| {
            let from = head.checked_add(from)?;
            bytes.get(from..from.checked_add(len)?)
        };
        let mut btf = Btf {
            strings: part(string_at, string_len)?,
            types: part(type_at, type_len)?,
            starts: Vec::new(),
            named: Vec::new(),
        };
        btf.index()?;
        Some(btf)
    }

    /// Finds where each type begins, and the named structures and enumerations; `None` if the
    /// format is wrong.
    fn index(&mut self) -> Option<()> {
        let mut at = 0;
        while at < self.types.len() {
            let head = self.head_at(at)?;
            self.starts.push(u32::try_from(at).ok()?);
            if matches!(head.kind, kind::STRUCT | kind::ENUM) {
                self.named.push(u32::try_from(self.starts.len()).ok()?);
            }
            at = at.checked_add(12)?.checked_add(head.tail())?;
        }
        Some(())
    }

    /// Returns the offset of `member` in the structure `name`, in bytes. Members of an unnamed
    /// inner structure or union count as members of the outer one. `None` if there is no such
    /// structure or member.
    pub(crate) fn offset(&self, name: &str, member: &str) -> Option<u64> {
        let number = self.number(name)?;
        let bits = self.member_bits(number, member.as_bytes(), DEPTH_MAX)?;
        Some(u64::from(bits / 8))
    }

    /// The size of a structure in bytes; `None` if there is no such structure.
    pub(crate) fn size(&self, name: &str) -> Option<u64> {
        let head = self.head(self.number(name)?)?;
        (head.kind == kind::STRUCT).then_some(u64::from(head.size))
    }

    /// The value of `constant` in the enumeration `name`; `None` if there is no such constant.
    pub(crate) fn constant(&self, name: &str, constant: &str) -> Option<u32> {
        let head = self.head(self.number(name)?)?;
        if head.kind != kind::ENUM {
            return None;
        }
        (0..head.members).find_map(|index| {
            let at = head.at + 12 + index as usize * 8;
            let is_it = self.name(word(self.types, at)?)? == constant.as_bytes();
            if is_it {
                word(self.types, at + 4)
            } else {
                None
            }
        })
    }

    /// The number of the first structure or enumeration with this name.
    fn number(&self, name: &str) -> Option<u32> {
        let is_it = |number: &u32| {
            let rest = self
                .head(*number)
                .and_then(|head| self.strings.get(head.name as usize..));
            let rest = rest.and_then(|rest| rest.strip_prefix(name.as_bytes()));
            rest.is_some_and(|rest| rest.first() == Some(&0))
        };
        self.named.iter().copied().find(is_it)
    }

    /// Decodes the type with this number.
    fn head(&self, number: u32) -> Option<Head> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        self.head_at(*self.starts.get(index)? as usize)
    }

    /// The offset of a member in the structure `number`, in bits. `depth`: levels of nesting to
    /// search.
    fn member_bits(&self, number: u32, member: &[u8], depth: u32) -> Option<u32> {
        let head = self.head(number)?;
        if depth == 0 || !matches!(head.kind, kind::STRUCT | kind::UNION) {
            return None;
        }
        (0..head.members).find_map(|index| {
            let at = head.at + 12 + index as usize * 12;
            let offset = word(self.types, at + 8)?;
            let bits = if head.has_widths {
                offset & 0xff_ffff
            } else {
                offset
            };
            let name = self.name(word(self.types, at)?)?;
            if name == member {
                return Some(bits);
            }
            if !name.is_empty() {
                return None;
            }
            let inner = self.member_bits(word(self.types, at + 4)?, member, depth - 1)?;
            bits.checked_add(inner)
        })
    }

    /// Decodes the type at offset `at`.
    fn head_at(&self, at: usize) -> Option<Head> {
        let info = word(self.types, at.checked_add(4)?)?;
        Some(Head {
            name: word(self.types, at)?,
            size: word(self.types, at.checked_add(8)?)?,
            kind: info >> 24 & 0x1f,
            members: info & 0xffff,
            has_widths: info >> 31 == 1,
            at,
        })
    }

    /// The string at offset `at`.
    fn name(&self, at: u32) -> Option<&'a [u8]> {
        let rest = self.strings.get(at as usize..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        Some(&rest[..end])
    }
}

impl Head {
    /// Number of bytes of this type after the common 12.
    fn tail(self) -> usize {
        let each = match self.kind {
            kind::INT | kind::VAR | kind::DECL_TAG => return 4,
            kind::ARRAY => return 12,
            kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => 12,
            kind::ENUM | kind::FUNC_PROTO => 8,
            _ => 0,
        };
        each * self.members as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kernel() -> Vec<u8> {
        std::fs::read("/sys/kernel/btf/vmlinux").expect("this kernel has BTF")
    }

    #[test]
    fn members_of_unnamed_members_are_found() {
        let bytes = kernel();
        let btf = Btf::parse(&bytes).expect("BTF");
        assert_eq!(btf.offset("list_head", "next"), Some(0));
        assert_eq!(btf.offset("list_head", "prev"), Some(8));
        assert!(
            btf.offset("mm_struct", "pgd").is_some(),
            "in an unnamed structure"
        );
        assert!(btf.offset("task_struct", "files").is_some_and(|at| at > 0));
        assert_eq!(btf.offset("mm_struct", "no_such_member"), None);
        assert_eq!(btf.offset("no_such_struct", "pgd"), None);
        assert_eq!(btf.size("list_head"), Some(16));
        assert_eq!(btf.constant("pageflags", "PG_locked"), Some(0));
        assert_eq!(btf.constant("pageflags", "no_such_constant"), None);
        assert_eq!(btf.constant("list_head", "PG_locked"), None);
    }

    #[test]
    fn truncated_type_information_does_not_panic() {
        let bytes = kernel();
        for len in [0, 1, 2, 23, 24, 1000, bytes.len() / 2, bytes.len() - 1] {
            if let Some(btf) = Btf::parse(&bytes[..len]) {
                let _ = btf.offset("mm_struct", "pgd");
            }
        }
    }

    /// Builds type information: a header, then these types and strings.
    fn btf_bytes(types: &[u8], strings: &[u8]) -> Vec<u8> {
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        let len = |part: &[u8]| u32::try_from(part.len()).expect("small");
        for word in [24, 0, len(types), len(types), len(strings)] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(types);
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn a_search_in_a_recursive_structure_ends() {
        // struct "a" with one unnamed member of its own type.
        let words = [1u32, 1 | 4 << 24, 0, 0, 1, 0];
        let types: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let bytes = btf_bytes(&types, b"\0a\0");
        let btf = Btf::parse(&bytes).expect("well formed");
        assert_eq!(btf.offset("a", "b"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_yield_a_result_or_none(types: Vec<u8>, strings: Vec<u8>, raw: Vec<u8>) {
            let bytes = btf_bytes(&types, &strings);
            if let Some(btf) = Btf::parse(&bytes) {
                let _ = btf.offset("a", "b");
                let _ = (btf.size("a"), btf.constant("a", "b"));
            }
            let _ = Btf::parse(&raw);
        }
    }
}
