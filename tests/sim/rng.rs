//! A small generator of reproducible randomness (splitmix64, Steele et al. 2014): a history must
//! be the same on every machine and with every version of every crate.

/// The source of everything that is left to chance in a history.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The history of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator of its own, so that one part's use of chance does not shift another's.
    pub fn fork(&mut self) -> Self {
        Self(self.word())
    }

    /// 64 random bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 128 random bits.
    pub fn wide(&mut self) -> u128 {
        (u128::from(self.word()) << 64) | u128::from(self.word())
    }

    /// A number from 0 to `bound` - 1; 0 when there is none.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.word().checked_rem(bound).unwrap_or(0)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True in so many of a hundred cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// An index into something of this length.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.index(among.len())]
    }

    /// Many small numbers and a few large ones, `mean` on average (an exponential distribution,
    /// drawn as straight lines between its powers of two so that no floating point is needed).
    pub fn tail(&mut self, mean: u64) -> u64 {
        let halvings = u64::from(self.word().leading_zeros().min(6));
        let thousandths = halvings * 1000 + self.below(1000);
        // 1.5 halvings on average, 7 at the most: 4.7 times the mean.
        mean.saturating_mul(thousandths) / 1500
    }

    /// So many different indices out of `0..length`, in random order.
    pub fn some_of(&mut self, length: usize, count: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..length).collect();
        for i in (1..length).rev() {
            all.swap(i, self.index(i + 1));
        }
        all.truncate(count);
        all
    }
}

#[test]
fn tail_has_the_mean_it_is_asked_for() {
    let mut rng = Rng::new(1);
    let sum: u64 = (0..10_000).map(|_| rng.tail(1000)).sum();
    assert!((950..1050).contains(&(sum / 10_000)), "{sum}");
}
