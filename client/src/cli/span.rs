//! Spans of time: how people write them (`1m30s`) and how tables show them.

use std::time::Duration;

const UNITS: [(&str, f64); 5] = [
    ("ms", 0.001),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3600.0),
    ("d", 86400.0),
];

/// Reads `500ms`, `10s`, `1m30s`, `1.5h`, `7d`; a bare number is seconds.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let bad = || format!("{text:?} is no duration: write 500ms, 10s, 1m30s, 2h or 7d");
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).map_err(|_| bad());
    }
    let mut total = 0.0;
    let mut rest = text;
    if rest.is_empty() {
        return Err(bad());
    }
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(bad)?;
        let number: f64 = rest[..digits].parse().map_err(|_| bad())?;
        rest = &rest[digits..];
        let letters = rest
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        let unit = UNITS
            .iter()
            .find(|(name, _)| *name == &rest[..letters])
            .ok_or_else(bad)?;
        total += number * unit.1;
        rest = &rest[letters..];
    }
    Duration::try_from_secs_f64(total).map_err(|_| bad())
}

/// An age for a table column: two units at most, coarser the older, as kubectl shows it.
pub(super) fn age(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match seconds {
        // The server's clock may be ahead of ours.
        ..0 => "0s".into(),
        0..120 => format!("{seconds}s"),
        120..600 => match seconds % 60 {
            0 => format!("{minutes}m"),
            rest => format!("{minutes}m{rest}s"),
        },
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => match minutes % 60 {
            0 => format!("{hours}h"),
            rest => format!("{hours}h{rest}m"),
        },
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => match hours % 24 {
            0 => format!("{days}d"),
            rest => format!("{days}d{rest}h"),
        },
        _ => format!("{days}d"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_and_without_units() {
        for (text, millis) in [
            ("500ms", 500),
            ("10s", 10_000),
            ("1m30s", 90_000),
            ("1.5h", 5_400_000),
            ("7d", 604_800_000),
            ("3", 3_000),
            ("0", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for bad in ["", "s", "10x", "-1s", "1s2", "1..2s", "inf", "-3"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ages_are_short() {
        for (seconds, shown) in [
            (-5, "0s"),
            (0, "0s"),
            (119, "119s"),
            (125, "2m5s"),
            (180, "3m"),
            (3600, "60m"),
            (11_000, "3h3m"),
            (100_000, "27h"),
            (200_000, "2d7h"),
            (900_000, "10d"),
        ] {
            assert_eq!(age(seconds), shown);
        }
    }
}
