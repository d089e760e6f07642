//! Names of people and places.

use super::random::CorpusRandom;

const FIRST_NAMES: &[&str] = &[
    "Anna", "Ben", "Carla", "David", "Elena", "Frank", "Grace", "Hugo", "Ines", "Jonas", "Katrin", "Luis",
    "Maria", "Nils", "Olga", "Paul", "Rosa", "Stefan", "Tara", "Umar", "Vera", "Walter", "Xenia", "Yusuf",
    "Zoe", "Amir", "Bianca", "Chen", "Dora", "Emil", "Farah", "Goran", "Hana", "Ivan", "Julia", "Kofi",
    "Lena", "Marco", "Nadia", "Oscar", "Priya", "Quentin", "Ruth", "Samir", "Tomas", "Ulla", "Viktor",
    "Wanda",
];

const LAST_NAMES: &[&str] = &[
    "Keller", "Moreau", "Rossi", "Novak", "Silva", "Larsen", "Okafor", "Tanaka", "Petrov", "Schmidt",
    "Garcia", "Murphy", "Singh", "Weber", "Costa", "Jensen", "Haddad", "Kovacs", "Nguyen", "Fischer",
    "Martin", "Santos", "Virtanen", "Brown", "Yilmaz", "Dubois", "Horvat", "Lindgren", "Mensah", "Ito",
    "Bauer", "Romano", "Popescu", "Walsh", "Kaya", "Vogel", "Marino", "Svensson", "Ferreira", "Clark",
];

const DOMAINS: &[&str] = &[
    "northwind.example",
    "brightlab.example",
    "mailbox.example",
    "riverbank.example",
    "octavia.example",
    "home.example",
    "uni.example",
];

/// Sender or recipient of mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CorpusPerson {
    pub first: &'static str,
    pub last: &'static str,
    pub address: String,
}

impl CorpusPerson {
    /// The person with this number; different numbers have different addresses.
    pub(super) fn numbered(number: usize) -> Self {
        // Steps that share no divisor with the lengths: people with adjacent numbers have no name in common.
        let first = FIRST_NAMES[number.wrapping_mul(7) % FIRST_NAMES.len()];
        let last = LAST_NAMES[(number.wrapping_mul(11) + number / FIRST_NAMES.len()) % LAST_NAMES.len()];
        let domain = DOMAINS[number % DOMAINS.len()];
        let suffix = number / (FIRST_NAMES.len() * LAST_NAMES.len());
        let suffix = if suffix == 0 { String::new() } else { (suffix + 1).to_string() };
        let address = format!("{}.{}{suffix}@{domain}", first.to_lowercase(), last.to_lowercase());
        CorpusPerson { first, last, address }
    }

    pub(super) fn name(&self) -> String {
        format!("{} {}", self.first, self.last)
    }

    /// Name of their mailbox.
    pub(super) fn mailbox(&self) -> &str {
        self.address.split('@').next().unwrap_or(&self.address)
    }
}

/// Contacts of the owner of a mailbox, the most frequent first.
pub(super) fn contacts(owner: usize, random: &mut CorpusRandom) -> Vec<CorpusPerson> {
    let count = random.between(6, 40) as usize;
    (0..count)
        .map(|_| random.below(2_000))
        .filter(|&number| number != owner)
        .map(CorpusPerson::numbered)
        .collect()
}
