//! Sizes and durations, read and written.

use proptest::prelude::*;

use super::*;

#[test]
fn sizes() {
    for (text, bytes) in [
        ("0", 0),
        ("1048576", 1 << 20),
        ("512MiB", 512 << 20),
        ("512 mib", 512 << 20),
        (" 1KiB ", 1024),
        ("1KB", 1000),
        ("1.5GiB", 3 << 29),
        ("0.5KiB", 512),
        ("2TiB", 2 << 40),
        ("7B", 7),
        ("18446744073709551615", u64::MAX),
    ] {
        assert_eq!(text.parse::<ByteSize>().unwrap(), ByteSize::new(bytes), "{text}");
    }
    for text in [
        "",
        "MiB",
        "-1",
        "1.",
        ".5MiB",
        "1..5MiB",
        "1.5.5MiB",
        "1 Mi",
        "1M",
        "1e6",
        "1MiB2",
        "１MiB",
        "18446744073709551616",
        "16777216TiB",
        "1.0000000000000000000MiB",
        "0.5",
        "0.0000001KiB",
    ] {
        assert!(text.parse::<ByteSize>().is_err(), "{text:?}");
    }
    assert_eq!(ByteSize::new(512 << 20).to_string(), "512MiB");
    assert_eq!(ByteSize::new(1000).to_string(), "1000B");
    assert_eq!(ByteSize::new(0).to_string(), "0B");
    assert_eq!(ByteSize::new(1_503_238_553).human(), "1.4GiB");
    assert_eq!(ByteSize::new(1023).human(), "1023B");
    assert_eq!(ByteSize::new(1024).human(), "1.0KiB");
}

#[test]
fn sizes_in_settings_are_numbers_or_text() {
    let sizes: Vec<ByteSize> = serde_json::from_str("[1024, \"1KiB\"]").unwrap();
    assert_eq!(sizes, [ByteSize::new(1024); 2]);
    assert_eq!(serde_json::to_string(&sizes).unwrap(), "[1024,1024]");
    assert!(serde_json::from_str::<ByteSize>("-1").is_err());
    assert!(serde_json::from_str::<ByteSize>("1.5").is_err());
    assert!(serde_json::from_str::<ByteSize>("true").is_err());
}

#[test]
fn durations() {
    for (text, duration) in [
        ("0", Duration::ZERO),
        ("0s", Duration::ZERO),
        ("30s", Duration::from_secs(30)),
        ("30 s", Duration::from_secs(30)),
        ("250ms", Duration::from_millis(250)),
        ("5us", Duration::from_micros(5)),
        ("5ns", Duration::from_nanos(5)),
        ("1.5h", Duration::from_secs(5400)),
        ("2m", Duration::from_secs(120)),
        ("7d", Duration::from_secs(604_800)),
        ("1w", Duration::from_secs(604_800)),
        ("0.1s", Duration::from_millis(100)),
    ] {
        assert_eq!(parse_duration(text).unwrap(), duration, "{text}");
    }
    for text in ["", "30", "s", "-1s", "1M", "1S", "1.s", "30sec", "1h30m", "99999999999w"] {
        assert!(parse_duration(text).is_err(), "{text:?}");
    }
    for (duration, text) in [
        (Duration::ZERO, "0s"),
        (Duration::from_secs(90), "90s"),
        (Duration::from_secs(120), "2m"),
        (Duration::from_secs(14 * 86_400), "14d"),
        (Duration::from_millis(1500), "1500ms"),
    ] {
        assert_eq!(format_duration(duration), text);
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(number: u64) {
        prop_assert_eq!(ByteSize::new(number).to_string().parse::<ByteSize>().unwrap().get(), number);
        let duration = Duration::from_nanos(number);
        prop_assert_eq!(parse_duration(&format_duration(duration)).unwrap(), duration);
    }

    #[test]
    fn no_text_makes_it_panic(text in "[0-9.]{0,30}.{0,5}") {
        let _ = text.parse::<ByteSize>();
        let _ = parse_duration(&text);
    }
}
