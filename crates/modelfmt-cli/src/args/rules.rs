//! `--cast`, `--dequantize` and `--quantize`: one list, in the order of the command line.

use clap::{ArgMatches, Args, Command, FromArgMatches};
use modelfmt::convert::TypeRule;
use modelfmt::wording::ParseError;

use crate::flags::Flags;

/// The rules of types, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuleArgs(pub(crate) Vec<TypeRule>);

/// The options as clap knows them: each by itself.
#[derive(Debug, Args)]
struct RuleOptions {
    /// Change floats to this type, or all numbers whose tensors' names match GLOB; values are rounded if necessary. This option and the next two may be
    /// repeated, and for each tensor the last one that matches counts, so give general ones first. DTYPE has its usual names: f16, fp16, float16, half
    #[arg(long, value_name = "[GLOB=]DTYPE", help_heading = "Values", value_parser = parser(TypeRule::parse_cast))]
    cast: Vec<TypeRule>,
    /// Decode block-quantized tensors to f32, f16 or bf16, multiply weights of 8 bits or fewer by the scales beside them, and apply the scales and
    /// zero points of OINF 2
    #[arg(long, value_name = "[GLOB=]f32|f16|bf16", help_heading = "Values", value_parser = parser(TypeRule::parse_dequantize))]
    dequantize: Vec<TypeRule>,
    /// Quantize float tensors of rank 2 and more whose rows are whole blocks: of 32 for q8_0, q4_0, q4_1, q5_0 and q5_1, of 256
    /// for q4_k, q5_k and q6_k; the others stay as they are. Or give each tensor the type that llama.cpp gives it: q4_k_m,
    /// q4_k_s, q5_k_m, q5_k_s, and with mostly_ before the name of a type, such as mostly_q8_0
    #[arg(long, value_name = "[GLOB=]TYPE|PRESET", help_heading = "Values", value_parser = parser(TypeRule::parse_quantize))]
    quantize: Vec<TypeRule>,
}

const IDS: [&str; 3] = ["cast", "dequantize", "quantize"];

/// Errors name the options of the program.
fn parser(
    parse: fn(&str) -> Result<TypeRule, ParseError>,
) -> impl Fn(&str) -> Result<TypeRule, String> + Clone + Send + Sync + 'static {
    move |text| parse(text).map_err(|unknown| unknown.in_words(&Flags))
}

impl Args for RuleArgs {
    fn augment_args(command: Command) -> Command {
        RuleOptions::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        RuleOptions::augment_args_for_update(command)
    }
}

impl FromArgMatches for RuleArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let of_option = |id: &str| {
            let places = matches.indices_of(id).into_iter().flatten();
            let rules = matches.get_many::<TypeRule>(id).into_iter().flatten();
            places.zip(rules.cloned()).collect::<Vec<_>>()
        };
        let mut rules: Vec<(usize, TypeRule)> = IDS.into_iter().flat_map(of_option).collect();
        rules.sort_by_key(|(place, _)| *place);
        Ok(Self(rules.into_iter().map(|(_, rule)| rule).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
