//! The meaning of terms to the operators of SPARQL: values, numbers, casts, digests, exact sums and
//! exact order. Imports `algebra` and `view`.

pub(crate) mod cast;
pub(crate) mod digest;
pub(crate) mod exact;
pub(crate) mod exact_order;
pub(crate) mod exact_sum;
pub(crate) mod lexical;
pub(crate) mod moments;
pub(crate) mod number;
pub(crate) mod quotient;
pub(crate) mod random;
pub(crate) mod running_sum;
pub(crate) mod term_key;
pub(crate) mod term_value;
