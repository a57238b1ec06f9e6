//! One header block: the representations of RFC 7541, section 6.

/// The replacement of every authority: one octet, so that no table entry grows.
const AUTHORITY: u8 = b'u';
/// The index of `:authority` in the static table (RFC 7541, appendix A).
const STATIC_INDEX: u64 = 1;
/// The name as clients without a static table write it, plain and Huffman-coded.
const NAME: &[u8] = b":authority";
const NAME_CODED: &[u8] = &[0xb8, 0x3b, 0x53, 0x39, 0xec, 0x32, 0x7d, 0x7f];
/// The flag of a Huffman-coded string.
const HUFFMAN: u8 = 0x80;
/// More continuation octets than this encode no index or length that a peer could mean.
const MAX_INTEGER_OCTETS: u32 = 5;

/// Returns the block with each value of `:authority` replaced, or `None` if it is malformed.
///
/// The result is never longer than the block.
pub(crate) fn replace_authority(block: &[u8]) -> Option<Vec<u8>> {
    let mut replaced = Vec::with_capacity(block.len());
    let mut rest = block;
    while let Some(&first) = rest.first() {
        let prefix = match first {
            // Indexed: name and value.
            0x80.. => {
                let (_, octets) = integer(rest, 7)?;
                copy(&mut replaced, &mut rest, octets)?;
                continue;
            }
            // A new size of the dynamic table.
            0x20..=0x3f => {
                let (_, octets) = integer(rest, 5)?;
                copy(&mut replaced, &mut rest, octets)?;
                continue;
            }
            // A literal that is added to the table, and one that is not.
            0x40.. => 6,
            _ => 4,
        };
        let (index, octets) = integer(rest, prefix)?;
        copy(&mut replaced, &mut rest, octets)?;
        let is_authority = match index {
            0 => {
                let (name, octets) = string(rest)?;
                let coded = rest.first()? & HUFFMAN != 0;
                let is_authority = name == if coded { NAME_CODED } else { NAME };
                copy(&mut replaced, &mut rest, octets)?;
                is_authority
            }
            index => index == STATIC_INDEX,
        };
        let (value, octets) = string(rest)?;
        if is_authority && !value.is_empty() {
            replaced.extend([1, AUTHORITY]);
            rest = rest.get(octets..)?;
        } else {
            copy(&mut replaced, &mut rest, octets)?;
        }
    }
    Some(replaced)
}

/// Moves this many octets from `rest` to `to`.
fn copy(to: &mut Vec<u8>, rest: &mut &[u8], octets: usize) -> Option<()> {
    let (moved, left) = rest.split_at_checked(octets)?;
    to.extend(moved);
    *rest = left;
    Some(())
}

/// Reads an integer (RFC 7541, section 5.1) whose first octet has this many bits of it. Returns it
/// and the octets that it takes.
fn integer(from: &[u8], prefix_bits: u32) -> Option<(u64, usize)> {
    let mask = 0xff >> 8_u32.checked_sub(prefix_bits)?;
    let (&first, more) = from.split_first()?;
    let mut value = u64::from(first & mask);
    if value < u64::from(mask) {
        return Some((value, 1));
    }
    for (position, &octet) in (0..MAX_INTEGER_OCTETS).zip(more) {
        value = value.checked_add(u64::from(octet & 0x7f) << (7 * position))?;
        if octet & 0x80 == 0 {
            return Some((value, usize::try_from(position).ok()?.checked_add(2)?));
        }
    }
    None
}

/// Reads a string (RFC 7541, section 5.2), as it is coded. Returns it and the octets that it takes
/// with its length.
fn string(from: &[u8]) -> Option<(&[u8], usize)> {
    let (length, octets) = integer(from, 7)?;
    let end = octets.checked_add(usize::try_from(length).ok()?)?;
    Some((from.get(octets..end)?, end))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    fn literal(first: &[u8], name: &[u8], value: &[u8]) -> Vec<u8> {
        let mut bytes = first.to_vec();
        for part in [name, value] {
            if !part.is_empty() {
                bytes.push(u8::try_from(part.len()).unwrap());
                bytes.extend(part);
            }
        }
        bytes
    }

    #[test]
    fn an_authority_is_replaced_however_it_is_written() {
        let path = b"%2Frun%2Fcsi-reg.sock";
        for (first, name) in [
            (&[0x41][..], &b""[..]),
            (&[0x01], b""),
            (&[0x11], b""),
            (&[0x40], b":authority"),
            (&[0x00], b":authority"),
        ] {
            let block = [&[0x83, 0x86][..], &literal(first, name, path), &[0x84]].concat();
            let expected = [&[0x83, 0x86][..], &literal(first, name, b"u"), &[0x84]].concat();
            assert_eq!(replace_authority(&block).unwrap(), expected, "{first:?}");
        }
        let coded = [&[0x40, 0x88][..], NAME_CODED, &[0x82, 0xff, 0xc0]].concat();
        assert_eq!(replace_authority(&coded).unwrap(), [&[0x40, 0x88][..], NAME_CODED, &[1, b'u']].concat());
    }

    #[test]
    fn other_headers_keep_every_octet() {
        let long = vec![b'x'; 300];
        let block = [
            // A table size, an indexed field, an authority without a value, two literals.
            &[0x3f, 0xe1, 0x1f, 0x82, 0x41, 0x00][..],
            &literal(&[0x40], b"grpc-timeout", b"1S"),
            // A value of 300 octets needs a length of two more.
            &[0x0f, 0x30, 0x7f, 0xad, 0x01],
            &long,
        ]
        .concat();
        assert_eq!(replace_authority(&block).unwrap(), block);
    }

    #[test]
    fn a_malformed_block_is_refused() {
        for block in
            [&[0x41][..], &[0x41, 0x05, b'a'], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], &[0x40], &[0x40, 0x01]]
        {
            assert_eq!(replace_authority(block), None, "{block:?}");
        }
    }
}
