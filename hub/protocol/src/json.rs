//! JSON as signatures need it: one meaning per text when read, one text per meaning when written.

use std::fmt;

use serde::Serialize;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::limits::MAX_JSON_DEPTH;

/// Why bytes are not JSON that can be signed.
#[derive(Debug, thiserror::Error)]
#[error("not valid JSON: {0}")]
pub struct JsonError(#[from] serde_json::Error);

/// Reads JSON strictly: no duplicate keys, no number beyond 64 bits or a finite double, at most
/// [`MAX_JSON_DEPTH`] arrays and objects inside each other, nothing after the value.
pub fn parse_json(bytes: &[u8]) -> Result<Value, JsonError> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Strict { depth: 0 }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Writes JSON without white space, non-ASCII as it is, and keys in the order of their UTF-8 bytes: the form whose
/// bytes are signed (Parler Protocol's `com.parler.sig`).
pub fn canonical_json(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write_canonical(value, &mut out);
    out
}

/// Adds the same to what was written before.
pub(crate) fn write_canonical(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(map) => {
            // Sorted here whatever order serde_json's map has: a dependency can switch it to insertion order.
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by(|(left, _), (right, _)| left.as_bytes().cmp(right.as_bytes()));
            out.push(b'{');
            for (index, (key, value)) in entries.into_iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_scalar(key, out);
                out.push(b':');
                write_canonical(value, out);
            }
            out.push(b'}');
        }
        Value::Array(items) => write_canonical_array(items, out),
        scalar => write_scalar(scalar, out),
    }
}

/// Adds an array of these.
pub(crate) fn write_canonical_array<'a>(items: impl IntoIterator<Item = &'a Value>, out: &mut Vec<u8>) {
    out.push(b'[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_canonical(item, out);
    }
    out.push(b']');
}

/// Adds what has nothing inside.
pub(crate) fn write_scalar(value: &(impl Serialize + ?Sized), out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("a JSON scalar always fits a byte vector");
}

/// Reads one value at a known depth.
#[derive(Clone, Copy)]
struct Strict {
    depth: usize,
}

impl Strict {
    fn inner<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth < MAX_JSON_DEPTH {
            Ok(Self { depth: self.depth + 1 })
        } else {
            Err(E::custom(format_args!("nested deeper than {MAX_JSON_DEPTH}")))
        }
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("a number that is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let inner = self.inner()?;
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(inner)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let inner = self.inner()?;
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(format_args!("key {key:?} twice in one object")));
            }
            map.insert(key, access.next_value_seed(inner)?);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn canonical_form_sorts_by_bytes_and_leaves_text_alone() {
        let value = parse_json(br#"{ "b": [1, -2, 0.5], "a": {"\u00e9": "\u2713 \"", "Z": null} }"#).unwrap();
        assert_eq!(
            String::from_utf8(canonical_json(&value)).unwrap(),
            "{\"a\":{\"Z\":null,\"é\":\"✓ \\\"\"},\"b\":[1,-2,0.5]}"
        );
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels)).into_bytes();
        assert!(parse_json(&deep(MAX_JSON_DEPTH)).is_ok());
        assert!(parse_json(&deep(MAX_JSON_DEPTH + 1)).is_err());
        assert!(parse_json(&deep(100_000)).is_err());
        for bad in [
            &br#"{"to":1,"to":2}"#[..],
            br#"{"a":[{"x":1,"\u0078":2}]}"#,
            b"NaN",
            b"1e400",
            b"1 2",
            b"",
            b"\"\xff\"",
            br#""\ud800""#,
        ] {
            assert!(parse_json(bad).is_err(), "{}", String::from_utf8_lossy(bad));
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(".*", inner, 0..5).prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    #[test]
    fn numbers_are_read_as_they_are_written() {
        // Read a bit wrong it would be written as another number, and a signature over it not match.
        let long = b"1844674407370959999999999999903685477580";
        let value = parse_json(long).unwrap();
        assert_eq!(
            value.as_f64(),
            Some(1_844_674_407_370_959_999_999_999_999_903_685_477_580.0)
        );
        assert_eq!(parse_json(&canonical_json(&value)).unwrap(), value);
    }

    proptest! {
        #[test]
        fn canonical_bytes_read_back_as_the_same_value(value in any_json()) {
            let bytes = canonical_json(&value);
            let read = parse_json(&bytes).unwrap();
            prop_assert_eq!(&read, &value);
            prop_assert_eq!(canonical_json(&read), bytes);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_json(&bytes);
        }
    }
}
