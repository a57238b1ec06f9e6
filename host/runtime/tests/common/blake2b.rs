//! BLAKE2b with 64 bytes of digest and no key (RFC 7693), for signatures that tests make. A crate
//! for it would change the features of those that the host is built with.

const START: [u64; 8] = [
    0x6a09_e667_f3bc_c908,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];
const ORDER: [[usize; 16]; 10] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
    [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
    [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
    [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
    [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
    [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
    [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
    [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];
const COLUMNS: [[usize; 4]; 8] = [
    [0, 4, 8, 12],
    [1, 5, 9, 13],
    [2, 6, 10, 14],
    [3, 7, 11, 15],
    [0, 5, 10, 15],
    [1, 6, 11, 12],
    [2, 7, 8, 13],
    [3, 4, 9, 14],
];
const BLOCK: usize = 128;

pub fn blake2b_512(content: &[u8]) -> Vec<u8> {
    let mut hash = START;
    hash[0] ^= 0x0101_0040;
    let blocks = content.len().div_ceil(BLOCK).max(1);
    for index in 0..blocks {
        let rest = &content[index * BLOCK..];
        let taken = rest.len().min(BLOCK);
        let mut block = [0; BLOCK];
        block[..taken].copy_from_slice(&rest[..taken]);
        compress(&mut hash, &block, (index * BLOCK + taken) as u64, index + 1 == blocks);
    }
    hash.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn compress(hash: &mut [u64; 8], block: &[u8; BLOCK], hashed: u64, last: bool) {
    let words: Vec<u64> = block.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    let mut state = [0; 16];
    state[..8].copy_from_slice(hash);
    state[8..].copy_from_slice(&START);
    state[12] ^= hashed;
    if last {
        state[14] = !state[14];
    }
    for round in 0..12 {
        let order = &ORDER[round % 10];
        for (step, [a, b, c, d]) in COLUMNS.into_iter().enumerate() {
            let (x, y) = (words[order[2 * step]], words[order[2 * step + 1]]);
            for (word, first, second) in [(x, 32, 24), (y, 16, 63)] {
                state[a] = state[a].wrapping_add(state[b]).wrapping_add(word);
                state[d] = (state[d] ^ state[a]).rotate_right(first);
                state[c] = state[c].wrapping_add(state[d]);
                state[b] = (state[b] ^ state[c]).rotate_right(second);
            }
        }
    }
    for (index, word) in hash.iter_mut().enumerate() {
        *word ^= state[index] ^ state[index + 8];
    }
}
