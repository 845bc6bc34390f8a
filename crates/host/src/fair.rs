//! Max-min fair shares of a budget: no member gets more than it wants, and what a member does not
//! want is divided evenly among the others.

/// Returns the maximum that a member may get, so that all together get no more than `budget`: each
/// gets `min(want, share)`. `wants`: what each member wants. Returns `budget` if that suffices for
/// all.
pub(crate) fn share(mut wants: Vec<u64>, budget: u64) -> u64 {
    wants.sort_unstable();
    let (mut left, mut others) = (budget, wants.len() as u64);
    for want in wants {
        if want > left / others {
            return left / others;
        }
        left -= want;
        others -= 1;
    }
    budget
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_max_min_fair() {
        let of = |wants: &[u64], budget| share(wants.to_vec(), budget);
        assert_eq!(of(&[], 100), 100);
        assert_eq!(of(&[20, 80], 100), 100);
        assert_eq!(of(&[20, 900], 100), 80);
        assert_eq!(of(&[900, 20, 20, 900], 100), 30);
        assert_eq!(of(&[900; 4], 100), 25);
        assert_eq!(of(&[1], 0), 0);
        assert_eq!(of(&[u64::MAX; 3], u64::MAX), u64::MAX / 3);
    }
}
