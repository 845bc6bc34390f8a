//! Limits as users write them.

use proptest::prelude::*;

use engine::units::{Bytes, Limit};

use super::*;

#[test]
fn limits_take_shares_and_max() {
    let parse = |text: &str| text.parse::<Size>();
    assert_eq!(parse("max"), Ok(Size::Max));
    let half = parse("50%").expect("a share");
    assert_eq!(half.of(Bytes(1001)), Limit::Bytes(Bytes(500)));
    assert_eq!(half.to_string(), "50%");
    assert_eq!(parse("12.5%").expect("a share").to_string(), "12.5%");
    assert_eq!(parse("0.25%").expect("a share").to_string(), "0.25%");
    assert_eq!(Size::Max.of(Bytes(1)), Limit::Max);
    for bad in ["101%", "%", "-5%", "5K%", "700000%"] {
        assert!(parse(bad).is_err(), "{bad}");
    }
    let complaint = parse("12Q").expect_err("no such unit").to_string();
    assert!(complaint.contains("50%"), "{complaint}");
}

proptest! {
    #[test]
    fn almost_valid_texts_do_not_panic(text in "[-+0-9.]{0,24}[a-zA-Z%]{0,3}") {
        if let Ok(limit) = text.parse::<Size>() {
            let json = serde_json::to_string(&limit).expect("a limit is plain");
            prop_assert_eq!(serde_json::from_str::<Size>(&json).expect("its own text"), limit);
        }
    }

    #[test]
    fn shares_stay_within_the_whole(percent in 0u16..=100, whole: u64) {
        let share = Percent::new(percent).expect("at most all");
        prop_assert!(share.of(Bytes(whole)).0 <= whole);
    }
}
