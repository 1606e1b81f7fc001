//! WatDiv's twenty basic templates with constants drawn so that the data has answers, as far as a
//! look at single products tells.

use super::products::Product;
use super::{AGE_GROUPS, CATEGORIES, CITIES, COUNTRIES, Kind, WatDiv};
use crate::NamedQuery;
use crate::random::Random;

const PREFIXES: &str = include_str!("../../queries/watdiv/prefixes.rq");

/// The templates; `%v%` stands for the constant.
const TEMPLATES: [(&str, &str); 20] = [
    ("L1", include_str!("../../queries/watdiv/L1.rq")),
    ("L2", include_str!("../../queries/watdiv/L2.rq")),
    ("L3", include_str!("../../queries/watdiv/L3.rq")),
    ("L4", include_str!("../../queries/watdiv/L4.rq")),
    ("L5", include_str!("../../queries/watdiv/L5.rq")),
    ("S1", include_str!("../../queries/watdiv/S1.rq")),
    ("S2", include_str!("../../queries/watdiv/S2.rq")),
    ("S3", include_str!("../../queries/watdiv/S3.rq")),
    ("S4", include_str!("../../queries/watdiv/S4.rq")),
    ("S5", include_str!("../../queries/watdiv/S5.rq")),
    ("S6", include_str!("../../queries/watdiv/S6.rq")),
    ("S7", include_str!("../../queries/watdiv/S7.rq")),
    ("F1", include_str!("../../queries/watdiv/F1.rq")),
    ("F2", include_str!("../../queries/watdiv/F2.rq")),
    ("F3", include_str!("../../queries/watdiv/F3.rq")),
    ("F4", include_str!("../../queries/watdiv/F4.rq")),
    ("F5", include_str!("../../queries/watdiv/F5.rq")),
    ("C1", include_str!("../../queries/watdiv/C1.rq")),
    ("C2", include_str!("../../queries/watdiv/C2.rq")),
    ("C3", include_str!("../../queries/watdiv/C3.rq")),
];

impl WatDiv {
    /// The twenty basic templates, filled in.
    pub fn queries(&self) -> Vec<NamedQuery> {
        let mut random = self.random(Kind::Constants, 0);
        TEMPLATES
            .iter()
            .map(|&(name, template)| {
                let constant = self.constant(name, &mut random);
                NamedQuery {
                    name,
                    text: format!("{PREFIXES}{}", template.replace("%v%", &constant)),
                }
            })
            .collect()
    }

    fn constant(&self, query: &str, random: &mut Random) -> String {
        // A genre or topic of some product that has what the query asks of it.
        let genre = |wanted: &dyn Fn(&Product) -> bool| {
            self.some_product(wanted)
                .and_then(|found| found.genres.first().copied())
                .unwrap_or_default()
        };
        let (kind, number) = match query {
            "L1" | "L3" => ("Website", random.skewed(self.websites(), 4)),
            "L2" | "L5" => ("City", random.below(CITIES)),
            "L4" => ("Topic", self.topic(&|product| product.caption)),
            "S1" | "F5" => ("Retailer", random.below(self.retailers())),
            "S2" => ("Country", random.skewed(COUNTRIES, 3)),
            "S3" => {
                let found = self.some_product(&|product| product.caption && product.publisher);
                let category = found.map(|product| product.category);
                ("ProductCategory", category.unwrap_or(CATEGORIES - 1))
            }
            "S4" => ("AgeGroup", random.skewed(AGE_GROUPS, 2)),
            "S5" => ("ProductCategory", random.skewed(CATEGORIES, 2)),
            "S6" => ("SubGenre", genre(&|product| product.conductor)),
            "S7" => ("User", self.user_who_likes(&|product| product.text)),
            "F1" => {
                let genre = genre(&|product| product.trailer && product.keywords);
                let topics = self.topics_of_genre(genre);
                ("Topic", topics.first().copied().unwrap_or_default())
            }
            "F2" => (
                "SubGenre",
                genre(&|product| {
                    product.homepage.is_some() && product.caption && product.description
                }),
            ),
            "F3" => ("SubGenre", genre(&|product| product.rating && product.size)),
            "F4" => (
                "Topic",
                self.topic(&|product| {
                    let homepage = product.homepage;
                    let language = homepage.and_then(|site| self.website_language(site));
                    language == Some(0) && product.description && product.size
                }),
            ),
            _ => return String::new(),
        };
        format!("wsdbm:{kind}{number}")
    }

    /// The first product with these properties: a low number, so that it is a popular one.
    fn some_product(&self, wanted: &dyn Fn(&Product) -> bool) -> Option<Product> {
        (0..self.products())
            .map(|number| self.product_of(number))
            .find(wanted)
    }

    fn topic(&self, wanted: &dyn Fn(&Product) -> bool) -> u32 {
        self.some_product(wanted)
            .and_then(|found| found.topics.first().copied())
            .unwrap_or_default()
    }

    fn user_who_likes(&self, wanted: &dyn Fn(&Product) -> bool) -> u32 {
        (0..self.users())
            .find(|&user| {
                let likes = self.likes(user);
                likes.iter().any(|&liked| wanted(&self.product_of(liked)))
            })
            .unwrap_or_default()
    }
}
